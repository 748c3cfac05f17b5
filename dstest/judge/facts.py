"""`RunFacts`: all that the judge is told about one run, the numbers that it derives from it, and
how much a run must have done to count as smoke, hardening or release.

The runner fills the facts in once the history is sealed; nothing here is guessed: what nobody
measured stays None or empty, and the audit calls its row short. Times are run nanoseconds. A tier
is met when every one of its numbers is reached; without a nemesis none of faults is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from dstest.core.check import GATED, CheckResult, Fields
from dstest.core.evidence import (
    SMOKE_S,
    Budgets,
    Canary,
    LandingRecord,
    PageCache,
    Rerun,
    Tier,
    Transport,
)
from dstest.core.history import History, Recovery
from dstest.core.op import Op, Outcome

SECOND_NS = 1_000_000_000

TIER_NEEDS: Final[dict[Tier, dict[str, float]]] = {
    "smoke": {"duration_s": SMOKE_S, "nodes": 3, "faults": 1, "seeds": 1, "ops": 500},
    "hardening": {"duration_s": 300, "nodes": 5, "faults": 10, "seeds": 3, "ops": 20_000},
    "release": {"duration_s": 3600, "nodes": 5, "faults": 100, "seeds": 10, "ops": 1_000_000},
}

UNITS: Final = {
    "duration_s": "seconds of load",
    "nodes": "nodes",
    "faults": "landed faults",
    "seeds": "agreeing seeds",
    "ops": "operations",
}


class ProcessEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened on a node between two looks: `after_ns` and `before_ns`."""

    node: str
    what: str
    after_ns: int
    before_ns: int


class ProcessFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All looks of a run. `offered` is False where the system does not say which processes serve.

    `lives` counts per node the processes that were seen to serve one after the other,
    `lives_by_log` the same per service, by the name of the log that tells of its starts; `ends` are
    those that were gone at the next look, `unseen` the stretches longer than they should be in
    which a node could not be asked. `oom_kills` are processes that the kernel killed for lack of
    memory, `cores` the core files by node, and `cores_elsewhere` the nodes whose kernel hands cores
    to a program. `untaken` says what could not be looked at, `looks` how often each node was looked
    at.
    """

    offered: bool = True
    looks: dict[str, int] = msgspec.field(default_factory=dict)
    lives: dict[str, int] = msgspec.field(default_factory=dict)
    lives_by_log: dict[str, dict[str, int]] = msgspec.field(default_factory=dict, name="lives_told")
    ends: list[ProcessEvent] = msgspec.field(default_factory=list)
    unseen: list[ProcessEvent] = msgspec.field(default_factory=list)
    oom_kills: list[ProcessEvent] = msgspec.field(default_factory=list)
    cores: dict[str, list[str]] = msgspec.field(default_factory=dict)
    untaken: list[str] = msgspec.field(default_factory=list)
    cores_elsewhere: list[str] = msgspec.field(default_factory=list)
    until_ns: int = 0


class ClockFact(msgspec.Struct, frozen=True, kw_only=True):
    """Wall time minus monotonic time of one host at the start and at the end of the run, in ns."""

    host: str
    wall_minus_mono_start_ns: int
    wall_minus_mono_end_ns: int


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the system's log that looks like trouble. `ts` is None where nobody knows when it
    was; where it is that of a line before it, it may have been as late as `until`.

    `kind` is one of `alarm_kinds.KINDS`; `certain`: it cannot mean anything else.
    """

    node: str
    line: str
    ts: int | None = None
    until: int | None = None
    expected: bool = False
    kind: str = "alarm"
    certain: bool = False


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in which a load worker asked for nothing."""

    worker: str
    start_ns: int
    end_ns: int


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """What the tap on one client saw: `calls` that the client handed to its library, `requests`
    that then left it, over so many `connections`. `known`: all bytes could be read as requests.
    """

    worker: int
    node: str
    calls: int
    requests: int
    connections: int
    known: bool


class MeasuredBaseline(msgspec.Struct, frozen=True, kw_only=True):
    """The baseline that was measured before the first fault, after a warm-up (`debug.monitor`).
    `accepted`: it held still. It is compared with besides the seconds before the first fault."""

    accepted: bool
    ok_per_s: float
    p99_ms: float
    said: str


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One finished run.

    `ended_by` says what ended the run before its time, None where nothing did. `results` and
    `checker_kinds` are by checker name; `checker_kinds` uses the kinds of
    `Evidence.oracle_kinds`. `node_of_process` names the node that each process talks to;
    those of nodes in `served_elsewhere` are sent on to others, so that counts of operations at
    such a node say nothing of it.
    `log_lines` counts the log lines that were scanned per node, None where the system has no logs;
    `log_gaps` says what of them is missing, `logless` are members that have none.
    `processes` is what was seen of the system's processes, None where nobody looked. `explains` and
    `page_cache` are what nemeses say of themselves, by name: which alarms their faults explain on
    the nodes that they are aimed at, and what becomes of unsynced writes.
    `settled_ns` is since when, after the last heal, the load has gone well without a break, as the
    runner saw it. `load_end_ns` is when the load was told to end, None where nothing came after it.
    `minimum` says how many good operations of a type the workload needs to prove anything; each
    type in it must have been asked for.
    `healthy` says per node whether it served after the settle phase, `residue` what the leak audit
    found. `replicas` is each member's state once nobody wrote any more, None where
    the system cannot tell. `members_at` is who was a member as each fault was injected, by fault,
    None where the system has no membership. `workers` is how many load workers there were, each
    with a tap. `measured` is None of a run that was not sampled. `problems` are steps of the
    clean-up that failed, `recoveries` the heals, in order.
    `conflict_errors` are the system's. `claims` and `fields` are the workload's, `options` the
    run's. `seeds_agreeing` counts runs of
    this spec with other seeds and the same verdict, this one included. `mismatches` and `forgiven`
    are what the reconciliation of the record found wrong, and what a writer that died explains.
    `tier_wanted` is the budget that the user asked for, `members_most` how many members the system
    has at most, None where that is not known. `built_in` are violations that nobody had to ask for.
    `transport` is the path that was declared; `failures` are ends of simulated servers, and errors
    in them, that no fault had asked for, None where there was no simulation.
    """

    history: History
    records: list[LandingRecord] = msgspec.field(default_factory=list)
    faults_planned: int = 0
    attempted: bool = True
    ended_by: str | None = None
    missing_capability: list[str] = msgspec.field(default_factory=list)
    claims: frozenset[str] = frozenset({"safety"})
    fields: Fields = msgspec.field(default_factory=Fields)
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    checkers_declared: list[str] = msgspec.field(default_factory=list)
    results: dict[str, CheckResult] = msgspec.field(default_factory=dict)
    checker_kinds: dict[str, str] = msgspec.field(default_factory=dict)
    canary: Canary = msgspec.field(default_factory=Canary)
    rerun: Rerun = msgspec.field(default_factory=Rerun)
    mismatches: list[str] = msgspec.field(default_factory=list)
    forgiven: list[str] = msgspec.field(default_factory=list)
    node_of_process: dict[int | str, str] = msgspec.field(default_factory=dict)
    served_elsewhere: frozenset[str] = frozenset()
    conflict_errors: frozenset[str] = frozenset()
    generator_gaps: list[Gap] = msgspec.field(default_factory=list)
    op_timeout_s: float = 5.0
    measured: MeasuredBaseline | None = None
    clocks: list[ClockFact] = msgspec.field(default_factory=list)
    log_lines: dict[str, int] | None = None
    alarms: list[Alarm] = msgspec.field(default_factory=list)
    log_gaps: list[str] = msgspec.field(default_factory=list)
    logless: frozenset[str] = frozenset()
    processes: ProcessFacts | None = None
    explains: dict[str, list[str]] = msgspec.field(default_factory=dict)
    page_cache: dict[str, PageCache] = msgspec.field(default_factory=dict)
    settled_ns: int | None = None
    load_end_ns: int | None = None
    minimum: dict[str, int] = msgspec.field(default_factory=dict)
    healthy: dict[str, bool] = msgspec.field(default_factory=dict)
    residue: dict[str, list[str]] = msgspec.field(default_factory=dict)
    replicas: dict[str, str | None] | None = None
    members_at: dict[str, list[str]] | None = None
    problems: list[str] = msgspec.field(default_factory=list)
    recoveries: list[Recovery] = msgspec.field(default_factory=list)
    wire: list[Wire] = msgspec.field(default_factory=list)
    workers: int = 0
    seeds_agreeing: int = 1
    members_most: int | None = None
    built_in: list[CheckResult] = msgspec.field(default_factory=list)
    node_counts_run: list[int] = msgspec.field(default_factory=list)
    tier_wanted: Tier = "smoke"
    transport: Transport = "network"
    failures: list[str] | None = None

    @property
    def serious(self) -> bool:
        """Is any claim made that only a history of operations can falsify?"""
        return bool(self.claims & GATED)

    @property
    def load(self) -> list[Op]:
        """The operations of the load, without those that read the final state after it."""
        end_ns = self.load_end_ns
        ops = self.history.ops
        return ops if end_ns is None else [op for op in ops if op.invoke_ts < end_ns]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Operations invoked in a stretch of time: how many, how they ended, and how long they took.

    `raced` were refused since they raced with another one.
    """

    ops: int = 0
    ok: int = 0
    raced: int = 0
    seconds: float = 0.0
    p99_ms: float | None = None

    @property
    def ok_share(self) -> float:
        """Share of operations that ended well, 0 without any."""
        return self.ok / self.ops if self.ops else 0.0

    @property
    def raced_share(self) -> float:
        """Share of operations that lost a race, 0 without any."""
        return self.raced / self.ops if self.ops else 0.0

    @property
    def ok_per_s(self) -> float:
        """Good operations per second, 0 for an empty stretch."""
        return self.ok / self.seconds if self.seconds > 0 else 0.0


def agree(replicas: Mapping[str, str | None]) -> bool:
    """Did every member answer, and all alike?"""
    return bool(replicas) and all(replicas.values()) and len(set(replicas.values())) == 1


def pace(ops: list[Op], start_ns: int, end_ns: int, conflict_errors: frozenset[str]) -> Pace:
    """Pace of the operations invoked in `[start_ns, end_ns)`."""
    inside = [op for op in ops if start_ns <= op.invoke_ts < end_ns]
    refused = [op.error or "" for op in inside if op.outcome is Outcome.FAIL]
    raced = sum(1 for error in refused if error.partition(":")[0] in conflict_errors)
    times = sorted(
        op.complete_ts - op.invoke_ts
        for op in inside
        if op.complete_ts is not None and op.outcome is Outcome.OK
    )
    p99_ms = times[math.ceil(0.99 * len(times)) - 1] / 1e6 if times else None
    return Pace(
        ops=len(inside),
        ok=len(times),
        raced=raced,
        seconds=max(0, end_ns - start_ns) / 1e9,
        p99_ms=p99_ms,
    )


def windows_of(facts: RunFacts, end_ns: int) -> list[tuple[int, int]]:
    """`[start, end]` of each injected fault, in order; a fault that stands lasts to `end_ns`."""
    return sorted(
        (r.injected_at, end_ns if r.healed_at is None else r.healed_at)
        for r in facts.records
        if r.injected_at is not None
    )


def spans(windows: list[tuple[int, int]], grace_ns: int) -> list[tuple[int, int]]:
    """`windows`, each longer by `grace_ns`, with overlapping ones joined."""
    joined: list[tuple[int, int]] = []
    for start, end in ((start, end + grace_ns) for start, end in windows):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The arms that a tier asks for: so many seeds at the first cluster size, and the first of
    them at each other size as well. `time_limit_s` is the load of each arm.
    """

    seeds: int
    sizes: tuple[int, ...]
    time_limit_s: float


