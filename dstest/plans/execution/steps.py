"""The steps of a plan: an arm of a scenario each, and those that are not run, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.verdict import State
from dstest.plans.execution.state import RED_SUFFIX, Side, Step
from dstest.plans.launch import Arm
from dstest.plans.model import BUDGETS, Plan, Scenario


def asked_for(plan: Plan, budget: str, only: Sequence[str]) -> list[Step]:
    """All steps of a plan; those of scenarios that are not among `only`, if any are named, are not
    run. Raises ConfigError as `steps_of` does, and for a scenario that there is not."""
    known = {scenario.id: scenario for scenario in plan.scenarios}
    if strange := [name for name in only if name not in known]:
        raise ConfigError(
            f"--scenario {strange[0]}: the plan has none of that id",
            remedy=f"it has {', '.join(known)}",
        )
    steps = steps_of(plan, budget)
    return [step if not only or step.scenario in only else not_asked_for(step) for step in steps]


def not_asked_for(step: Step) -> Step:
    """The step as one that nobody wanted to be run."""
    if not step.argv:
        return step
    return Step(
        id=step.id,
        scenario=step.scenario,
        arm=step.arm,
        argv=[],
        status="done",
        state=State.NOT_RUN.value,
        reason="it was not asked for",
        side=step.side,
    )


def steps_of(plan: Plan, budget: str) -> list[Step]:
    """The arms to execute. Raises ConfigError for a budget that there is not, and for a plan
    without scenarios."""
    if budget not in BUDGETS:
        raise ConfigError(f"--budget {budget}: no such budget", remedy=meant(budget, BUDGETS))
    steps: list[Step] = []
    for scenario in plan.scenarios:
        steps += steps_of_scenario(scenario, budget)
    if not steps:
        raise ConfigError(f"{plan.path}: no scenario to run", remedy="section 7 describes them")
    return steps


def steps_of_scenario(scenario: Scenario, budget: str) -> list[Step]:
    """One step for each arm, behind that of its red side, where it has one that is run; what the
    plan does not run stands there with its reason."""
    if scenario.run is None:
        said = "it has no run block"
        return [_not_run(scenario.id, scenario, said)]
    if budget not in scenario.budgets:
        said = scenario.reasons.get(budget, "the plan gives no numbers for this budget")
        return [_not_run(scenario.id, scenario, said)]
    steps: list[Step] = []
    for arm in scenario.arms:
        if red := scenario.red_arguments(arm):
            steps.append(_step(scenario, arm, red, "red"))
        steps.append(_step(scenario, arm, scenario.arguments(budget, arm), "green"))
    skipped = [arm for arm in scenario.run.arms if not arm.runs]
    return steps + [
        _not_run(scenario.arm_id(arm), scenario, f"{arm.expected}: {arm.reason}", arm.name)
        for arm in skipped
    ]


def _step(scenario: Scenario, arm: Arm, argv: list[str], side: Side) -> Step:
    id = scenario.arm_id(arm) + (RED_SUFFIX if side == "red" else "")
    return Step(id=id, scenario=scenario.id, arm=arm.name, argv=argv, side=side)


def _not_run(id: str, scenario: Scenario, reason: str, arm: str = "") -> Step:
    return Step(
        id=id,
        scenario=scenario.id,
        arm=arm,
        argv=[],
        status="done",
        state=State.NOT_RUN.value,
        reason=reason,
    )
