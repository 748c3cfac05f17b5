"""What a run came to, at a glance: made once, when it is judged, and kept in verdict.json. Pages,
JUnit, SARIF, the index of a store, nights and known issues are views of it."""

from __future__ import annotations

from math import inf

import msgspec

from dstest.core.check import Spread
from dstest.core.history import FaultWindow, Recovery


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What a run tested; runs that share all but the seed have the same `id`. `settings` are the
    `-o` that were given."""

    id: str = ""
    system: str = ""
    version: str = ""
    workload: str = ""
    nemesis: str = ""
    model: str = ""
    nodes: int = 0
    seed: int | None = None
    settings: tuple[str, ...] = ()

    @property
    def cell(self) -> tuple[str, ...]:
        """What trends are of: system, workload, nemesis, and each setting."""
        return self.system, self.workload, self.nemesis, *sorted(self.settings)

    @property
    def seed_text(self) -> str:
        """Empty where it is not known."""
        return "" if self.seed is None else str(self.seed)

    @property
    def versioned(self) -> str:
        """`etcd 3.5.16`."""
        return f"{self.system} {self.version}".strip()


class TypeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One operation type: how many ended how, and latencies of the good ones in milliseconds, from
    when they were sent; of an open load from when they were due besides."""

    op_type: str
    total: int
    ok: int
    fail: int
    unknown: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    due_p50_ms: float | None = None
    due_p99_ms: float | None = None
    due_max_ms: float | None = None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How a run served, by the metrics of `dstest compare`; None where there is no value: `whys`
    says by metric why, and `why` where there is none at all. `unbounded` are those that are
    infinite, since an answer never came, for which JSON has no number; `of` has them, too."""

    ok_per_s: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    ok_ratio: float | None = None
    unknown_ratio: float | None = None
    gap_s: float | None = None
    why: str = ""
    whys: dict[str, str] = msgspec.field(default_factory=dict)
    unbounded: tuple[str, ...] = ()

    def of(self, metric: str) -> float | None:
        """The value of one."""
        return inf if metric in self.unbounded else getattr(self, metric)


class KindCount(msgspec.Struct, frozen=True, kw_only=True):
    """All anomalies of a kind that a checker found, with a witness or not; `spread` says at which
    nodes, on which keys, in which windows and when, where the checker counts that."""

    checker: str
    kind: str
    count: int
    spread: Spread | None = None


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly with a witness. `told_ns` is when it showed, in run time; `lines` are those of
    history.jsonl that hold its witness, the telling one first, of a long one not all."""

    checker: str
    type: str
    key: str
    explanation: str
    did: str
    means: str
    where: str
    fingerprint: str
    start_ns: int | None = None
    told_ns: int | None = None
    lines: tuple[int, ...] = ()


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a judged run says of itself, beside the words of its verdict.

    `run` is its name, `dstest` the version that made it. `origin_ns` is when its clock began, in
    nanoseconds since 1970, None where it did not write that down; `end_ns` is the last moment of
    its history, `load_end_ns` when its load was told to end. `headline` is what the system did
    wrong in a sentence, empty where the verdict does not say that it did; `exactly` says more.
    `counted` are all anomalies by checker and kind, `anomalies` how many there are in all, those
    that several checkers found once. `bug` is what kind of bug the first violation shows, and under
    which faults, `found_s` the seconds of load until it was complete. `operations` are those that
    were judged."""

    run: str
    dstest: str
    started: str
    origin_ns: int | None
    test: Tested
    command: str
    lab: str
    transport: str
    tier_met: str
    tier_wanted: str
    ended_by: str
    headline: str
    exactly: str
    bug: str
    found_s: float | None
    fingerprints: tuple[str, ...]
    faults_planned: int
    faults_landed: int
    faults: tuple[FaultWindow, ...]
    recoveries: tuple[Recovery, ...]
    load_s: float
    end_ns: int
    load_end_ns: int | None
    operations: int
    types: tuple[TypeRow, ...]
    figures: Figures
    counted: tuple[KindCount, ...]
    anomalies: int
    violations: tuple[Violation, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of all anomalies, each once."""
        return tuple(sorted({one.kind for one in self.counted}))

    @property
    def requests(self) -> int:
        """Operations of the history, judged or not."""
        return sum(row.total for row in self.types)
