"""Evidence: the landing record of each fault, and the facts that a verdict is computed from.

`Evidence` is kept in `verdict.json`; `dstest.judge.decide` is a pure function of it. The facts that
a landing record has besides are plain JSON, with keys for each family of faults (`Details`). A
record that contradicts itself proves no landing: it is asked once where a nemesis has made it, and
once where it is evidence (`contradiction`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, Literal, Self, get_args

import msgspec

__all__ = [
    "TAXDC_WORDS",
    "AuditRow",
    "BlameProbe",
    "Budgets",
    "Canary",
    "CheckerEvidence",
    "CheckerOps",
    "Evidence",
    "FaultEvidence",
    "Landed",
    "LandingRecord",
    "Lint",
    "NearFault",
    "PageCache",
    "Rerun",
    "Signal",
    "Symptom",
    "TaxDC",
    "Transport",
]


Level = Literal["smoke", "hardening", "release"]
"""What can be asked for."""

Tier = Literal["none", "smoke", "hardening", "release"]
"""What can be met: `none` where not even the budget of smoke was."""

SMOKE_S: Final = 20.0
"""Seconds of load that smoke asks for."""

LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""The least first."""

TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
"""The least first."""


Landed = Literal["yes", "no", "ambiguous"]
Transport = Literal["network", "in-process"]
"""How clients reach servers, and these each other: as in production, or within one process of ours,
which is not the production path."""

PageCache = Literal["", "kept", "lost"]
"""What becomes of unsynced writes where a fault ends servers; empty for any other fault."""

TaxDC = Literal[
    "",
    "timing",
    "ordering",
    "partition",
    "crash-recovery",
    "upgrade",
    "config",
    "fault-handling",
    "performance",
]
"""Types of bugs after Leesatapornwongsa et al. (TaxDC, ASPLOS 2016); empty: not known."""

TAXDC_WORDS: Final[Mapping[str, str]] = {
    "timing": "something came late, or a clock was wrong",
    "ordering": "things happened in an order that nobody had thought of",
    "partition": "members could not reach each other",
    "crash-recovery": "a server stopped and came back",
    "upgrade": "servers of different versions met",
    "config": "the members, or their settings, changed",
    "fault-handling": "an error was met, and handled wrongly",
    "performance": "a bound on speed was broken, and no data",
}
"""By type: what such a bug needs to show."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One counter or probe before, during and after a fault.

    `before`, `during` and `after` map a path (`"n1->n2"`, a node, a rule) to a number. `moved` says
    whether the signal shows the fault; `detail` says why in a sentence.
    """

    signal: str
    before: dict[str, Any] = msgspec.field(default_factory=dict)
    during: dict[str, Any] = msgspec.field(default_factory=dict)
    after: dict[str, Any] = msgspec.field(default_factory=dict)
    moved: bool = False
    detail: str = ""

    @property
    def shown(self) -> bool:
        """It moved, and has a figure that differs from before: whoever says so has measured."""
        return self.moved and bool(self.during) and self.during != self.before


class LandingRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, from its schedule to the proof of its heal. Times in run nanoseconds.

    `landed` is `yes` only when an injector-side counter and a victim-side signal both moved,
    `ambiguous` when one did or when the path was idle before, `no` when none did. `residue` lists
    what the leak audit found afterwards. `facts` holds the fault's parameters.
    """

    fault_id: str
    nemesis: str
    targets: list[str]
    scheduled_at: int
    injected_at: int | None = None
    injector: Signal | None = None
    victim: Signal | None = None
    control: Signal | None = None
    landed: Landed = "no"
    landed_at: int | None = None
    epoch: str
    heal_start: int | None = None
    healed_at: int | None = None
    heal_verified: bool = False
    residue: list[str] = msgspec.field(default_factory=list)
    facts: dict[str, Any] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """Mutated copies of the run's history and how many of them the checkers rejected.

    `details` has a row per copy, `undistinguished` a row per weaker judge that no copy tells from
    the checker; see `judge.mutants.families.CheckerCanary`.
    """

    killed: int = 0
    total: int = 0
    details: list[dict[str, Any]] = msgspec.field(default_factory=list)
    undistinguished: list[dict[str, Any]] = msgspec.field(default_factory=list, name="untold")


class FaultEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a landing record that the verdict reads. `page_cache` is as its nemesis says."""

    id: str
    nemesis: str
    landed: Landed
    heal_verified: bool
    page_cache: PageCache = ""
    injector: dict[str, Any] = msgspec.field(default_factory=dict)
    victim: dict[str, Any] = msgspec.field(default_factory=dict)
    why: str = ""


class CheckerOps(msgspec.Struct, frozen=True, kw_only=True):
    """How many operations one checker was to judge, and judged."""

    eligible: int
    consumed: int


class CheckerEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the declared checkers did, taken together.

    `ops_eligible` and `ops_consumed` count an operation once for each checker, to be compared with
    each other; where there are several, `by_checker` has the counts of each. What people are told
    is `ops_judged`. `canary_killed` of `canary_total` mutated copies
    of the history were rejected.
    """

    declared: list[str] = msgspec.field(default_factory=list)
    ran: list[str] = msgspec.field(default_factory=list)
    result: Literal["clean", "violation", "unknown", "not-run"] = "not-run"
    ops_eligible: int = 0
    ops_consumed: int = 0
    by_checker: dict[str, CheckerOps] = msgspec.field(default_factory=dict)
    keys_total: int = 0
    keys_decided: int = 0
    canary_killed: int = 0
    canary_total: int = 0
    why: str = ""

    @property
    def ops_judged(self) -> int:
        """Operations that were judged, each once: those of the checker that judged most. 0 where
        one of them judged none."""
        return self.ops_consumed and max(
            (row.consumed for row in self.by_checker.values()), default=self.ops_consumed
        )

    @property
    def ops_to_judge(self) -> int:
        """Operations that were to be judged, each once: those of the checker that had most."""
        return max((row.eligible for row in self.by_checker.values()), default=self.ops_eligible)


class Lint(msgspec.Struct, frozen=True, kw_only=True):
    """Failing lint ids H01-H18 by severity, each with what was seen."""

    weak: dict[str, str] = msgspec.field(default_factory=dict)
    corrupt: dict[str, str] = msgspec.field(default_factory=dict)
    warning: dict[str, str] = msgspec.field(default_factory=dict)


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of the same spec and seed after a violation, and how many showed it again. `identical`:
    how many of them were the same simulation, byte for byte, by the digests; unset on nodes."""

    same_seed_runs: int = 0
    reproduced: int = 0
    identical: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def said(self) -> str:
        """What they came to; several runs of one simulation are one sample."""
        runs = self.same_seed_runs
        if self.identical is msgspec.UNSET:
            return f"{self.reproduced} of {runs} re-runs of the same seed showed it again"
        if self.identical == runs:
            each = "a re-run was" if runs == 1 else f"{runs} re-runs were"
            return f"{each} the same simulation, byte for byte: one sample"
        return (
            f"{self.reproduced} of {runs} re-runs of the same seed showed it again, and "
            f"{runs - self.identical} had another digest: cut short, or one seed gave two "
            "simulations"
        )


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One red flag RF1-RF10 or weak-oracle item WO1-WO14."""

    status: Literal["ok", "short", "n/a"]
    evidence: str


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """Declared test budgets per tier and the highest one met."""

    declared: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    met: Tier = "none"
    measured: dict[str, float] = msgspec.field(default_factory=dict)


class BlameProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What one probe of who is to blame came to.

    `fired`: it spoke against a violation by the system; None where it has no result, and `said`
    tells why.
    """

    fired: bool | None = None
    said: str = ""


class NearFault(msgspec.Struct, frozen=True, kw_only=True):
    """A landed fault near a violation: it stood during one of its operations, or (`after`) was
    healed before all of them that came after it. `taxdc` and `tags` are what its nemesis says."""

    id: str
    nemesis: str
    taxdc: TaxDC = ""
    tags: list[str] = msgspec.field(default_factory=list)
    after: bool = False


