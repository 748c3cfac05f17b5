"""From evidence to verdict: one pass over the decision table, and how verdicts add up.

`decide` is pure and total: the same evidence gives the same verdict, and every evidence gives one.
Source: discipline 2.3 (one run), 2.4 (arms and seeds of a scenario), 2.5 (a session).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, Literal

from dstest.core.errors import Exit
from dstest.core.evidence import Evidence
from dstest.core.verdict import State, Verdict
from dstest.judge.rules import RULES, Rule
from dstest.judge.view import View, view

Session = Literal["FAIL", "DONE", "DONE_WITH_CONCERNS", "INCONCLUSIVE", "BLOCKED"]

_INCONCLUSIVE: Final = (
    State.INCONCLUSIVE_FAULT,
    State.INCONCLUSIVE_ORACLE,
    State.INCONCLUSIVE_ENV,
)


def match(v: View, rules: Sequence[Rule] = RULES) -> int:
    """Index of the first rule that holds; a table without an answer is a mistake of ours."""
    for index, rule in enumerate(rules):
        if rule.when(v):
            return index
    raise AssertionError("the decision table is not total")


def _obstacles(v: View, index: int, rules: Sequence[Rule]) -> list[str]:
    """What stands before the next better state: removing these lets a later rule decide."""
    state = rules[index].state
    message = rules[index].blocks(v)
    if state.failed or state is State.PASS_HARDENING:
        return message
    for rule in rules[index + 1 :]:
        if rule.state is State.PASS_HARDENING or (rule.state.passed and not state.passed):
            if rule.when(v):
                break
        elif rule.when(v):
            message.extend(line for line in rule.blocks(v) if line not in message)
    return message


def decide(
    evidence: Evidence,
    checkers: dict[str, Any] | None = None,
    *,
    blame: str | None = None,
    rules: Sequence[Rule] = RULES,
) -> Verdict:
    """The verdict that `evidence` carries.

    `checkers` (results by name, as data) and `blame` travel along unread. `rules` exists for tests
    that show that another order would be noticed.
    """
    v = view(evidence)
    index = match(v, rules)
    rule = rules[index]
    message = _obstacles(v, index, rules)
    if rule.reason is not None:
        reason = rule.reason(v)
    else:
        first = rule.blocks(v)
        more = f" (and {len(first) - 1} more)" if len(first) > 1 else ""
        reason = (first[0] if first else f"rule {rule.id} holds") + more
    return Verdict(
        verdict=rule.state,
        rule=rule.id,
        reason=reason,
        why_not_better=message,
        evidence=evidence,
        checkers=checkers or {},
        blame=blame,
    )


def aggregate(states: Collection[State]) -> State:
    """One state for a scenario with several arms or seeds (discipline 2.4).

    Raises ValueError without any state: an empty scenario has no verdict to fold.
    """
    seen = set(states)
    if not seen:
        raise ValueError("no arm to aggregate: a scenario that never ran is NOT-RUN, say so")
    for state in (State.FAIL_REPRODUCIBLE, State.FAIL_NONDETERMINISTIC):
        if state in seen:
            return state
    if seen == {State.NOT_RUN}:
        return State.NOT_RUN
    if seen <= {*_INCONCLUSIVE, State.NOT_RUN}:
        return next(state for state in _INCONCLUSIVE if state in seen)
    if all(state.passed for state in seen):
        return State.PASS_SMOKE if State.PASS_SMOKE in seen else State.PASS_HARDENING
    return State.PARTIAL_SURFACE


_WORST_FIRST: Final = (
    State.FAIL_REPRODUCIBLE,
    State.FAIL_NONDETERMINISTIC,
    State.NOT_RUN,
    *_INCONCLUSIVE,
    State.PARTIAL_SURFACE,
    State.PARTIAL_MODEL,
    State.PASS_SMOKE,
    State.PASS_HARDENING,
)


def aggregate_seeds(states: Collection[State]) -> State:
    """One state for the same scenario over several seeds and sizes: the worst (discipline 2.4).

    Raises ValueError without any state.
    """
    if not states:
        raise ValueError("no arm to aggregate: a scenario that never ran is NOT-RUN, say so")
    return min(states, key=_WORST_FIRST.index)


def session(states: Iterable[State]) -> Session:
    """What a session of scenarios amounts to (discipline 2.5)."""
    seen = set(states)
    if any(state.failed for state in seen):
        return "FAIL"
    # Without a workload nothing was learned about the system: a missing capability is no run.
    if seen <= {State.NOT_RUN, State.INCONCLUSIVE_ENV}:
        return "BLOCKED"
    if any(state.passed for state in seen):
        return "DONE" if all(state.passed for state in seen) else "DONE_WITH_CONCERNS"
    return "INCONCLUSIVE"


def session_exit_code(outcome: Session) -> Exit:
    """The exit code of a session."""
    return {
        "FAIL": Exit.FAIL,
        "DONE": Exit.PASS,
        "DONE_WITH_CONCERNS": Exit.NOT_PROVEN,
        "INCONCLUSIVE": Exit.NOT_PROVEN,
        "BLOCKED": Exit.HARNESS,
    }[outcome]
