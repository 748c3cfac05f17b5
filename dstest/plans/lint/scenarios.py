"""L17 to L22, L24 and L32: scenarios are whole and named after what they claim, a machine judges
them by words that a run can break, and claims at a boundary or of fairness name their surfaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from dstest.campaign.fit import fit_of, planned_faults
from dstest.campaign.launch import Budget, Run
from dstest.core import registry
from dstest.core.check import GATED, SURFACE_GATED
from dstest.core.errors import ConfigError
from dstest.core.run_record import RunSpec
from dstest.plans import choice
from dstest.plans.choice import CONFUSABLES
from dstest.plans.lint.rule import Rule, Where, at
from dstest.plans.model import (
    BUDGETS,
    NOT_GATED,
    Gated,
    Plan,
    Scenario,
    Surfaces,
    injects,
    plain,
    split_names,
)

_HOLDS: Final = re.compile(
    r"(>=|≥)\s*-?0([.,]0+)?(?![.,]?\d)|(?<![\d.,])0([.,]0+)?\s*(<=|≤)"
    r"|(?<![<>=!])>\s*-\s*\d|(!=|≠)\s*-\s*\d|\bat least (0|zero)\b"
    r"|\b(at most|no more than|<=|≤)\s*100 ?%",
    re.IGNORECASE,
)
"""A count is never below zero."""

_WHATEVER: Final = re.compile(
    r"\b(whatever|regardless of|no matter) (it|they|the (checker|oracle|result|outcome)s?)\b"
    r"|\b(always|in any case|either way|unconditionally) (pass(es)?|ok|green|counts?)\b"
    r"|\bpass(es)? (always|in any case|either way|unconditionally)\b|\bnever fails?\b"
    r"|\b(its|the) (answer|result|verdict|outcome)s? (is|are) ignored\b"
    r"|\bany (answer|result|verdict|outcome) (is|will be) (accepted|fine|ok|a pass)\b",
    re.IGNORECASE,
)
_ENDED_WELL: Final = re.compile(
    r"\binjector (reports?|reported|says) (success|ok)"
    r"|(\b(command|script|tool|injector|iptables|nft|tc)s?\W+|`[^`]+` )(has |have )?"
    r"(exit(s|ed)?|return(s|ed)?|end(s|ed)?|finish(es|ed)?)\b[^.;\n]{0,20}\b(0|zero|ok|success\w*)\b"
    r"|\b(exit (code|status)|return code|rc)\W*(is|=|==|of)?\W*(0|zero)\b",
    re.IGNORECASE,
)

FIELDS: Final = (
    *("Falsifies", "Closes", "Technique", "Workload", "Faults", "Oracle"),
    *("Observability required", "Exit criteria"),
    *("Smoke budget", "Hardening budget", "Release budget"),
    *("Target test file", "Skeleton language"),
)
"""Of a scenario; besides these it has a run block and a skeleton."""

CLAIM_WORDS: Final = (
    *("linearizab", "serializab", "isolat", "snapshot", "atomic", "consisten", "causal"),
    *("durab", "lost", "loss", "persist", "recover", "replay", "exactly_once", "at_least_once"),
    *("at_most_once", "idempoten", "duplicat", "order", "monotonic", "prefix", "gap", "stale"),
    *("read_your_writes", "exclusi", "one_holder", "unique", "agree", "converge", "divergen"),
    *(
        "fair",
        "starv",
        "isolation",
        "leak",
        "available",
        "progress",
        "live",
        "latency",
        "throughput",
    ),
    *("conserv", "balance", "bounded", "never", "only", "rejects", "refuse", "member"),
)
"""Beginnings of words that say what is claimed."""

_SETUP: Final = re.compile(
    r"(^|_)(\d+_?nodes?|nodes?_\d+|chaos|stress|soak|load_test|smoke|basic|test_?\d*)(_|$)"
)
_RATE: Final = re.compile(r"([\d,.]+) (?:operations|ops)(?: per second|/s)|\bclosed loop\b")
_CLIENTS: Final = re.compile(r"\b([\d,]+) clients\b")
_SEEDS_MAX: Final = 1000
_ENDS: Final = ("pass", "fail", "inconclusive")

ORACLE_FIELDS: Final = (
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

SURFACE_FIELDS: Final = (
    *("Surfaces", "Operations", "Adversarial inputs", "Positive controls", "Negative controls"),
    *("Delayed/async paths", "Observability paths", "Scenario arms"),
)
"""Of section 7.M.S."""

_SURFACES_MIN: Final = 3
_CATEGORIES_MAX: Final = 3
_ARMS_OPTIONAL: Final = re.compile(r"\bone arm\b", re.IGNORECASE)
_EXPECTED: Final = ("NOT-RUN", "PARTIAL-surface", "PARTIAL-model", "INCONCLUSIVE-env")


def void_in(text: str, *, evidence: bool = False) -> str | None:
    """The words by which it holds for any run, None where there are none. `evidence`: the text is
    about a fault that landed, which its injector's own word does not show."""
    patterns = (_WHATEVER, _HOLDS, _ENDED_WELL) if evidence else (_WHATEVER, _HOLDS)
    return next((found[0] for one in patterns if (found := one.search(text))), None)


