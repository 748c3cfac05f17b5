"""L36 and L37: what a scenario has to be red under before its pass is worth anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from dstest.core.errors import ConfigError
from dstest.plans.fit import planned
from dstest.plans.launch import Arm, Budget, Red, Run, argv_of, red_side
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan, Scenario

_SEEDS_MAX: Final = 1000


def _named(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        if scenario.run is None or not plan.serious(scenario):
            continue  # L17
        absent = [arm for arm in scenario.arms if scenario.red_of(arm) is None]
        for arm in absent:
            what = f"{scenario.arm_id(arm)}: nothing says under what it has to be red first"
            yield at(scenario.run.line, what)


def _sound(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        run = scenario.run
        for arm in scenario.arms if run is not None else ():
            red = scenario.red_of(arm)
            if run is not None and red is not None:
                for what in _wrong(scenario, run, arm, red):
                    yield at(run.line, f"{scenario.arm_id(arm)}: its red side {what}")


def _wrong(scenario: Scenario, run: Run, arm: Arm, red: Red) -> Iterator[str]:
    if red.canary == red.builds:
        yield "is either `canary` or a build with a known bug, one of the two"
    elif red.canary and (red.anomalies or red.seeds is not None):
        yield "is of its own runs: anomalies and seeds are those of a build"
    elif red.builds:
        yield from _build(scenario, run, arm, red)


def _build(scenario: Scenario, run: Run, arm: Arm, red: Red) -> Iterator[str]:
    if not red.anomalies:
        yield "names no anomaly by which its bug shows, so that any failure would do"
    if red.seeds is not None and not 1 <= red.seeds <= _SEEDS_MAX:
        yield f"asks for {red.seeds} seeds"
    bad = red_side(run, arm, red)
    for budget in scenario.budgets.values():
        if argv_of(*bad, "smoke", budget) == argv_of(run, arm, "smoke", budget):
            yield "is the scenario itself"
            return
    for budget in scenario.budgets.values():
        if _refused(run, arm, budget):
            return  # L17
        if why := _refused(*bad, budget):
            yield f"cannot be run: {why}"
            return


def _refused(run: Run, arm: Arm, budget: Budget) -> str:
    """Why dstest would not execute it; empty where it would."""
    try:
        planned(run, arm, budget, budget.nodes[0])
    except ConfigError as error:
        return error.message
    return ""


RULES: Final = (
    Rule(
        id="L36",
        title="a scenario that needs a history says under what it has to be red first",
        remedy="`[red]` in its run block: `options` or `system-version` of a build with a known "
        "bug and the `anomalies` by which it shows, or `canary = true`",
        check=_named,
    ),
    Rule(
        id="L37",
        title="what a scenario has to be red under is another run than its own, and can be run",
        remedy="`[red]` with `options = { bug = ... }` (or `system`, `plugin`, `system-version`) "
        "and `anomalies`; or with `canary = true` alone",
        check=_sound,
    ),
)
