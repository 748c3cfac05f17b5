"""Evidence: the landing record of each fault, and the facts that a verdict is computed from.

`Evidence` is written to `evidence.json`; `dstest.judge.decide` is a pure function of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from dstest.core.tiers import Tier

__all__ = [
    "TAXDC_WORDS",
    "AuditRow",
    "BlameProbe",
    "Budgets",
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


class FaultEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a landing record that the verdict reads. `page_cache` is the nemesis' trait."""

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
    """What one probe of who is to blame came to (discipline 3.1).

    `fired`: it spoke against a violation by the system; None where it has no result, and `said`
    tells why.
    """

    fired: bool | None = None
    said: str = ""


class NearFault(msgspec.Struct, frozen=True, kw_only=True):
    """A landed fault near a violation: it stood during one of its operations, or (`after`) was
    healed before all of them that came after it. `taxdc` and `tags` are the nemesis' traits."""

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
    serve in the end.
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


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a verdict is computed from (discipline 2.2).

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