def _whole(plan: Plan) -> Iterable[Where]:
    if not plan.scenarios:
        yield at(plan.line_of("7"), "the plan has no scenario")
    count = Counter(scenario.id for scenario in plan.scenarios)
    for scenario in plan.scenarios:
        if count[scenario.id] > 1:
            yield at(scenario, f"{scenario.id} stands {count[scenario.id]} times")
        for name in FIELDS:
            if not scenario.field(name):
                yield at(scenario.place(name), f"{scenario.id} lacks {name}")
        for tier in BUDGETS[:2]:
            if tier in scenario.reasons:
                line = scenario.place(f"{tier} budget")
                yield at(line, f"{scenario.id}: the {tier} budget is not of numbers")
        for name, budget in scenario.budgets.items():
            if not _countable(budget):
                what = f"{scenario.id}: {name} names a size twice, or no number of seeds"
                yield at(scenario.place(f"{name} budget"), what)
        if scenario.skeleton is None:
            yield at(scenario, f"{scenario.id} lacks its skeleton: a fence `LANGUAGE skeleton`")
        yield from _executable(scenario)


def _executable(scenario: Scenario) -> Iterator[Where]:
    run = scenario.run
    if run is None:
        yield at(scenario, f"{scenario.id} lacks its run block: a fence `toml run`")
        return
    yield from _same_numbers(scenario)
    yield from _arms(scenario, run)
    for arm in scenario.arms:
        fit = fit_of(run, arm)
        if fit.problem:  # of a nemesis or a checker other rules tell
            if fit.where == "run":
                yield at(run.line, f"{scenario.arm_id(arm)}: {fit.problem}")
            continue
        for tier, budget in scenario.budgets.items():
            try:
                for size in budget.nodes:
                    planned_faults(run, arm, budget, size)
            except ConfigError as error:
                yield at(run.line, f"{scenario.arm_id(arm)}, {tier}: {error.message}")
                break


def _arms(scenario: Scenario, run: Run) -> Iterator[Where]:
    """Arms have names of their own, of which paths are made; one at least is run."""
    count = Counter(arm.name for arm in run.arms)
    for name, times in count.items():
        if times > 1 or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            yield at(run.line, f"{scenario.id}: {name!r} is no name of an arm, or stands twice")
    if run.arms and not scenario.arms:
        yield at(run.line, f"{scenario.id}: no arm of it is run")


def _countable(budget: Budget) -> bool:
    sizes = budget.nodes
    return len({*sizes}) == len(sizes) and 1 <= budget.seeds <= _SEEDS_MAX


