"""The ten verdict states, the verdict object that cannot be built without its evidence, and the
summary that is made beside it, once, when a run is judged; both are kept in verdict.json.

Terminal, page, JUnit, SARIF, `serve`, gate, nights, known issues and comparisons are views of it.
It holds numbers and texts and no history: a store has more of these than fit into memory.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from dstest.core.errors import Exit
from dstest.core.evidence import Canary, Evidence
from dstest.core.summary import RunSummary


class State(StrEnum):
    """What a run comes to, from best to worst known; docs/reference/verdicts.md says when each."""

    PASS_SMOKE = "PASS-smoke"
    PASS_HARDENING = "PASS-hardening"
    FAIL_REPRODUCIBLE = "FAIL-reproducible"
    FAIL_NONDETERMINISTIC = "FAIL-nondeterministic"
    INCONCLUSIVE_ENV = "INCONCLUSIVE-env"
    INCONCLUSIVE_ORACLE = "INCONCLUSIVE-oracle-too-weak"
    INCONCLUSIVE_FAULT = "INCONCLUSIVE-fault-not-proven"
    PARTIAL_SURFACE = "PARTIAL-surface"
    PARTIAL_MODEL = "PARTIAL-model"
    NOT_RUN = "NOT-RUN"

    @property
    def passed(self) -> bool:
        return self in (State.PASS_SMOKE, State.PASS_HARDENING)

    @property
    def failed(self) -> bool:
        return self in (State.FAIL_REPRODUCIBLE, State.FAIL_NONDETERMINISTIC)


NOT_RERUN: Final = "FAIL (not re-run yet)"
"""What people are told of a failure that nobody has made again: it is neither known to be
reproducible nor known not to be. Files and JSON have its state."""


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of bug a violation shows, of what weight, and why.

    `type` is a TaxDC type, or `unclassified: ` with what is not known; so is `severity`, which is
    P0 (loss, corruption, safety) to P3 (no user notices) where it is known.
    """

    type: str
    tags: list[str] = msgspec.field(default_factory=list)
    severity: str
    reasons: list[str] = msgspec.field(default_factory=list)


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict without what it stands on, as verdict.json has it: a state, the rule that gave it
    (V01-V15), and why. `why_not_better` lists what keeps it from the next stronger state. `blame`
    and `bug` say of a violation whose fault it is and of what kind. `summary` is not there in what
    versions before 0.18 have judged."""

    verdict: State
    rule: str
    reason: str
    why_not_better: list[str] = msgspec.field(default_factory=list)
    blame: str | None = None
    bug: Bug | None = None
    summary: RunSummary | UnsetType = UNSET


class Verdict(Brief, frozen=True, kw_only=True):
    """With its evidence, what each checker answered, and what came of the broken copies that they
    had to reject. Build one with `dstest.judge.decide`; `__post_init__` refuses a pass that its
    evidence does not carry."""

    evidence: Evidence
    checkers: dict[str, Any] = msgspec.field(default_factory=dict)
    canary: Canary | UnsetType = UNSET

    @property
    def shown(self) -> str:
        """The state as people are told it."""
        once = self.verdict.failed and not self.evidence.rerun.same_seed_runs
        return NOT_RERUN if once else self.verdict.value

    def __post_init__(self) -> None:
        if not self.reason:
            raise ValueError("a verdict needs a reason")
        if not self.verdict.passed:
            return
        e = self.evidence
        if e.violation or not e.checker_ran or e.checker.result != "clean":
            raise ValueError("a PASS needs a checker that ran, consumed operations and was clean")
        if e.budget.met == "none":
            raise ValueError("a PASS needs the smoke budget")
        if e.fault_planned and not e.fault_landed:
            raise ValueError("a PASS needs a landing record for each planned fault")
        if self.verdict is State.PASS_HARDENING and not e.fault_landed:
            raise ValueError("a PASS-hardening needs a fault that landed")
        if self.verdict is State.PASS_HARDENING and e.transport != "network":
            raise ValueError("a PASS-hardening needs the production path")


def exit_code(state: State) -> Exit:
    """The exit code of a run that ended with this state (design section 5)."""
    if state.passed:
        return Exit.PASS
    if state.failed:
        return Exit.FAIL
    return Exit.NOT_PROVEN
