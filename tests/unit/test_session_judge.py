"""Arms add up to a session: which rows are asked again, and that the worst arm counts."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest
from made_audit import but, good

from dstest.campaign.session import plan_arms
from dstest.core.errors import ConfigError, Exit
from dstest.core.evidence import Evidence, Tier
from dstest.core.verdict import State
from dstest.judge.decide import aggregate_seeds, decide
from dstest.judge.evidence import build_evidence
from dstest.judge.facts import RunFacts
from dstest.judge.session import ArmEvidence, SessionVerdict, judge_session

pytestmark = pytest.mark.slow

LIKE = {
    "dstest": "1",
    "python": "3",
    "kernel": "6",
    "cpus": 2,
    "system_version": "3.4",
    "options": {},
    "plugin_files": [],
}


def evidence(**changes: Any) -> Evidence:
    """Of one run alone: one seed, one size."""
    alone: RunFacts = but(seeds_agreeing=1, node_counts_run=[5], **changes)
    return build_evidence(alone, op_types=frozenset({"read", "write"}))


@cache
def sound() -> Evidence:
    """It is read only."""
    return evidence()


def arm(seed: int, nodes: int = 5, *, found: Evidence | None = None, **changes: Any) -> ArmEvidence:
    own = sound() if found is None else found
    fields: dict[str, Any] = {
        "id": f"n{nodes}-s{seed}",
        "seed": seed,
        "nodes": nodes,
        "alone": decide(own).verdict,
        "evidence": own,
        "conditions": LIKE,
    }
    return ArmEvidence(**(fields | changes))


def full() -> list[ArmEvidence]:
    return [arm(1), arm(2), arm(3), arm(1, nodes=3)]


def judged(arms: list[ArmEvidence], tier: Tier = "hardening") -> SessionVerdict:
    return judge_session(arms, tier)


def test_three_seeds_and_two_sizes_are_hardening() -> None:
    assert decide(evidence()).verdict is State.PASS_SMOKE
    found = judged(full())
    assert (found.state, found.outcome, found.exit_code) == (
        State.PASS_HARDENING,
        "DONE",
        Exit.PASS,
    )
    assert found.tier_met == "hardening"
    assert (found.seeds_agreeing, found.sizes) == (3, [3, 5])


def test_a_hardening_budget_that_is_not_met_does_not_pass() -> None:
    for missing in range(4):
        arms = full()
        del arms[missing]
        found = judged(arms)
        assert found.state is State.PASS_SMOKE
        assert found.exit_code == Exit.NOT_PROVEN
    assert judged(full()[:1], "smoke").exit_code == Exit.PASS


def test_release_is_more_than_hardening() -> None:
    found = judged(full(), "release")
    assert found.tier_met == "hardening"
    assert found.exit_code == Exit.NOT_PROVEN


WORSE: dict[str, tuple[dict[str, Any], State, int]] = {
    "no landing": (
        {"records": [msgspec.structs.replace(r, landed="no") for r in good().records]},
        State.INCONCLUSIVE_FAULT,
        Exit.NOT_PROVEN,
    ),
    "heal": (
        {"records": [msgspec.structs.replace(r, heal_verified=False) for r in good().records]},
        State.PARTIAL_MODEL,
        Exit.NOT_PROVEN,
    ),
    "violation": (
        {"results": {"linearizable": msgspec.structs.replace(
            good().results["linearizable"], valid=False)}},
        State.FAIL_NONDETERMINISTIC,
        Exit.FAIL,
    ),
    "corrupt": ({"mismatches": ["a line"]}, State.INCONCLUSIVE_ORACLE, Exit.NOT_PROVEN),
}  # fmt: skip


@pytest.mark.parametrize("name", WORSE)
@pytest.mark.parametrize("at", range(4))
def test_one_worse_arm_decides(name: str, at: int) -> None:
    changes, state, code = WORSE[name]
    arms = full()
    own = evidence(**changes)
    arms[at] = msgspec.structs.replace(arms[at], evidence=own, alone=decide(own).verdict)
    found = judged(arms)
    assert found.state is state
    assert found.exit_code == code
    assert found.arms[at].state is state
    assert State.PASS_HARDENING not in {row.state for row in found.arms}


def test_an_arm_that_never_ran_is_no_pass() -> None:
    arms = full()
    arms[3] = ArmEvidence(id="n3-s1", seed=1, nodes=3, alone=State.NOT_RUN, why="no lab")
    found = judged(arms)
    assert (found.state, found.outcome) == (State.NOT_RUN, "DONE_WITH_CONCERNS")
    assert found.exit_code == Exit.NOT_PROVEN
    alone = ArmEvidence(id="n5-s1", seed=1, nodes=5, alone=State.NOT_RUN)
    assert judged([alone]).exit_code == Exit.HARNESS


def test_a_violation_in_an_earlier_attempt_stays() -> None:
    arms = full()
    arms[1] = msgspec.structs.replace(arms[1], earlier=[State.FAIL_NONDETERMINISTIC])
    found = judged(arms)
    assert found.state is State.FAIL_NONDETERMINISTIC
    assert found.exit_code == Exit.FAIL
    arms[1] = msgspec.structs.replace(arms[1], earlier=[State.INCONCLUSIVE_FAULT])
    assert judged(arms).exit_code == Exit.PASS
    both = [State.FAIL_NONDETERMINISTIC, State.INCONCLUSIVE_FAULT]
    arms[1] = msgspec.structs.replace(arms[1], earlier=both)
    assert judged(arms).reason.startswith(f"{arms[1].id} of 4 arms: an earlier attempt")


def test_an_arm_that_never_ran_leaves_no_tier_met() -> None:
    found = judged([*full(), arm(4, evidence=None, alone=State.NOT_RUN)])
    assert found.tier_met == "none"
    assert found.exit_code == Exit.NOT_PROVEN


def test_the_reason_is_that_of_the_worst_arm() -> None:
    arms = full()
    arms[2] = arm(3, found=evidence(**WORSE["violation"][0]))
    assert judged(arms).reason.startswith(f"{arms[2].id} of 4 arms: The checker found a violation")


@pytest.mark.parametrize("key", LIKE)
def test_arms_that_are_not_alike_are_not_counted_together(key: str) -> None:
    arms = full()
    arms[2] = msgspec.structs.replace(arms[2], conditions=LIKE | {key: "other"})
    found = judged(arms)
    assert found.state is State.INCONCLUSIVE_ORACLE
    assert "RF9" in found.arms[0].reason


def test_conditions_that_nobody_recorded_are_no_likeness() -> None:
    arms = [msgspec.structs.replace(a, conditions={}) for a in full()]
    assert judged(arms).state is State.INCONCLUSIVE_ORACLE


def test_a_direction_that_one_arm_has_cut_counts_for_all() -> None:
    both = evidence(
        records=[
            msgspec.structs.replace(r, facts=r.facts | {"direction": "both"})
            for r in good().records
        ]
    )
    assert both.weak_audit["WO7"].status == "short"
    arms = [arm(1, found=both), arm(2), arm(3, found=both), arm(1, nodes=3, found=both)]
    assert judged(arms).state is State.PASS_HARDENING
    arms[1] = arm(2, found=both)
    assert judged(arms).state is State.PASS_SMOKE


def test_the_worst_state_of_all_seeds() -> None:
    for state in State:
        assert aggregate_seeds([state]) is state
        worst = aggregate_seeds([State.PASS_HARDENING, state])
        assert worst is state
    with pytest.raises(ValueError, match="no arm"):
        aggregate_seeds([])


def plan(**changes: Any) -> list[tuple[int, int]]:
    fields: dict[str, Any] = {
        "tier": None,
        "seeds": None,
        "count": None,
        "sizes": None,
        "time_limit_s": None,
        "first_seed": 7,
    }
    return plan_arms(**(fields | changes)).arms


def test_the_arms_of_flags_and_tiers() -> None:
    assert plan() == [(5, 7)]
    assert plan(count=3) == [(5, 7), (5, 8), (5, 9)]
    assert plan(seeds=[4], count=3) == [(5, 4), (5, 5), (5, 6)]
    assert plan(seeds=[4], tier="hardening") == [(5, 4), (5, 5), (5, 6), (3, 4)]
    assert plan(seeds=[1, 9]) == [(5, 1), (5, 9)]
    assert plan(sizes=[3, 5]) == [(3, 7), (5, 7)]
    assert plan(seeds=[1, 2], sizes=[3, 5]) == [(3, 1), (3, 2), (5, 1), (5, 2)]
    assert plan(tier="smoke") == [(5, 7)]
    assert plan(tier="hardening") == [(5, 7), (5, 8), (5, 9), (3, 7)]
    assert len(plan(tier="release")) == 11


@pytest.mark.parametrize(
    "changes", [{"seeds": [1, 1]}, {"sizes": [3, 3]}, {"seeds": [1, 2], "count": 3}]
)
def test_arms_that_contradict_each_other(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        plan(**changes)