def _same_numbers(scenario: Scenario) -> Iterator[Where]:
    """The field Workload says in words what the run block says in numbers."""
    run, text = scenario.run, scenario.field("workload")
    if run is None or not text:
        return
    line = scenario.place("workload")
    if run.workload not in text:
        yield at(line, f"{scenario.id}: Workload does not name {run.workload}, which is run")
    rate, clients = _RATE.search(text), _CLIENTS.search(text)
    concurrency = RunSpec().concurrency if run.concurrency is None else run.concurrency
    if rate is None or clients is None:
        yield at(line, f"{scenario.id}: Workload does not say at what rate, by how many clients")
    elif _number(rate[1]) != run.rate or _number(clients[1]) != concurrency:
        yield at(
            line,
            f"{scenario.id}: Workload says {rate[0]}, {clients[0]}; the run block "
            f"{'closed loop' if run.rate is None else f'{run.rate:g}'}, {concurrency}",
        )


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text.replace(",", ""))
    except ValueError:
        return float("nan")


def _named(plan: Plan) -> Iterable[Where]:
    for scenario in plan.scenarios:
        name = scenario.name
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", name):
            yield at(scenario, f"{name!r} is no name: lower case, with underscores")
        elif found := _SETUP.search(name):
            yield at(scenario, f"{name} names a setup ({found[0].strip('_')}), not a claim")
        elif not any(re.search(rf"(^|_){word}", name) for word in CLAIM_WORDS):
            yield at(scenario, f"{name} does not say what is claimed")


def _ends(plan: Plan) -> Iterable[Where]:
    for scenario in plan.scenarios:
        text = scenario.field("exit criteria")
        absent = [word for word in _ENDS if not re.search(rf"\b{word}\b\W+\w", text, re.IGNORECASE)]
        if text and absent:
            what = f"{scenario.id}: nothing says when it is {' or '.join(absent)}"
            yield at(scenario.place("exit criteria"), what)
        elif nothing := void_in(text):
            what = f"{scenario.id}: {nothing!r}: no run can break that"
            yield at(scenario.place("exit criteria"), what)


FIELD_RULES: Final = (
    Rule(
        id="L17",
        title="each scenario has all fields, numbers are numbers, and dstest can run it",
        remedy=f"{', '.join(FIELDS)}; a run block and a skeleton; budgets as "
        "`nodes 5, 3; duration 305 s; faults 10; seeds 3`",
        find=_whole,
    ),
    Rule(
        id="L18",
        title="the name of a scenario says what it claims",
        remedy="as linearizable_register_under_partition: the claim, the object, the fault",
        find=_named,
    ),
    Rule(
        id="L20",
        title="exit criteria say when it passes, fails and is inconclusive",
        remedy="pass: ...; fail: ...; inconclusive: ...",
        find=_ends,
    ),
)


def named_checkers(text: str, *, plainly: bool = False) -> list[str]:
    """The registered checkers that a text names in code marks; `plainly`: or else in a list without
    any. Several are called by everyday words, so that a word alone names none."""
    words = {plain(word) for word in re.findall(r"`([^`]+)`", text)}
    if plainly and not words:
        words = {*split_names(text.split(" because ")[0])}
    return [name for name in registry.names("checkers") if name in words]


def _judges(scenario: Scenario) -> set[str]:
    """The checkers that judge what the scenario runs."""
    if scenario.run is None:
        return set()
    return {name for arm in scenario.arms for name in fit_of(scenario.run, arm).checkers}


def _by_machine(plan: Plan) -> Iterable[Where]:
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
        rows = choice.rows_of(category)
        if rows and not named & {*choice.checkers_of(rows)}:
            asked = " or ".join(choice.checkers_of(rows))
            yield f"no oracle of {category}, which {asked} would be"


def _of_claims(plan: Plan) -> Iterable[Where]:
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


def _picked(scenario: Scenario, gated: Gated, serious: frozenset[str]) -> Iterator[Where]:
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
    if model.split("(")[0] not in choice.MODELS:
        yield at(gated, f"{scenario.id}: {model!r} is no model; one of {_words(choice.MODELS)}")
        return
    for category in sorted(serious):
        rows = choice.rows_of(category, model)
        if not named & {*choice.checkers_of(rows)} and not _REASON.search(text):
            asks = f"asks for {rows[0].kind}" if rows else "has no row in the picker"
            what = f"{category} of a {model} {asks}, and no reason is given for {_words(named)}"
            yield at(gated, f"{scenario.id}: {what}")


