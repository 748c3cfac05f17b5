"""L24 and L32: claims at a boundary or of fairness name their surfaces, tested and untested."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from dstest.core.claims import SURFACE_GATED
from dstest.plans.confusables import CONFUSABLES
from dstest.plans.lint.oracles import named_checkers
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan, Scenario, Surfaces

FIELDS: Final = (
    *("Surfaces", "Operations", "Adversarial inputs", "Positive controls", "Negative controls"),
    *("Delayed/async paths", "Observability paths", "Scenario arms"),
)
"""Of section 7.M.S."""

_SURFACES_MIN: Final = 3
_CATEGORIES_MAX: Final = 3
_ARMS_OPTIONAL: Final = re.compile(r"\bone arm\b", re.IGNORECASE)
_REASON: Final = re.compile(r"\b(because|since)\W+\w+\W+\w+", re.IGNORECASE)


def _eight_fields(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        categories = plan.categories_of(scenario)
        asked, given = categories & SURFACE_GATED, scenario.surfaces
        if asked and given is None:
            what = f"falsifies {', '.join(sorted(asked))} and has no section 7.M.S"
            yield at(scenario, f"{scenario.id} {what}")
        elif given is not None and not asked:
            yield at(
                given, f"{scenario.id} has a section 7.M.S, and falsifies nothing that asks it"
            )
        elif given is not None:
            for name in FIELDS:
                if not given.field(name):
                    yield at(given, f"{scenario.id}: section 7.M.S lacks {name}")
            yield from _broad(scenario, given)
            yield from _arms(scenario, given, len(categories))
            if "boundary" in asked:
                yield from _confusable(scenario, given)


def _broad(scenario: Scenario, given: Surfaces) -> Iterator[Place]:
    few = 0 < len(given.surfaces) < _SURFACES_MIN
    if few and not _REASON.search(given.field("surfaces")):
        what = f"{len(given.surfaces)} surfaces, and no reason why not more"
        yield at(given, f"{scenario.id}: {what}")


def _arms(scenario: Scenario, given: Surfaces, categories: int) -> Iterator[Place]:
    """Arms are there where they must be, and the section and the run block name the same."""
    why = []
    if len(given.surfaces) > _SURFACES_MIN:
        why.append(f"{len(given.surfaces)} surfaces")
    if categories > _CATEGORIES_MAX:
        why.append(f"{categories} categories of claims")
    if len(named_checkers(scenario.field("oracle"))) > 1:
        why.append("more than one oracle")
    in_run = {arm.name for arm in scenario.run.arms} if scenario.run is not None else set()
    if why and not in_run:
        yield at(given, f"{scenario.id} has {', '.join(why)}, and no arms in its run block")
    optional = _ARMS_OPTIONAL.search(given.field("scenario arms"))
    if in_run != {*given.arms} and given.arms and not (optional and not in_run):
        only = sorted(in_run ^ {*given.arms})
        yield at(given, f"{scenario.id}: section 7.M.S and the run block differ in {only[0]}")
    if scenario.run is not None:
        for arm in scenario.run.arms:
            if not arm.runs and (arm.expected not in _EXPECTED or not arm.reason):
                what = f"{arm.name}: expected {arm.expected!r}, reason {arm.reason!r}"
                yield at(scenario.run.line, f"{scenario.id}/{what}")


_EXPECTED: Final = ("NOT-RUN", "PARTIAL-surface", "PARTIAL-model", "INCONCLUSIVE-env")


def _confusable(scenario: Scenario, given: Surfaces) -> Iterator[Place]:
    text = given.field("adversarial inputs").casefold()
    absent = [name for name in CONFUSABLES if name not in text]
    if text and absent:
        yield at(given, f"{scenario.id}: no identifiers of the class {', '.join(absent)}")


def _untested(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("7d")
    if section is None:
        return  # L31
    said = section.text.casefold()
    for scenario in plan.scenarios:
        silent = [arm.name for arm in scenario.run.arms if not arm.runs] if scenario.run else []
        listed = scenario.surfaces.untested if scenario.surfaces is not None else ()
        for name in dict.fromkeys([*silent, *listed]):
            if name.casefold() not in said:
                what = f"{scenario.id}/{name} is not tested, and section 7d does not say so"
                yield at(section, what)


RULES: Final = (
    Rule(
        id="L24",
        title="claims at a boundary or of fairness have section 7.M.S, with its eight fields",
        remedy=f"{', '.join(FIELDS)}; three surfaces or `because ...`; [[arms]] in the run block",
        check=_eight_fields,
    ),
    Rule(
        id="L32",
        title="section 7d names each surface that is not tested",
        remedy="name the arms that are expected to be NOT-RUN or PARTIAL",
        check=_untested,
    ),
)
