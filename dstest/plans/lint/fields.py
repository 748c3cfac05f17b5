"""L17, L18 and L20: a scenario is whole, its name says what it claims, and its end is known."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from dstest.core.errors import ConfigError
from dstest.core.spec import RunSpec
from dstest.plans.fit import fit_of, planned
from dstest.plans.launch import Budget, Run
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.lint.void import void_in
from dstest.plans.model import BUDGETS, Plan, Scenario

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


def _whole(plan: Plan) -> Iterable[Place]:
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


def _executable(scenario: Scenario) -> Iterator[Place]:
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
                    planned(run, arm, budget, size)
            except ConfigError as error:
                yield at(run.line, f"{scenario.arm_id(arm)}, {tier}: {error.message}")
                break


def _arms(scenario: Scenario, run: Run) -> Iterator[Place]:
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


def _same_numbers(scenario: Scenario) -> Iterator[Place]:
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


def _named(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        name = scenario.name
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", name):
            yield at(scenario, f"{name!r} is no name: lower case, with underscores")
        elif found := _SETUP.search(name):
            yield at(scenario, f"{name} names a setup ({found[0].strip('_')}), not a claim")
        elif not any(re.search(rf"(^|_){word}", name) for word in CLAIM_WORDS):
            yield at(scenario, f"{name} does not say what is claimed")


def _ends(plan: Plan) -> Iterable[Place]:
    for scenario in plan.scenarios:
        text = scenario.field("exit criteria")
        absent = [word for word in _ENDS if not re.search(rf"\b{word}\b\W+\w", text, re.IGNORECASE)]
        if text and absent:
            what = f"{scenario.id}: nothing says when it is {' or '.join(absent)}"
            yield at(scenario.place("exit criteria"), what)
        elif nothing := void_in(text):
            what = f"{scenario.id}: {nothing!r}: no run can break that"
            yield at(scenario.place("exit criteria"), what)


RULES: Final = (
    Rule(
        id="L17",
        title="each scenario has all fields, numbers are numbers, and dstest can run it",
        remedy=f"{', '.join(FIELDS)}; a run block and a skeleton; budgets as "
        "`nodes 5, 3; duration 305 s; faults 10; seeds 3`",
        check=_whole,
    ),
    Rule(
        id="L18",
        title="the name of a scenario says what it claims",
        remedy="as linearizable_register_under_partition: the claim, the object, the fault",
        check=_named,
    ),
    Rule(
        id="L20",
        title="exit criteria say when it passes, fails and is inconclusive",
        remedy="pass: ...; fail: ...; inconclusive: ...",
        check=_ends,
    ),
)