def _words(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _six_fields(plan: Plan) -> Iterable[Where]:
    for scenario in plan.scenarios:
        gated = scenario.gated
        if gated is None or gated.not_applicable:
            continue  # L21
        for name in ORACLE_FIELDS:
            if not gated.field(name):
                yield at(gated, f"{scenario.id}: section 7.M lacks {name}")
        history = gated.field("operation history")
        if history and not re.search(r"in-process|client|probe|tap|audit|server", history):
            yield at(gated, f"{scenario.id}: nothing says where operations are recorded")
        landing = gated.field("nemesis + landing evidence")
        if landing and (injects(scenario) or not _FAULTLESS.match(plain(landing))):
            yield from _landing(scenario, gated, landing)


def _landing(scenario: Scenario, gated: Gated, text: str) -> Iterator[Where]:
    if nothing := void_in(text, evidence=True):
        yield at(gated, f"{scenario.id}: {nothing!r} is no evidence: it holds whatever happened")
    elif not PREDICATE.search(text):
        yield at(gated, f"{scenario.id}: the landing evidence is no number and no expression")


ORACLE_RULES: Final = (
    Rule(
        id="L19",
        title="the oracle can be decided by a machine",
        remedy="name a checker of claim and workload, in code marks (`dstest plan toolbox`), or a "
        "metric, a comparison and a number that the run measures",
        find=_by_machine,
    ),
    Rule(
        id="L21",
        title="a claim that only a history falsifies has section 7.M, and the checker that fits it",
        remedy=f"`dstest plan toolbox` shows what fits; else the line `{NOT_GATED}`",
        find=_of_claims,
    ),
    Rule(
        id="L22",
        title="section 7.M has its six fields",
        remedy=f"{', '.join(ORACLE_FIELDS)}; landing evidence as `drop counters > 0`",
        find=_six_fields,
    ),
)


_SURFACE_REASON: Final = re.compile(r"\b(because|since)\W+\w+\W+\w+", re.IGNORECASE)


def _eight_fields(plan: Plan) -> Iterable[Where]:
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
            for name in SURFACE_FIELDS:
                if not given.field(name):
                    yield at(given, f"{scenario.id}: section 7.M.S lacks {name}")
            yield from _broad(scenario, given)
            yield from _surface_arms(scenario, given, len(categories))
            if "boundary" in asked:
                yield from _confusable(scenario, given)


def _broad(scenario: Scenario, given: Surfaces) -> Iterator[Where]:
    few = 0 < len(given.surfaces) < _SURFACES_MIN
    if few and not _SURFACE_REASON.search(given.field("surfaces")):
        what = f"{len(given.surfaces)} surfaces, and no reason why not more"
        yield at(given, f"{scenario.id}: {what}")


def _surface_arms(scenario: Scenario, given: Surfaces, categories: int) -> Iterator[Where]:
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


def _confusable(scenario: Scenario, given: Surfaces) -> Iterator[Where]:
    text = given.field("adversarial inputs").casefold()
    absent = [name for name in CONFUSABLES if name not in text]
    if text and absent:
        yield at(given, f"{scenario.id}: no identifiers of the class {', '.join(absent)}")


def _untested(plan: Plan) -> Iterable[Where]:
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


SURFACE_RULES: Final = (
    Rule(
        id="L24",
        title="claims at a boundary or of fairness have section 7.M.S, with its eight fields",
        remedy=f"{', '.join(SURFACE_FIELDS)}; three surfaces or `because ...`; "
        "[[arms]] in the run block",
        find=_eight_fields,
    ),
    Rule(
        id="L32",
        title="section 7d names each surface that is not tested",
        remedy="name the arms that are expected to be NOT-RUN or PARTIAL",
        find=_untested,
    ),
)

RULES: Final[tuple[Rule, ...]] = (
    *FIELD_RULES,
    *ORACLE_RULES,
    *SURFACE_RULES,
)
