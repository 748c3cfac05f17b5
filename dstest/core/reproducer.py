"""What a failing run comes to when it is made small: `RUN.shrink/reproducer.json`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from dstest.core.rates import interval

REPRODUCER: Final = "reproducer.json"
SCRIPT: Final = "repro.sh"
SCHEMA: Final = "dstest.reproducer/1"


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """In how many runs of how many a violation came. `simulations`: how many different ones the
    runs were, by their digests; unset on nodes."""

    runs: int = 0
    came: int = 0
    simulations: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def share(self) -> float:
        """Of the runs; 0 without any."""
        return self.came / self.runs if self.runs else 0.0

    @property
    def said(self) -> str:
        """In words, with the interval in which the true rate lies (95 %, Wilson). Of one simulation
        there is none: however often it is run, it is one sample."""
        if not self.runs:
            return "not measured"
        if self.simulations is not msgspec.UNSET:
            which = (
                "one simulation, byte for byte"
                if self.simulations == 1
                else f"{self.simulations} simulations of one seed"
            )
            return f"{self.came} of {self.runs} runs, {which}"
        rate = interval(self.came, self.runs)
        return f"{self.came} of {self.runs} runs ({rate.low:.0%} to {rate.high:.0%})"


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large a run is. `operations` are those that its clients asked for, where a run told."""

    events: int
    kinds: list[str]
    time_limit_s: float
    nodes: int
    clients: int
    rate: float | None
    op_types: list[str]
    operations: int | None = None


class Reproducer(msgspec.Struct, frozen=True, kw_only=True):
    """`run` is the path of the run, `history_sha256` tells which one it is; `candidate` is the
    small one in `progress.json`. `fingerprint` names the violation. `runs` is how many were made to
    get here. `rate_before` and `rate_after` say how often it comes in the run as it was, where that
    was measured, and in the small one. `landed` is how many of its faults were proven in the runs
    in which it came, at the least. `history_ops` is before and after, None where no part of the
    history shows it alone. `stopped` says why the search ended early, empty where nothing more
    could be left out. `builds` are those that the nodes had instead of Debian's."""

    schema: str = SCHEMA
    run: str
    history_sha256: str
    candidate: str
    dstest: str
    system: str
    system_version: str | None
    workload: str
    fingerprint: str
    explanation: str
    seed: int
    before: Size
    after: Size
    runs: int
    rate_before: Rate | None
    rate_after: Rate
    confirmed: bool
    landed: int
    history_ops: tuple[int, int | None]
    stopped: str
    schedule: dict[str, Any] | None
    options: list[str]
    command: str
    builds: list[str] = msgspec.field(default_factory=list)
