"""L19, L21 and L22: a machine judges, it judges what is claimed, and its input is fit for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from dstest.core import registry
from dstest.core.claims import GATED
from dstest.plans import picker
from dstest.plans.fit import fit_of, injects
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.lint.void import void_in
from dstest.plans.model import Gated, Plan, Scenario
from dstest.plans.words import NOT_GATED, listed, plain

FIELDS: Final = (
    *("Model", "Operation history", "Checker", "Nemesis + landing evidence"),
    *("Ambiguous outcomes", "Reduction plan"),
)
"""Of section 7.M."""

_WEAK: Final = re.compile(
    r"\blogs? (look|seem|are)|\blooks? (fine|good|normal|ok|okay|right|healthy)\b|\bno errors?\b"
    r"|\b(it|all|everything|system|cluster|service) works\b|^works\b|\bas expected\b"
    r"|\bno (problems?|issues?|crashes)\b|\b(manual|visual)(ly)? (check|inspect)",
    re.IGNORECASE,
)
_CHARS: Final = 4000
"""Of a text that is looked at for a metric."""

_METRIC: Final = re.compile(r"[A-Za-z_][\w.]*[^.;\n]*?(<=|>=|==|!=|<|>|≤|≥|=)\s*-?\d")
PREDICATE: Final = re.compile(r"(<=|>=|==|!=|<|>|≤|≥|=)\s*-?\d|/[^/\s][^/\n]*/|\bmatches `[^`]+`")
"""A comparison with a number, or a regular expression."""

_REASON: Final = re.compile(r"\b(because|reason:|since)\W+\w+\W+\w+", re.IGNORECASE)
_NO_CHECKER: Final = re.compile(r"^no checker\b\W+\w+\W+\w+\W+\w+", re.IGNORECASE)
_FAULTLESS: Final = re.compile(r"^none\b", re.IGNORECASE)


def named_checkers(text: str, *, plainly: bool = False) -> list[str]:
    """The registered checkers that a text names in code marks; `plainly`: or else in a list without
    any. Several are called by everyday words, so that a word alone names none."""
    words = {plain(word) for word in re.findall(r"`([^`]+)`", text)}
    if plainly and not words:
        words = {*listed(text.split(" because ")[0])}
    return [name for name in registry.names("checkers") if name in words]


def _judges(scenario: Scenario) -> set[str]:
    """The checkers that judge what the scenario runs."""
    if scenario.run is None:
        return set()
    return {name for arm in scenario.arms for name in fit_of(scenario.run, arm).checkers}


def _by_machine(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        text, line = scenario.field("oracle"), scenario.place("oracle")
        if not text:
            continue  # L17
        if weak := _WEAK.search(text):
            yield at(line, f"{scenario.id}: {weak[0]!r} is nothing that a machine can decide")
            continue
        if nothing := void_in(text):
            yield at(line, f"{scenario.id}: {nothing!r}: no run can break that")
            continue
        named, judges = {*named_checkers(text)}, _judges(scenario)
        if not named and not _METRIC.search(text[:_CHARS]):
            what = "the oracle names no checker, and no metric with a bound"
            yield at(line, f"{scenario.id}: {what}")
        elif not named and judges and not _measure(judges):
            yield at(line, f"{scenario.id}: nothing in the run measures that")
        if judges and (strange := sorted(named - judges)):
            yield at(line, f"{scenario.id}: {', '.join(strange)} does not judge what is run")
        elif named and not _REASON.search(text):
            yield from (
                at(line, f"{scenario.id}: {what}") for what in _beside(plan, scenario, named)
            )


def _measure(judges: Iterable[str]) -> bool:
    """Is one of these checkers about metrics?"""
    return any(registry.load("checkers", name).kind == "metric" for name in judges)


def _beside(plan: Plan, scenario: Scenario, named: set[str]) -> Iterator[str]:
    """Claims that none of the named checkers is about. What needs a history is L21's."""
    for category in sorted(plan.categories_of(scenario) - GATED):
        rows = picker.rows_of(category)
        if rows and not named & {*picker.checkers_of(rows)}:
            asked = " or ".join(picker.checkers_of(rows))
            yield f"no oracle of {category}, which {asked} would be"


