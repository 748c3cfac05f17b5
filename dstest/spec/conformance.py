"""What a comparison of records with a specification came to, as data and as text."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from dstest.spec.model import Count
from dstest.spec.taking import GuardUse

Verdict = Literal["accept", "reject", "inconclusive", "vacuous"]

SHOWN_MAX: Final = 8
"""How many states and refusals are told."""

TEXT_MAX: Final = 1500
"""Of one of them, for people, in characters."""


class Refusal(msgspec.Struct, frozen=True):
    """A step that the record may stand for, what refused it, and in how many states."""

    step: str
    by: str
    states: int


class Swap(msgspec.Struct, frozen=True):
    """Two records, exchanged: the places that they had, and `rejected_at`, that of the one of them
    which was refused where it then stood."""

    index: int
    other: int
    rejected_at: int
    first: str
    second: str
    refused_by: list[str]


class AlteredRecords(msgspec.Struct):
    """Records of one kind whose output was replaced by another, and how many were then refused.

    `nobodys` are those with an output that no record has, and how many of these were refused.
    `accepted` is the first that was taken as well, in words."""

    kind: str
    tried: int = 0
    refused: int = 0
    nobodys: int = 0
    nobodys_refused: int = 0
    accepted: str = ""


class ConformResult(msgspec.Struct, kw_only=True):
    """`accept`: all records together are a behaviour of the specification, and a wrong order of two
    of them is none. `reject`: no behaviour has them up to `index`. `inconclusive`: more states than
    were allowed. `vacuous`: nothing could have been rejected, for the reasons in `weak`.

    `index` counts from 0, over all completions of a history or all lines of a log; `consumed` of
    `total` were explained. `frontier` are the states before the record that was refused. `unknown`
    are operations of unknown outcome: `unknown_happened` of them took effect in each behaviour that
    explains the rest, and `unknown_taken` is how often one was taken to have had an effect;
    `failed` had none for certain. `unread` are unknown ones that only read. `guards` were
    asked while the records were replayed as they are, and those that were never false were not
    needed. `compared` are the fields that were looked at, by kind. `missing` are lines that could
    not be compared, by why; with `ignored` they are what was passed over.
    """

    verdict: Verdict
    model: str
    mode: Literal["history", "log"]
    consumed: int
    total: int
    index: int | None = None
    record: str = ""
    op_id: int | str | None = None
    states: int = 0
    frontier: list[str] = msgspec.field(default_factory=list)
    refusals: list[Refusal] = msgspec.field(default_factory=list)
    reason: str = ""
    weak: list[str] = msgspec.field(default_factory=list)
    frontier_peak: int = 0
    parts: int = 0
    unknown: int = 0
    unread: int = 0
    unknown_taken: int = 0
    unknown_happened: int = 0
    failed: int = 0
    gaps: int = 0
    ignored: dict[str, int] = msgspec.field(default_factory=dict)
    missing: dict[str, int] = msgspec.field(default_factory=dict)
    compared: dict[str, list[str]] = msgspec.field(default_factory=dict)
    taken: dict[str, int] = msgspec.field(default_factory=dict)
    counts: dict[str, Count] = msgspec.field(default_factory=dict)
    guards: list[GuardUse] = msgspec.field(default_factory=list)
    constants: dict[str, str] = msgspec.field(default_factory=dict)
    swap: Swap | None = None
    swaps_tried: int = 0
    altered: list[AlteredRecords] = msgspec.field(default_factory=list)
    without_guards: bool | None = None
    meaning: str = ""

    @property
    def never_false(self) -> list[str]:
        """Guards that could have been left out: they held whenever they were asked, or were never
        asked."""
        return [f"{one.action}: {one.guard}" for one in self.guards if not one.false]

    @property
    def never_taken(self) -> list[str]:
        """Actions that nothing in these records stood for."""
        return [name for name, times in self.taken.items() if not times]


def as_data(said: ConformResult) -> dict[str, Any]:
    """For JSON."""
    found = msgspec.to_builtins(said)
    found["ignored"] |= found.pop("missing")
    return {**found, "never_false": said.never_false, "never_taken": said.never_taken}


def lines(said: ConformResult) -> list[str]:
    """For people."""
    what = "completions" if said.mode == "history" else "lines"
    found = [f"{said.verdict}: {said.consumed} of {said.total} {what} of {said.model}"]
    if said.verdict == "reject":
        found += _rejected(said)
    if said.reason:
        found.append(said.reason)
    found += [f"weak: {why}" for why in said.weak]
    found += _left_out(said)
    found += [
        f"invariant {id_}: {count.passed} times true, {count.failed} times false"
        for id_, count in said.counts.items()
    ]
    if said.swap is not None:
        swap = said.swap
        found.append(
            f"control: {swap.first} exchanged with {swap.second} ({swap.index}, {swap.other}) is "
            f"rejected at {swap.rejected_at} by {', '.join(swap.refused_by)}"
        )
    found += [
        f"control: {one.refused} of {one.tried} other outputs of {one.kind} are rejected, of those "
        f"that nobody had {one.nobodys_refused} of {one.nobodys}"
        + (f" (accepted: {one.accepted})" if one.accepted else "")
        for one in said.altered
    ]
    if said.never_false:
        found.append(f"guards that were never false: {', '.join(said.never_false)}")
    if said.never_taken:
        found.append(f"actions that nothing stood for: {', '.join(said.never_taken)}")
    return [*found, said.meaning] if said.meaning else found


def _rejected(said: ConformResult) -> list[str]:
    who = "" if said.op_id is None else f" (operation {said.op_id})"
    found = [f"at {said.index}{who}: {_short(said.record)}"]
    found.append(f"in none of {said.states} states before it:")
    found += [f"  {_short(state)}" for state in said.frontier]
    if said.states > len(said.frontier):
        found.append(f"  and {said.states - len(said.frontier)} more")
    return [*found, *(f"  {_short(r.step)}: {r.by} ({r.states} states)" for r in said.refusals)]


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 4]} ..."


def _left_out(said: ConformResult) -> list[str]:
    ignored = sorted({**said.ignored, **said.missing}.items())
    found = [f"ignored: {count} of kind {kind}" for kind, count in ignored]
    if said.failed:
        found.append(f"left out: {said.failed} that failed and had no effect")
    if said.unread:
        found.append(f"left out: {said.unread} reads of unknown outcome")
    if said.unknown:
        found.append(
            f"unknown outcome: {said.unknown} operations, of which {said.unknown_happened} took "
            "effect for certain"
        )
    return found