class Symptom(msgspec.Struct, frozen=True, kw_only=True):
    """How the first violation showed, as far as the record tells. Times in run nanoseconds.

    `claims` are the categories that were broken. `nodes` answered the operations that contradict
    each other, from `start_ns` to `end_ns`; None where it names none. `concurrent`: some of
    these operations, or others on their keys, overlap. `faults` are near. `alarms` are kinds of log
    lines that no fault explains and that came before its end. `unhealthy` are members that did not
    serve in the end. `documented` are the weaker models that the system promises with the settings
    of the run, where nothing shows that it broke those as well.
    """

    checker: str
    claims: list[str] = msgspec.field(default_factory=list)
    start_ns: int | None = None
    end_ns: int | None = None
    nodes: list[str] = msgspec.field(default_factory=list)
    concurrent: bool = False
    faults: list[NearFault] = msgspec.field(default_factory=list)
    alarms: list[str] = msgspec.field(default_factory=list)
    unhealthy: list[str] = msgspec.field(default_factory=list)
    documented: list[str] = msgspec.field(default_factory=list)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a verdict is computed from.

    `oracle_kinds` are the kinds of the declared checkers: `history`, `final-state`, `logs`,
    `health`, `no-error`. `probes` are those of who is to blame that need no cluster, and `symptom`
    is how the violation showed; both are there where there is one. `transport` is the path that the
    run has declared.
    """

    attempted: bool
    missing_capability: list[str] = msgspec.field(default_factory=list)
    serious: bool = True
    fault_planned: bool = False
    faults: list[FaultEvidence] = msgspec.field(default_factory=list)
    faults_planned: int = 0
    checker: CheckerEvidence = msgspec.field(default_factory=CheckerEvidence)
    oracle_kinds: list[str] = msgspec.field(default_factory=lambda: ["history"])
    history_lint: Lint = msgspec.field(default_factory=Lint)
    violation: bool = False
    violation_fingerprint: str | None = None
    rerun: Rerun = msgspec.field(default_factory=Rerun)
    redflags: dict[str, AuditRow] = msgspec.field(default_factory=dict)
    weak_audit: dict[str, AuditRow] = msgspec.field(default_factory=dict)
    budget: Budgets = msgspec.field(default_factory=Budgets)
    probes: dict[str, BlameProbe] = msgspec.field(default_factory=dict)
    symptom: Symptom | None = None
    transport: Transport = "network"

    @property
    def fault_landed(self) -> bool:
        """Every planned fault has a record that says yes; none planned is vacuously false."""
        return (
            self.fault_planned
            and len(self.faults) >= max(1, self.faults_planned)
            and all(f.landed == "yes" for f in self.faults)
        )

    @property
    def checker_ran(self) -> bool:
        """All declared checkers ran and consumed something."""
        c = self.checker
        return bool(c.declared) and set(c.declared) <= set(c.ran) and c.ops_consumed > 0

    @property
    def checker_complete(self) -> bool:
        """Nothing eligible was left out."""
        c = self.checker
        return c.ops_consumed == c.ops_eligible and c.keys_decided == c.keys_total


Counts = dict[str, dict[str, int]]
"""Operations of clients by node and outcome."""


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """Base: a part of a record's facts.

    Read by name: a key that the record lacks has its default here, and nothing is converted, since
    what was written by hand may be anything.
    """

    @classmethod
    def of(cls, record: LandingRecord) -> Self:
        """Those of this record."""
        facts = record.facts
        return cls(**{name: facts[name] for name in cls.__struct_fields__ if name in facts})


class FaultDetails(Details, frozen=True, kw_only=True):
    """Of every fault: the counts of its clients when it was applied and when it was healed, and
    what became of it in between: `rechecks` are rows of `at_ns`, `present` and perhaps `gone`;
    `stood` says for how long it stood without a break (`looks`, `failed`, `watched_s`, `away_s`,
    `share`), empty where nobody could tell between two looks."""

    stood: dict[str, Any] = {}
    rechecks: list[dict[str, Any]] = []
    ended_early: bool = False
    page_cache: PageCache = ""
    """What became of it, where that was measured: what the nemesis says does not hold then."""
    requested_to_applied_ms: float | None = None
    traffic_at_inject: Counts = {}
    traffic_at_heal: Counts = {}
    moment: dict[str, Any] = {}
    """What the fault waited for, and what came (`nemeses/base/moment.py`)."""
    explains: list[str] = []
    """Kinds of alarms that its targets may give, besides those that its nemesis declares."""


class PointCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often points of a program were reached without a fault: of `armed` ones in `seconds`,
    hits by name of those that were, the most frequent first. Their `stops` took `stop_ns`."""

    armed: int
    seconds: float
    reached: dict[str, int]
    stops: int = 0
    stop_ns: int = 0


def point_counts(record: LandingRecord) -> dict[str, PointCount]:
    """By member, what a fault at a point has counted (`counts` of its facts); empty where nothing
    was, or it cannot be read."""
    try:
        return msgspec.convert(record.facts.get("counts", {}), dict[str, PointCount])
    except msgspec.ValidationError:
        return {}


class LeadDetails(Details, frozen=True, kw_only=True):
    """Who led before, with the epoch that the system counts, and who leads since. `group` is empty
    where the system has one."""

    leader_before: str | None = None
    term_before: int | None = None
    group: str = ""
    new_leader: str | msgspec.UnsetType | None = msgspec.UNSET
    new_term: int | None = None
    steps: list[dict[str, Any]] = []
    """Of a fault that goes from node to node, each with `leader`, `new_leader`, `new_term`,
    `moved`."""

    @property
    def moved(self) -> bool:
        """Has the lead moved? Who leads may not be known yet where an epoch tells of it."""
        return self.new_leader is not msgspec.UNSET


