"""L03 to L06, L13 and L14: claims, who cites them, and the matrix of claims and hypotheses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from dstest.core.claims import CATEGORIES
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Coverage, Plan

VERDICTS: Final = ("not covered", "partial", "covered")
GAPS: Final = (
    *("no test", "oracle too weak", "no fault variant", "shallow", "no scale variant", "none"),
)
"""What existing tests leave open; `none` where they cover the claim."""

_NOTHING: Final = frozenset({"", "-", "--", "?", "none", "n/a", "unknown", "tbd"})


def _ids(plan: Plan) -> Iterable[Place]:
    if not plan.claims:
        return [at(plan.line_of("1b"), "the plan makes no claim")]
    count = Counter(claim.id for claim in plan.claims)
    found = [
        at(claim, f"{claim.id!r} is no id of a claim")
        for claim in plan.claims
        if not re.fullmatch(r"C\d+", claim.id)
    ]
    found += [at(claim, f"{claim.id} says nothing") for claim in plan.claims if not claim.text]
    twice = {id for id, times in count.items() if times > 1}
    return found + [at(c, f"{c.id} stands twice") for c in plan.claims[::-1] if c.id in twice][:1]


def _categories(plan: Plan) -> Iterable[Place]:
    return [
        at(claim, f"{claim.id}: {claim.category!r} is no category of claims")
        for claim in plan.claims
        if claim.category not in CATEGORIES
    ]


def _sources(plan: Plan) -> Iterable[Place]:
    return [
        at(claim, f"{claim.id} has no source")
        for claim in plan.claims
        if claim.source.casefold().strip("`") in _NOTHING
    ]


def _cited(plan: Plan) -> Iterable[Place]:
    known = {claim.id for claim in plan.claims}
    for hypothesis in plan.hypotheses:
        for id in hypothesis.claims:
            if id not in known:
                yield at(hypothesis, f"{hypothesis.id} cites {id}, and there is no such claim")
    for scenario in plan.scenarios:
        line = scenario.place("falsifies")
        for id in scenario.falsifies:
            if id not in known:
                yield at(line, f"{scenario.id} cites {id}, and there is no such claim")
        if scenario.field("falsifies") and not scenario.falsifies:
            yield at(line, f"{scenario.id} cites no claim")


def _matrix(plan: Plan) -> Iterable[Place]:
    if plan.front.mode != "project-wide":
        return
    section = plan.sections.get("5")
    if section is None:
        yield at(1, "there is no section 5")
        return
    rows = {row.claim for row in plan.coverage}
    for claim in plan.claims:
        if claim.id not in rows:
            yield at(section, f"{claim.id} is not in the matrix")
    known = {"claim": {c.id for c in plan.claims}, "hypothesis": {h.id for h in plan.hypotheses}}
    scenarios = {scenario.id for scenario in plan.scenarios}
    for row in plan.coverage:
        for what, id in (("claim", row.claim), ("hypothesis", row.hypothesis)):
            if id not in known[what] and not (what == "hypothesis" and _untested(row)):
                yield at(row, f"{id!r}: there is no such {what}")
        for id in row.scenarios:
            if id not in scenarios:
                yield at(row, f"{id!r}: there is no such scenario")


def _untested(row: Coverage) -> bool:
    """A claim that nobody tests has no hypothesis either; section 7c is where it stands."""
    return row.hypothesis in ("-", "") and not row.scenarios


def _legend(plan: Plan) -> Iterable[Place]:
    for row in plan.coverage:
        if row.verdict not in VERDICTS:
            yield at(row, f"{row.verdict!r} is none of {', '.join(VERDICTS)}")
        elif row.gap not in GAPS:
            yield at(row, f"{row.gap!r} is none of {', '.join(GAPS)}")
        elif (row.gap == "none") != (row.verdict == "covered"):
            yield at(row, f"{row.verdict}, and the gap is {row.gap!r}")


RULES: Final = (
    Rule(
        id="L03",
        title="claims have ids of their own, and say something",
        remedy="C1, C2, ... each once, and one claim at least",
        check=_ids,
    ),
    Rule(
        id="L04",
        title="each claim is of a known category",
        remedy=f"one of {', '.join(sorted(CATEGORIES))}",
        check=_categories,
    ),
    Rule(
        id="L05",
        title="each claim has a source",
        remedy="where it is written: a file with its line, or an address",
        check=_sources,
    ),
    Rule(
        id="L06",
        title="hypotheses and scenarios cite claims that are there",
        remedy="ids of section 1b",
        check=_cited,
    ),
    Rule(
        id="L13",
        title="each claim stands in the matrix, and the matrix names what is there",
        remedy="a row in section 5 for each claim under each hypothesis against it",
        check=_matrix,
    ),
    Rule(
        id="L14",
        title="the matrix uses the words of its legend",
        remedy=f"verdict: {', '.join(VERDICTS)}; gap: {', '.join(GAPS)}",
        check=_legend,
    ),
)
