"""The verdict of several arms, and what a pass after kills says."""

from __future__ import annotations

import itertools

import pytest
from made_evidence import (
    but,
)

from dstest.core import registry
from dstest.core.evidence import (
    FaultEvidence,
)
from dstest.core.verdict import State
from dstest.judge.decide import aggregate, decide, session, session_exit_code

MULTISETS = [m for k in (1, 2, 3) for m in itertools.combinations_with_replacement(State, k)]


def test_arms() -> None:
    for states in MULTISETS:
        total = aggregate(states)
        assert total.passed == all(s.passed for s in states), states
        assert total.failed == any(s.failed for s in states), states
        hardening = all(s is State.PASS_HARDENING for s in states)
        assert (total is State.PASS_HARDENING) == hardening, states
        assert (total is State.NOT_RUN) == all(s is State.NOT_RUN for s in states), states
        assert all(aggregate(order) is total for order in itertools.permutations(states)), states
        if State.FAIL_REPRODUCIBLE in states:
            assert total is State.FAIL_REPRODUCIBLE, states
        if not total.passed and any(s.passed for s in states) and not total.failed:
            assert total is State.PARTIAL_SURFACE, states


def test_sessions() -> None:
    for states in [(), *MULTISETS]:
        ran = [s for s in states if s not in (State.NOT_RUN, State.INCONCLUSIVE_ENV)]
        passes = [s for s in states if s.passed]
        if any(s.failed for s in states):
            wanted = "FAIL"
        elif not ran:
            wanted = "BLOCKED"
        elif not passes:
            wanted = "INCONCLUSIVE"
        else:
            wanted = "DONE" if len(passes) == len(states) else "DONE_WITH_CONCERNS"
        outcome = session(states)
        assert outcome == wanted, states
        assert (session_exit_code(outcome) == 0) == (outcome == "DONE"), states


def test_the_first_inconclusive_names_the_scenario() -> None:
    fault_, oracle, env = (
        State.INCONCLUSIVE_FAULT,
        State.INCONCLUSIVE_ORACLE,
        State.INCONCLUSIVE_ENV,
    )
    assert aggregate([env, oracle, fault_]) is fault_
    assert aggregate([env, oracle, State.NOT_RUN]) is oracle
    assert aggregate([env, State.NOT_RUN]) is env


def test_no_arms_is_an_error() -> None:
    with pytest.raises(ValueError, match="no arm"):
        aggregate([])


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("kill",), True),
        (("partition", "rolling"), True),
        (("partition", "pause"), False),
        (("kill", "power"), False),
    ],
)
def test_a_pass_after_kills_says_that_durability_was_not_tested(
    kinds: tuple[str, ...], said: bool
) -> None:
    faults = [
        FaultEvidence(
            id=f"f{i}",
            nemesis=kind,
            landed="yes",
            heal_verified=True,
            page_cache=registry.load("nemeses", kind).page_cache,
        )
        for i, kind in enumerate(kinds)
    ]
    verdict = decide(but(faults=faults, faults_planned=len(faults)))
    assert verdict.verdict.value.startswith("PASS")
    assert any("Durability" in text for text in verdict.why_not_better) is said
