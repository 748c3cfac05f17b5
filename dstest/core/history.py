"""A sealed history, a header and the operations in order of invocation, and the fault windows of
its run.

The header names what the operations alone cannot tell: model, seed, clock source, fault windows and
the recorder's own counters. A window is from when a fault was injected until nothing shows it any
more; whoever asks "was a fault at work then?" asks a `FaultWindow`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dstest.core.evidence import Landed, LandingRecord, PathDetails
from dstest.core.op import Op

RUN_END_NS = 2**63 - 1
"""The end of a run of which nobody knows when it ended: later than any time."""

_IN_FILES = {
    "id": "fault",
    "start_ns": "inject_start",
    "landed_ns": "landed_at",
    "heal_ns": "heal_start",
    "healed_ns": "healed_at",
    "until_ns": "until",
}

SCHEMA = "dstest.history/1"

INITIAL = "initial"
"""The option of a header that says what the objects start with, null included; where it is not
there they start as usual."""

NOT_READ = "not read: "
"""Begins the names of counters of fields that nobody reads."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """When no fault stood any more, and since when the load went well again; None = never, until
    the next fault or the end."""

    healed_ns: int
    settled_ns: int | None


class FaultWindow(msgspec.Struct, frozen=True, kw_only=True, rename=_IN_FILES):
    """One fault. It does its work from `start_ns` on and is proven at `landed_ns`; its heal began
    at `heal_ns` and was over at `healed_ns`, None while it stands. Its effects last until
    `until_ns`: the load went well again, as measured, or the next fault began; None where neither
    came before the end, and in a history that does not say.
    `nodes` are all that it was done to, none for the whole system. `epoch` is what
    operations are marked with, `id` the name of the fault in its plan, where that is known."""

    epoch: str
    nemesis: str
    start_ns: int
    landed_ns: int | None = None
    heal_ns: int | None = None
    healed_ns: int | None = None
    until_ns: int | None = None
    id: str = ""
    kind: str = ""
    nodes: tuple[str, ...] = ()
    landed: Landed = "ambiguous"
    heal_verified: bool = False

    def __post_init__(self) -> None:
        if not self.id:
            msgspec.structs.force_setattr(self, "id", self.epoch)

    @property
    def targets(self) -> str:
        """The nodes in words."""
        return ", ".join(self.nodes) or "-"

    @property
    def name(self) -> str:
        """`f1 (partition)`, and whether it is proven that it was one."""
        proven = "" if self.landed == "yes" else ", not proven to have landed"
        return f"{self.id} ({self.nemesis}{proven})"

    @property
    def ended(self) -> str:
        """What became of it at `healed_ns`."""
        return "was healed" if self.heal_verified else "was taken back, which is not proven"

    def stands(self, first_ns: int, last_ns: int) -> bool:
        """Does it stand at any moment from `first_ns` to `last_ns`, both included?"""
        return self.start_ns <= last_ns and (self.healed_ns is None or self.healed_ns >= first_ns)

    def shows(self, first_ns: int, last_ns: int) -> bool:
        """As `stands`, until its effects end."""
        until_ns = None if self.healed_ns is None else self.until_ns
        return self.start_ns <= last_ns and (until_ns is None or until_ns >= first_ns)

    def met_by(self, op: Op) -> bool:
        """Did an operation run while it stood, by its times or by what it was marked with?"""
        return op.fault_epoch == self.epoch or ran_during(op, self.start_ns, self.healed_ns)

    def about(self, nodes: frozenset[str]) -> bool:
        """Was it done to one of these nodes? Yes where either names none."""
        return not nodes or not self.nodes or not nodes.isdisjoint(self.nodes)

    def explains(self, time_ns: int, node: str = "", doubt_ns: int = 0) -> bool:
        """Can what was seen of a node at a moment, of the system where none is named, be its
        effect? `doubt_ns` is how far the clock that told the moment may be off."""
        return (
            self.landed == "yes"
            and self.shows(time_ns - doubt_ns, time_ns + doubt_ns)
            and self.about(frozenset({node} - {""}))
        )


def kind_of(record: LandingRecord) -> str:
    """`one, in, drop`: the facts that say which fault of its family it was."""
    paths = PathDetails.of(record)
    words = (paths.shape, paths.direction, paths.action)
    return ", ".join(str(word) for word in words if word)


def window_of(
    record: LandingRecord,
    recoveries: Sequence[Recovery] = (),
    starts: Sequence[int] = (),
    landed: Landed | None = None,
    *,
    strict: bool = False,
) -> FaultWindow | None:
    """None where the fault was never injected. `starts` are the begins of all faults of the run, in
    order; `landed` is what the judge has made of what the record claims. `strict`: effects that
    nobody measured end with the heal, as for whatever a fault would excuse."""
    if record.injected_at is None:
        return None
    return FaultWindow(
        id=record.fault_id,
        epoch=record.epoch,
        nemesis=record.nemesis,
        kind=kind_of(record),
        nodes=tuple(map(str, record.targets)),
        landed=record.landed if landed is None else landed,
        heal_verified=record.heal_verified,
        start_ns=record.injected_at,
        landed_ns=record.landed_at,
        heal_ns=record.heal_start,
        healed_ns=record.healed_at,
        until_ns=_until_ns(record.healed_at, recoveries, starts, strict=strict),
    )


def starts_of(records: Sequence[LandingRecord]) -> list[int]:
    """When the faults of a run began, in order."""
    return sorted(one.injected_at for one in records if one.injected_at is not None)


def windows_of(
    records: Sequence[LandingRecord], recoveries: Sequence[Recovery] = (), *, strict: bool = False
) -> list[FaultWindow]:
    """Of the faults whose injection began, in order of time; `strict` as of `window_of`."""
    starts = starts_of(records)
    found = (window_of(record, recoveries, starts, strict=strict) for record in records)
    return sorted((one for one in found if one is not None), key=lambda one: one.start_ns)


def _until_ns(
    healed_ns: int | None, recoveries: Sequence[Recovery], starts: Sequence[int], *, strict: bool
) -> int | None:
    if healed_ns is None:
        return None
    for one in recoveries:
        # Recoveries tell of the last heal before them; one may stand for several faults.
        if one.healed_ns >= healed_ns:
            until = one.settled_ns
            if until is None:
                until = next((start for start in starts if start > one.healed_ns), None)
            # The load is looked at once a second, and may go well before all of a heal is done.
            return until if until is None else max(until, healed_ns)
    if strict:
        return healed_ns
    return next((start for start in starts if start > healed_ns), None)


def epochs_of(op: Op, windows: Sequence[FaultWindow], end_ns: int) -> list[str]:
    """Epochs whose window `[start_ns, healed_ns]` the operation overlaps, in window order.

    An operation without completion lasts until `end_ns`, the end of the run.
    """
    return [w.epoch for w in windows if ran_during(op, w.start_ns, w.healed_ns, end_ns)]


def ran_during(op: Op, start_ns: int, end_ns: int | None, run_end_ns: int = RUN_END_NS) -> bool:
    """Whether an operation overlaps `[start_ns, end_ns]`: what "inside a fault window" means, whose
    first one `Op.fault_epoch` names. What never completed, and a window without an end, last until
    `run_end_ns`."""
    last = run_end_ns if op.complete_ts is None else op.complete_ts
    return op.invoke_ts <= (run_end_ns if end_ns is None else end_ns) and last >= start_ns


class ClockSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time stamps come from."""

    name: str = "CLOCK_MONOTONIC"
    resolution_ns: int = 1
    boot_id: str = ""
    host: str = ""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """First line of `history.jsonl`. Unknown facts of an imported history stay None."""

    schema: str = SCHEMA
    run: str | None = None
    workload: str | None = None
    model: str | None = None
    checkers: list[str] = msgspec.field(default_factory=list)
    system: str | None = None
    system_version: str | None = None
    nodes: list[str] = msgspec.field(default_factory=list)
    concurrency: int | None = None
    seed: int | None = None
    vantage: str = "client"
    clock: ClockSource | None = None
    rate: float | None = None
    time_limit_s: float | None = None
    windows: list[FaultWindow] = msgspec.field(default_factory=list)
    counters: dict[str, int] = msgspec.field(default_factory=dict)
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    source: str | None = None


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Operations ordered by `invoke_ts`, with what is known about how they were recorded."""

    header: Header
    ops: list[Op]
