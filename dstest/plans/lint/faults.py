"""L23: faults are those of the catalogue, the run injects them, and both sides of each are seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from dstest.plans.fit import Fit, fit_of, injects
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan, Scenario
from dstest.plans.words import plain
from nemeses.catalogue import CATALOGUE

_NUMBER: Final = re.compile(r"\bN\d+\b")
_SIDES: Final = ("injector", "victim")


def _catalogue(plan: Plan) -> Iterable[Place]:
    known = {fault.number for fault in CATALOGUE}
    for scenario in plan.scenarios:
        line, text = scenario.place("faults"), scenario.field("faults")
        for number in dict.fromkeys(_NUMBER.findall(text)):
            if number not in known:
                yield at(line, f"{scenario.id}: {number} is no fault of the catalogue")
        yield from _injected(scenario, line, text, known)
        yield from _seen(scenario)


def _fits(scenario: Scenario) -> list[tuple[str, Fit]]:
    run = scenario.run
    return (
        [] if run is None else [(scenario.arm_id(arm), fit_of(run, arm)) for arm in scenario.arms]
    )


def _injected(scenario: Scenario, line: int, text: str, known: set[str]) -> Iterator[Place]:
    fits = _fits(scenario)
    if not text or scenario.run is None:
        return  # L17
    for name, fit in fits:
        if fit.where == "nemesis":
            yield at(scenario.run.line, f"{name}: {fit.problem}")
    if any(fit.where in ("nemesis", "run") for _, fit in fits):
        return
    given = {*_NUMBER.findall(text)} & known
    delivered = frozenset().union(*(fit.faults for _, fit in fits))
    parts = {part: plugin for _, fit in fits for part, plugin in fit.nemeses.items()}
    for number in sorted(given - delivered):
        yield at(line, f"{scenario.id}: {number} is not injected by {scenario.run.nemesis}")
    for part, plugin in parts.items():
        if not given & {*plugin.faults} and not re.search(rf"(?<![\w-]){part}(?![\w-])", text):
            yield at(line, f"{scenario.id}: Faults says nothing of {part}, which is injected")


def _seen(scenario: Scenario) -> Iterator[Place]:
    """The landing evidence has a part of the injector's and one of the victim's side."""
    text = "" if scenario.gated is None else scenario.gated.field("nemesis + landing evidence")
    faultless = plain(text).casefold().startswith("none") and not injects(scenario)
    if scenario.gated is None or not text or faultless:
        return
    absent = [side for side in _SIDES if not re.search(rf"\b{side}s?:\s*\S", text, re.IGNORECASE)]
    if absent:
        what = f"{scenario.id}: no landing evidence of the {' and the '.join(absent)}'s side"
        yield at(scenario.gated, what)


RULES: Final = (
    Rule(
        id="L23",
        title="faults are in the catalogue, are injected, and are seen from both sides",
        remedy="numbers of `dstest nemeses` that the nemesis of the run block delivers; evidence "
        "as `injector: ... > 0; victim: ... = 0`",
        check=_catalogue,
    ),
)