SHAPES: Final[dict[Tier, Shape]] = {
    "smoke": Shape(seeds=1, sizes=(5,), time_limit_s=60.0),
    "hardening": Shape(seeds=3, sizes=(5, 3), time_limit_s=305.0),
    "release": Shape(seeds=10, sizes=(5, 3), time_limit_s=3605.0),
}
"""A little more load than the budget asks for: its seconds are those between the first invocation
and the last."""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def budgets(
    measured: dict[str, float], *, nemesis: bool, members_most: int | None = None
) -> Budgets:
    """The highest tier that `measured` (keys as in `TIER_NEEDS`) meets; an absent one counts as 0.

    Of a system that never has more members than `members_most` no more are asked for.
    """
    most = {"nodes": math.inf if members_most is None else members_most}
    if not nemesis:
        most["faults"] = 0
    declared: dict[str, dict[str, float]] = {
        tier: {key: float(min(n, most.get(key, n))) for key, n in need.items()}
        for tier, need in TIER_NEEDS.items()
    }
    met: Tier = "none"
    for tier in TIER_NEEDS:
        if any(measured.get(key, 0) < need for key, need in declared[tier].items()):
            break
        met = tier
    return Budgets(declared=declared, met=met, measured=dict(measured))


def gaps(budget: Budgets, tier: Tier, *, already_named: Collection[str] = ()) -> list[str]:
    """One sentence per number of `tier` that was not reached, but for those `already_named`."""
    need = budget.declared.get(tier)
    if not need:
        return [f"The {tier} budget was not declared, so nothing shows that it was met."]
    problems = [
        f"The {tier} budget asks for {_number(wanted)} {UNITS.get(key, key)}; "
        f"this run had {_number(budget.measured.get(key, 0))}."
        for key, wanted in need.items()
        if budget.measured.get(key, 0) < wanted and key not in already_named
    ]
    return problems if problems or already_named else [f"The {tier} budget was not met."]
