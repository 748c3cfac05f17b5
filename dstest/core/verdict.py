"""The ten verdict states and the verdict object that cannot be built without its evidence."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from dstest.core.errors import Exit
from dstest.core.evidence import Evidence


class State(StrEnum):
    """Discipline 2.1."""

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


class Bug(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of bug a violation shows, of what weight, and why (discipline 3.2).

    `type` is a TaxDC type, or `unclassified: ` with what is not known; so is `severity`, which is
    P0 (loss, corruption, safety) to P3 (no user notices) where it is known.
    """

    type: str
    tags: list[str] = msgspec.field(default_factory=list)
    severity: str
    reasons: list[str] = msgspec.field(default_factory=list)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A state, the rule that gave it (V01-V15), and why.

    `why_not_better` lists what keeps the verdict from the next stronger state. Build one with
    `dstest.judge.decide`; `__post_init__` refuses a pass that its evidence does not carry. `blame`
    and `bug` say of a violation whose fault it is and of what kind.
    """

    verdict: State
    rule: str
    reason: str
    why_not_better: list[str] = msgspec.field(default_factory=list)
    evidence: Evidence
    checkers: dict[str, Any] = msgspec.field(default_factory=dict)
    blame: str | None = None
    bug: Bug | None = None

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
