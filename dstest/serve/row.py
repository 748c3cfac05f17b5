"""What is known of a run, and of what has runs, at a glance."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from dstest.core.errors import Exit
from dstest.core.verdict import State

Standing = Literal["judged", "running", "died", "damaged"]
STANDINGS: Final[tuple[Standing, ...]] = ("running", "died", "damaged")
"""Those that are no verdict."""

_FAILED: Final = frozenset(state.value for state in State if state.failed)


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What a run tested; runs that share all but the seed have the same `id`."""

    id: str = ""
    system: str = ""
    version: str = ""
    workload: str = ""
    nemesis: str = ""
    model: str = ""
    nodes: int = 0
    seed: str = ""

    @property
    def cell(self) -> tuple[str, str, str]:
        """What trends are of."""
        return self.system, self.workload, self.nemesis


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What takes a history to know: how a run served, as `dstest compare` measures it; None where
    there is no value. `why` says why there are none at all. `headline` is that of its report, for a
    run that failed. `whys` are, by metric, why a single one has no value."""

    ok_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    ok_ratio: float | None = None
    unknown_ratio: float | None = None
    gap_s: float | None = None
    why: str = ""
    headline: str = ""
    whys: dict[str, str] = msgspec.field(default_factory=dict)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A run. `ref` is its path below the store, `within` that of the session, plan or night that it
    is a part of.

    `said` is the verdict as verdict.json has it, and counts only where `standing` is `judged`: the
    small files of the run are as they were summed up, and its verdict follows from its evidence.
    `why` is the reason of the verdict, or why there is none to be believed. `exit_code` is what
    `dstest report` exits with if it judges as the files say. `key` tells whether its files changed
    since it was read. `headline` says what the database did wrong, as far as that is known without
    its history. `bug` is what kind of bug its first violation shows, and under which faults; empty
    where that is not known. `recorded_bytes` are those of its operations, where it is judged.
    """

    ref: str
    within: str = ""
    key: str = ""
    standing: Standing
    said: str = ""
    why: str
    headline: str = ""
    exit_code: int = int(Exit.NOT_PROVEN)
    ended_by: str = ""
    rule: str = ""
    started: str = ""
    test: Tested = Tested()
    by: str = ""
    operations: int = 0
    planned: int = 0
    landed: int = 0
    anomalies: tuple[str, ...] = ()
    fingerprints: tuple[str, ...] = ()
    bug: str = ""
    reproducer: str = ""
    asides: tuple[str, ...] = ()
    recorded_bytes: int = 0

    @property
    def judged(self) -> bool:
        return self.standing == "judged"

    @property
    def word(self) -> str:
        """The verdict, or what stands in its place. A run that ended early is never a pass."""
        if not self.judged:
            return self.standing
        return f"{self.said} (ended early)" if self.short else self.said

    @property
    def short(self) -> bool:
        """Its verdict would be a pass, but it did not come to its end."""
        return self.said.startswith("PASS") and self.exit_code != Exit.PASS

    @property
    def failed(self) -> bool:
        """It says that it found a violation, whether it may be believed or not."""
        return self.said in _FAILED

    @property
    def tone(self) -> str:
        """The class of style.css: a pass only where it exits with 0."""
        if self.judged and self.failed:
            return "fail"
        return "pass" if self.judged and self.exit_code == Exit.PASS else "open"


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A session, executed plan or night. `said` is what it says that it came to; `doubt` why that
    is not to be believed, empty where nothing speaks against it. `sealed`: its own file is as it
    was summed up."""

    ref: str
    kind: str
    key: str = ""
    said: str
    life: str
    started: str
    doubt: str = ""
    sealed: bool = False