def _of_claims(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        gated = scenario.gated
        serious = plan.categories_of(scenario) & GATED
        if serious and (gated is None or gated.not_applicable):
            place = scenario if gated is None else gated
            yield at(place, f"{scenario.id} falsifies {_words(serious)} and has no section 7.M")
        elif not serious and (gated is None or gated.not_applicable != NOT_GATED):
            place = scenario if gated is None else gated
            yield at(place, f"{scenario.id} falsifies no such claim, and does not say so")
        elif serious and gated is not None:
            yield from _picked(scenario, gated, serious)


def _picked(scenario: Scenario, gated: Gated, serious: frozenset[str]) -> Iterator[Place]:
    """The checker is that of the picker, or a reason is given."""
    model = plain(gated.field("model")).split(" ")[0].rstrip(".,;:")
    text = gated.field("checker")
    if not (model and text):
        return  # L22
    if scenario.run is not None:
        for arm in scenario.arms:
            fit = fit_of(scenario.run, arm)
            if fit.where == "checker":
                yield at(scenario.run.line, f"{scenario.arm_id(arm)}: {fit.problem}")
    if _NO_CHECKER.match(text):
        return
    named = {*named_checkers(text, plainly=True)}
    if not named:
        yield at(gated, f"{scenario.id}: section 7.M names no checker")
        return
    judges = _judges(scenario)
    if judges and (strange := sorted(named - judges)):
        yield at(gated, f"{scenario.id}: {', '.join(strange)} does not judge what is run")
    if model.split("(")[0] not in picker.MODELS:
        yield at(gated, f"{scenario.id}: {model!r} is no model; one of {_words(picker.MODELS)}")
        return
    for category in sorted(serious):
        rows = picker.rows_of(category, model)
        if not named & {*picker.checkers_of(rows)} and not _REASON.search(text):
            asks = f"asks for {rows[0].kind}" if rows else "has no row in the picker"
            what = f"{category} of a {model} {asks}, and no reason is given for {_words(named)}"
            yield at(gated, f"{scenario.id}: {what}")


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _six_fields(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        gated = scenario.gated
        if gated is None or gated.not_applicable:
            continue  # L21
        for name in FIELDS:
            if not gated.field(name):
                yield at(gated, f"{scenario.id}: section 7.M lacks {name}")
        history = gated.field("operation history")
        if history and not re.search(r"in-process|client|probe|tap|audit|server", history):
            yield at(gated, f"{scenario.id}: nothing says where operations are recorded")
        landing = gated.field("nemesis + landing evidence")
        if landing and (injects(scenario) or not _FAULTLESS.match(plain(landing))):
            yield from _landing(scenario, gated, landing)


def _landing(scenario: Scenario, gated: Gated, text: str) -> Iterator[Place]:
    if nothing := void_in(text, evidence=True):
        yield at(gated, f"{scenario.id}: {nothing!r} is no evidence: it holds whatever happened")
    elif not PREDICATE.search(text):
        yield at(gated, f"{scenario.id}: the landing evidence is no number and no expression")


RULES: Final = (
    Rule(
        id="L19",
        title="the oracle can be decided by a machine",
        remedy="name a checker of claim and workload, in code marks (`dstest plan toolbox`), or a "
        "metric, a comparison and a number that the run measures",
        check=_by_machine,
    ),
    Rule(
        id="L21",
        title="a claim that only a history falsifies has section 7.M, and the checker that fits it",
        remedy=f"`dstest plan toolbox` shows what fits; else the line `{NOT_GATED}`",
        check=_of_claims,
    ),
    Rule(
        id="L22",
        title="section 7.M has its six fields",
        remedy=f"{', '.join(FIELDS)}; landing evidence as `drop counters > 0`",
        check=_six_fields,
    ),
)
