"""L10 to L12 and L27: hypotheses, the kinds and pitfalls that they come from, who closes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan
from dstest.plans.pitfalls import KINDS, PITFALLS
from dstest.plans.words import ids, placeholders

_ANSWERS: Final = ("y", "n", "maybe")


def _cite(plan: Plan) -> Iterable[Place]:
    if not plan.hypotheses:
        yield at(plan.line_of("4"), "the plan has no hypothesis")
    count = Counter(one.id for one in plan.hypotheses)
    for one in plan.hypotheses:
        if not re.fullmatch(r"H\d+", one.id):
            yield at(one, f"{one.id!r} is no id of a hypothesis")
        elif count[one.id] > 1:
            yield at(one, f"{one.id} stands {count[one.id]} times")
        if not one.claims:
            yield at(one, f"{one.id} cites no claim")
        if one.category not in KINDS:
            yield at(one, f"{one.id}: {one.category!r} is none of {', '.join(KINDS)}")
        if not (one.statement and one.because and one.subsystem):
            yield at(one, f"{one.id} has an empty cell")


def _kinds(plan: Plan) -> Iterable[Place]:
    line = plan.line_of("4")
    by_id = {one.id: one for one in plan.hypotheses}
    for kind in KINDS:
        rows = [row for row in plan.categories if row.name == kind]
        if len(rows) != 1:
            yield at(line, f"{kind} has {len(rows) or 'no'} row{'s' if rows else ''}")
            continue
        row = rows[0]
        if row.reason and not re.match(r"n/a\W*because\W+\w", row.reason, re.IGNORECASE):
            yield at(row, f"{kind}: no reason is given")
        elif not row.reason and not row.hypotheses:
            yield at(row, f"{kind} has neither hypotheses nor `N/A because`")
        for id in row.hypotheses:
            if id not in by_id:
                yield at(row, f"{kind} names {id}, and there is no such hypothesis")
            elif by_id[id].category != kind:
                yield at(row, f"{kind} names {id}, which is of {by_id[id].category}")


def _walk(plan: Plan) -> Iterable[Place]:
    line = plan.line_of("4")
    known = {one.id for one in plan.hypotheses}
    for pattern in PITFALLS:
        rows = [row for row in plan.pitfalls if row.number == str(pattern.number)]
        if len(rows) != 1:
            yield at(line, f"pitfall {pattern.number} ({pattern.name}) has {len(rows)} rows")
            continue
        row = rows[0]
        if row.applies not in _ANSWERS:
            yield at(row, f"pitfall {pattern.number}: {row.applies!r} is none of y, n, maybe")
        elif not row.notes:
            yield at(row, f"pitfall {pattern.number}: {row.applies}, and nothing behind it")
        elif row.applies == "y" and not {*ids(row.notes)} & known:
            yield at(row, f"pitfall {pattern.number}: y, and it names no hypothesis")
    for place, text in placeholders(plan.text):
        yield at(place, f"{text} waits for somebody to fill it")


def _closed(plan: Plan) -> Iterable[Place]:
    known = {one.id for one in plan.hypotheses}
    closed = {id for scenario in plan.scenarios for id in scenario.closes}
    for one in plan.hypotheses:
        if one.id not in closed:
            yield at(one, f"no scenario closes {one.id}")
    for scenario in plan.scenarios:
        if not scenario.field("closes"):
            continue  # L17
        line = scenario.place("closes")
        if not scenario.closes:
            yield at(line, f"{scenario.id} closes no hypothesis")
        for id in scenario.closes:
            if id not in known:
                yield at(line, f"{scenario.id} closes {id}, and there is no such hypothesis")


RULES: Final = (
    Rule(
        id="L10",
        title="each hypothesis cites a claim",
        remedy="H1, H2, ... each once, with the claims that it could falsify and all other cells",
        check=_cite,
    ),
    Rule(
        id="L11",
        title="the eight kinds of hypotheses are covered",
        remedy=f"a row for each of {', '.join(KINDS)}: its hypotheses, or `N/A because ...`",
        check=_kinds,
    ),
    Rule(
        id="L12",
        title="the walk over the pitfalls is complete, and nothing is left to be filled in",
        remedy="for each of the 16 y, n or maybe, with hypotheses or a reason; and what `<fill: "
        "...>` asks for",
        check=_walk,
    ),
    Rule(
        id="L27",
        title="each hypothesis is closed by a scenario, and each scenario closes one",
        remedy="ids of hypotheses in `Closes`; drop what nothing tests, or say so in section 7c",
        check=_closed,
    ),
)