class ProcessDetails(Details, frozen=True, kw_only=True):
    """Of a fault of processes: whom it is about, and what these and the others were before.

    `pids` are [pid, start time] of each member's main process, `processes` rows of all of a
    service's processes. `asked_before` counts answers by `asker->target`, `listening_before` has
    the pids at the ports of the targets. `counted` is [good operations, since when that stands],
    and `quiet` that of the servers which it must not rise at.
    """

    scope: str = ""
    seed: int = 0
    service: str = ""
    pids: dict[str, list[int]] = {}
    processes: dict[str, list[list[Any]]] = {}
    asked_before: dict[str, int] = {}
    listening_before: dict[str, list[int]] = {}
    counted: dict[str, list[int]] = {}
    quiet: dict[str, list[int]] = {}


class PathDetails(Details, frozen=True, kw_only=True):
    """Of a fault of paths: which are hit, where they arrive (`affected`), and how they were before.

    `baseline_packets` counts what each carried just before. `links` are the paths that the system
    says it uses (None: all), `idle_paths` those that are hit and not used. `cuts` is None in the
    record of a fault of another family.
    """

    shape: str = ""
    direction: str = ""
    action: str = ""
    reset: bool = True
    """False: connections that stood are left alone."""
    clients: bool = False
    cuts: list[str] | None = None
    baseline_packets: dict[str, int] | None = None
    links: list[str] | None = None
    idle_paths: list[str] = []
    affected: list[str] = []
    probe_before: dict[str, list[int]] = {}


def contradiction(record: LandingRecord) -> str | None:
    """Why a record that says `yes` cannot be right, None where it can."""
    return next(_of_landing(record), None)


def heal_contradiction(record: LandingRecord) -> str | None:
    """Why a heal that is said to be verified cannot be: what showed that the fault was there shows
    it still."""
    if not record.heal_verified or record.victim is None or not record.victim.after:
        return None
    before, after = record.victim.before, record.victim.after
    if not all(map(_counted, (*before.values(), *after.values()))):
        return None  # what the figures mean only the fault knows: seconds, shares
    if any(map(_alive, before.values())) and not any(map(_alive, after.values())):
        return f"its heal is verified, and {record.victim.signal!r} shows nothing alive after it"
    return None


def _of_landing(record: LandingRecord) -> Iterator[str]:
    steps = [
        ("injected", record.injected_at),
        ("landed", record.landed_at),
        ("its heal begun", record.heal_start),
        ("healed", record.healed_at),
    ]
    if record.injected_at is None or record.landed_at is None:
        yield "it has landed, and no time says when it was injected and when it landed"
    known = [(name, at_ns) for name, at_ns in steps if at_ns is not None]
    for (first, early_ns), (then, late_ns) in pairwise(known):
        if late_ns < early_ns:
            yield f"{then} at {late_ns / 1e9:.2f} s, before it was {first} ({early_ns / 1e9:.2f} s)"
    control = record.control
    if control is not None and control.moved:
        yield f"others were hit as well: {control.detail or control.signal}"
    figures = () if control is None else (*control.before.values(), *control.during.values())
    if control is not None and figures and all(map(_counted, figures)):
        dead = [name for name, was in control.before.items() if _died(was, control.during, name)]
        if dead and len(dead) == len(control.before) and not control.moved:
            yield f"the control is said to be untouched, and nothing of it lives: {dead[0]}"
    yield from _of_paths(record)


def _of_paths(record: LandingRecord) -> Iterator[str]:
    """Of a fault of paths: its figures are those of its cuts, each of which shows it. A target may
    have none: the bridge between two halves."""
    paths = PathDetails.of(record)
    injector, victim = record.injector, record.victim
    if paths.cuts is None or injector is None or victim is None:
        return
    used = [path for path in paths.cuts if path not in paths.idle_paths]
    for signal in (injector, victim):
        if signal.during and not {*signal.during} & {*paths.cuts}:
            yield f"{signal.signal!r} is about other paths than its cuts"
    counts = {path: injector.during[path] for path in used if path in injector.during}
    if idle := [path for path, n in counts.items() if isinstance(n, int) and n <= 0]:
        yield f"{injector.signal!r} is {counts[idle[0]]} for {idle[0]}, a path in use"
    reached = {path: victim.during[path] for path in paths.cuts if path in victim.during}
    was = victim.before
    open_ = [path for path, now in reached.items() if _alive(now) and now == was.get(path)]
    if open_ and any(not _alive(now) for now in reached.values()):
        yield f"{victim.signal!r} is as before on {open_[0]}, which was to be cut"


def _numbers(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _counted(value: Any) -> bool:
    """Is it a count, or are they: datagrams that arrived, answers?"""
    return all(type(n) is int and n >= 0 for n in _numbers(value))


def _alive(value: Any) -> bool:
    return any(isinstance(n, int | float) and n > 0 for n in _numbers(value))


def _died(was: Any, during: Mapping[str, Any], name: str) -> bool:
    return _alive(was) and name in during and not _alive(during[name])
