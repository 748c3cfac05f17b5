"""L28 to L31: why the scenarios are enough, what stays uncertain, and how sure anybody may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan, Threat

BANNED: Final = re.compile(
    r"\b(cannot happen|can not happen|can never happen|guarantees?|guaranteed|impossible|proves?"
    r"|proven|bug-free)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\bN\d\d\b")
_SENTENCES: Final = (4, 8)


def _rows(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("7b")
    if section is None:
        yield at(1, "there is no section 7b")
        return
    claims = {claim.id for claim in plan.claims}
    rows = {row.claim for row in plan.adequacy}
    for claim in plan.claims:
        if claim.id not in rows:
            yield at(section, f"nothing is said of whether {claim.id} is tested enough")
    for row in plan.adequacy:
        if row.claim not in claims:
            yield at(row, f"{row.claim!r}: there is no such claim")
        elif not row.why:
            yield at(row, f"{row.claim}: nothing says why that is enough")


def _threats(plan: Plan) -> Iterable[Place]:
    tested = {id for scenario in plan.scenarios for id in scenario.falsifies}
    for row in plan.adequacy:
        if not row.threats and row.claim in tested:
            yield at(row, f"{row.claim} names no threat, as `a: leader isolation (N12)`")
        for threat in row.threats:
            yield from (
                at(row, f"{row.claim}, threat {threat.letter}: {what}")
                for what in _faced(plan, threat)
            )


def _faced(plan: Plan, threat: Threat) -> Iterable[str]:
    """What is wrong with a threat: no scenario is there for it, or none injects it."""
    found = [plan.scenario(id) for id in threat.scenarios]
    known = [scenario for scenario in found if scenario is not None]
    if not threat.scenarios:
        return ["no scenario"]
    if len(known) < len(found):
        return [f"{', '.join(threat.scenarios)}: there is no such scenario"]
    numbers = {*_NUMBER.findall(threat.text)}
    for scenario in known:
        faults = scenario.field("faults")
        if numbers & {*_NUMBER.findall(faults)} or threat.text.casefold() in faults.casefold():
            return []
    return [f"{threat.text} stands in Faults of none of {', '.join(threat.scenarios)}"]


def _residual(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("7c")
    if section is None:
        yield at(1, "there is no section 7c")
        return
    if bool(plan.residuals) == ("7c" in plan.empty):
        yield at(section, "section 7c needs rows, or the sentence that there is nothing")
    for row in plan.residuals:
        if not (row.uncertainty and row.why and row.acceptable and row.revisit):
            yield at(row, "an uncertainty with an empty cell")
    tested = {id for scenario in plan.scenarios if scenario.arms for id in scenario.falsifies}
    said = " ".join(f"{row.uncertainty} {row.why}" for row in plan.residuals)
    for claim in plan.claims:
        if claim.id not in tested and not re.search(rf"\b{claim.id}\b", said):
            yield at(section, f"no scenario falsifies {claim.id}, and section 7c does not say so")


def sentences_of(text: str) -> list[str]:
    """Its sentences: what ends with a full stop before a capital letter, or at the end."""
    found = re.split(r"(?<=[.!?])\s+(?=[A-Z`\"(])", " ".join(text.split()))
    return [sentence for sentence in found if sentence]


def _confidence(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("7d")
    if section is None:
        yield at(1, "there is no section 7d")
        return
    if banned := BANNED.search(section.text):
        yield at(section, f"{banned[0]!r} is more than any test can say")
    number = len(sentences_of(section.text))
    if not _SENTENCES[0] <= number <= _SENTENCES[1]:
        yield at(section, f"section 7d has {number} sentences")


RULES: Final = (
    Rule(
        id="L28",
        title="for each claim something says why its tests are enough",
        remedy="a row in section 7b for each claim",
        check=_rows,
    ),
    Rule(
        id="L29",
        title="each threat has a scenario that injects it",
        remedy="threats as `a: pause (N03); b: ...`, scenarios as `a: S1; b: S2`, whose Faults "
        "name the number or the words of the threat",
        check=_threats,
    ),
    Rule(
        id="L30",
        title="section 7c says what stays uncertain",
        remedy="rows with all cells, among them each claim without a scenario",
        check=_residual,
    ),
    Rule(
        id="L31",
        title="section 7d is short and careful",
        remedy="four to eight sentences: we have not observed X under the tested threats",
        check=_confidence,
    ),
)
