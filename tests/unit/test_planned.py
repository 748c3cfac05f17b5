"""What a nemesis plans is looked at before anything is brought up."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import FaultPlan
from dstest.core.run_record import RunSpec
from dstest.runner.fault_plans import completed
from dstest.runner.plugins import resolve
from nemeses.none import NoNemesis

S = 1_000_000_000


class Planner(NoNemesis):
    """Plans what it is told to."""

    name = "planner"
    injects = True

    def __init__(self, plans: Any) -> None:
        self.plans = plans

    def plan(
        self,
        rng: random.Random,
        nodes: Sequence[str],
        time_limit_s: float,
        options: Mapping[str, Any],
    ) -> list[FaultPlan]:
        planned: list[FaultPlan] = self.plans
        return planned


FAULT = FaultPlan(fault_id="f1", nemesis="planner", start_ns=4 * S, duration_ns=6 * S)


def refusal_of(plans: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        resolve(RunSpec(time_limit_s=30.0), [], nemesis=Planner(plans))
    return str(refused.value)


def test_a_good_plan_is_taken() -> None:
    later = replace(FAULT, fault_id="f2", start_ns=12 * S)
    plugins = resolve(RunSpec(time_limit_s=30.0), [], nemesis=Planner([FAULT, later]))
    assert plugins.plans == [FAULT, later]


@pytest.mark.parametrize(
    ("plans", "said"),
    [
        ([], "it plans no fault in 30 s"),
        (None, "returns no list of FaultPlan"),
        ([{"fault_id": "f1"}], "returns no list of FaultPlan"),
        ([FAULT, FAULT], "two faults have the same fault_id"),
        ([replace(FAULT, start_ns=1000 * S)], "its last fault ends at 1006 s, after --time-limit"),
        ([replace(FAULT, duration_ns=0)], "f1 has no time"),
        ([replace(FAULT, start_ns=-1)], "f1 has no time"),
        ([replace(FAULT, nemesis="kill")], "f1 is a kill, which its nemesis does not name"),
        ([replace(FAULT, fault_id="")], "a fault_id is ''"),
        ([replace(FAULT, fault_id="../f1")], "a fault_id is '../f1'"),
        ([replace(FAULT, fault_id="f2", start_ns=9 * S), FAULT], "not in order of start_ns"),
        *(
            ([replace(FAULT, facts={name: value})], f"f1 has the fact {name}, which its run is to")
            for name, value in {"explains": ["panic"], "page_cache": "lost", "stood": {}}.items()
        ),
    ],
)
def test_what_no_run_can_follow_is_refused(plans: Any, said: str) -> None:
    assert said in refusal_of(plans)


def test_none_alone_injects_nothing() -> None:
    nemeses = [registry.load("nemeses", name) for name in registry.names("nemeses")]
    assert [n.name for n in nemeses if not n.injects] == ["none"]


def test_a_plan_that_lacks_nothing_keeps_the_order_of_its_facts() -> None:
    """A schedule that is followed is written byte for byte as it was read."""
    options = registry.load("nemeses", "partition").options
    facts = {"zeta": 1, "clients": False, "action": "drop"}
    plan = FaultPlan(fault_id="f1", nemesis="partition", start_ns=0, duration_ns=1, facts=facts)
    sample = replace(plan, facts={"clients": False, "action": "drop", "zeta": 2})
    (found,) = completed([plan], [sample], options)
    assert list(found.facts.items()) == list(facts.items())
    (found,) = completed([replace(plan, facts={"zeta": 1})], [sample], options)
    assert list(found.facts) == ["zeta", "clients"]
