"""L25: hardening does more than smoke in every respect, and release is a number or a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from dstest.core.errors import ConfigError
from dstest.core.protocols import SystemTraits
from dstest.judge.budgets import TIERS
from dstest.plans.fit import fit_of, injects, planned
from dstest.plans.launch import Arm, Budget, Run
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import BUDGETS, Plan, Scenario

_REASON: Final = re.compile(
    r"not provided\s*(?:—|–|--?)\s*(?P<why>[^.]*\w[^.]*)\.\s*Revisit when:\s*(?P<when>.*\w.*)",
    re.IGNORECASE | re.DOTALL,
)
_NOTHING: Final = re.compile(r"\b(tbd|todo|later|unknown|tba)\b|<|\.\.\.|…", re.IGNORECASE)


def _stronger(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        smoke, hardening = (scenario.budgets.get(tier) for tier in BUDGETS[:2])
        if smoke is not None and hardening is not None:
            line = scenario.place("hardening budget")
            for what in _no_more(scenario, smoke, hardening):
                yield at(line, f"{scenario.id}: hardening asks for no more {what} than smoke")
        yield from _release(scenario, hardening)
        yield from _reached(scenario)


def _no_more(scenario: Scenario, less: Budget, more: Budget) -> Iterator[str]:
    sizes = (max(less.nodes), len(less.nodes)) < (max(more.nodes), len(more.nodes))
    if not sizes and not _of_one_size(scenario):
        yield "nodes"
    if more.duration_s <= less.duration_s:
        yield "seconds"
    if more.faults <= less.faults and (injects(scenario) or more.faults != less.faults):
        yield "faults"
    if more.seeds <= less.seeds:
        yield "seeds"


def _most_members(scenario: Scenario) -> int | None:
    """The most members that each system of the scenario has, None where one has no bound."""
    run = scenario.run
    found = []
    for fit in [fit_of(run, arm) for arm in scenario.arms] if run is not None else []:
        most = None if fit.system is None else SystemTraits.of(fit.system).members_most
        found.append(most)
    return None if not found or None in found else max(most for most in found if most is not None)


def _of_one_size(scenario: Scenario) -> bool:
    return _most_members(scenario) is not None


def _release(scenario: Scenario, hardening: Budget | None) -> Iterator[Place]:
    line, release = scenario.place("release budget"), scenario.budgets.get(BUDGETS[-1])
    reason = scenario.reasons.get(BUDGETS[-1])
    if reason is not None:
        said = _REASON.fullmatch(" ".join(reason.split()))
        if said is None or _NOTHING.search(said["why"]) or _NOTHING.search(said["when"]):
            yield at(line, f"{scenario.id}: the release budget is neither numbers nor a reason")
    elif release is not None and hardening is not None:
        less = (
            max(release.nodes) < max(hardening.nodes)
            or release.duration_s < hardening.duration_s
            or release.faults < hardening.faults
            or release.seeds < hardening.seeds
        )
        if less:
            yield at(line, f"{scenario.id}: release asks for less than hardening")


def _reached(scenario: Scenario) -> Iterator[Place]:
    """What is asked for is what dstest counts as the tier, and its faults fit into the time."""
    run = scenario.run
    if run is None:
        return
    for tier, budget in scenario.budgets.items():
        line = scenario.place(f"{tier} budget")
        if short := _short_of(scenario, tier, budget):
            yield at(line, f"{scenario.id}: {tier} of dstest asks for {short}")
        if budget.faults and not injects(scenario):
            yield at(line, f"{scenario.id}: {tier} asks for faults, and none is injected")
        for arm in scenario.arms:
            fit = fit_of(run, arm)
            if not fit.problem and fit.nemeses and (few := _fewer(run, budget, arm)):
                yield at(line, f"{scenario.arm_id(arm)}: {tier} {few}")


def _short_of(scenario: Scenario, tier: str, budget: Budget) -> str:
    need = next(numbers for name, numbers in TIERS.items() if name == tier)
    most = _most_members(scenario)
    nodes = need["nodes"] if most is None else min(need["nodes"], most)
    given = {
        "nodes": (max(budget.nodes), nodes),
        "duration_s": (budget.duration_s, need["duration_s"]),
        "faults": (budget.faults, need["faults"] if injects(scenario) else 0),
        "seeds": (budget.seeds, need["seeds"]),
    }
    lacking = [f"{wanted:g} {key}" for key, (has, wanted) in given.items() if has < wanted]
    return ", ".join(lacking)


def _fewer(run: Run, budget: Budget, arm: Arm) -> str:
    """How the time of the budget is too short for its faults; empty where it is not."""
    try:
        found = min(planned(run, arm, budget, size) for size in budget.nodes)
    except ConfigError:
        return ""  # L17
    if found >= budget.faults:
        return ""
    return f"asks for {budget.faults} faults, and {budget.duration_s:g} s have room for {found}"


RULES: Final = (
    Rule(
        id="L25",
        title="hardening is stronger than smoke in every respect; release is numbers or a reason",
        remedy="more nodes (or more sizes), seconds, faults and seeds, and no fewer than `dstest "
        "run --tier` asks for; or `not provided - why. Revisit when: what.`",
        check=_stronger,
    ),
)
