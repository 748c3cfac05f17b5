"""L01, L02, L07 to L09, L33 to L35: what is tested, what is known of it, and what is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from dstest.plans.changes import is_behaviour
from dstest.plans.lint.rule import Place, Rule, at
from dstest.plans.model import Plan, Section

STATUSES: Final = ("draft", "reviewed", "executed")
MODES: Final = ("change-scoped", "project-wide")

ARCHITECTURE: Final = {
    "components": r"\bcomponents?\b",
    "the way of a request": r"\b(request|data) (flow|path)\b|\bflow of\b|\bway of a request\b",
    "durable state": r"\bdurable\b",
    "consensus and its protocol": r"\b(consensus|protocol|replication)\b",
    "boundaries of trust or tenants": r"\b(trust|tenan\w+)\b",
    "a picture": r"(^|\n)(```|~~~)|!\[",
}
"""The topics of section 0, each with what shows that it is there."""

SUBJECTS: Final = {
    "tenancy": r"\btenan\w+",
    "persistence": r"\bpersist\w+",
    "replication and consensus": r"\b(replication|consensus)\b",
    "ordering": r"\border\w*",
    "network boundaries": r"\bnetwork\b",
    "retries and idempotency": r"\b(retr\w+|idempoten\w+)\b",
    "observability": r"\bobservab\w+",
}
"""The headings of section 2."""

_NUMBERED: Final = re.compile(r"(test-?)?plan-?\d*")
_LINES_MAX: Final = 30
_PICTURE: Final = re.compile(r"(?ms)^(```|~~~).*?^\1[ \t]*$")
_NO_TESTS: Final = "no existing tests"
_NO_QUESTIONS: Final = "no open questions"


def _absent(plan: Plan, id: str) -> list[Place]:
    return [] if id in plan.sections else [at(1, f"there is no section {id}")]


def _architecture(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("0")
    if section is None:
        return _absent(plan, "0")
    said = [line for line in _PICTURE.sub("", section.source).splitlines() if line.strip()]
    found = [
        at(section, f"section 0 says nothing of {topic}")
        for topic, words in ARCHITECTURE.items()
        if not re.search(words, section.source, re.IGNORECASE)
    ]
    if len(said) > _LINES_MAX:
        found.append(at(section, f"section 0 has {len(said)} lines besides its picture"))
    return found


def _scope(plan: Plan) -> Iterable[Place]:
    front, section = plan.front, plan.sections.get("1")
    if front.mode not in MODES:
        return [at(front, f"mode {front.mode!r} is none of {', '.join(MODES)}")]
    if section is None:
        return _absent(plan, "1")
    if head := _head(plan):
        return [at(front, head)]
    changed = front.change.casefold() not in ("", "none", "-")
    if front.mode == "project-wide":
        found = [] if not changed else [at(front, "a project-wide plan of one change")]
        return found + _lacking(section, "In scope", "Out of scope")
    found = [] if changed else [at(front, "a change-scoped plan of no change")]
    return found + _lacking(section, "Change", "Files touched")


def _head(plan: Plan) -> str:
    """What is wrong with the front matter besides the mode."""
    front = plan.front
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", front.slug) or _NUMBERED.fullmatch(front.slug):
        return f"slug {front.slug!r} does not describe what is tested"
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", front.date):
        return f"date {front.date!r} is no date"
    run = {scenario.run.system for scenario in plan.scenarios if scenario.run is not None}
    if run and front.system not in run:
        return f"system {front.system!r} is run by no scenario"
    if front.status not in STATUSES:
        return f"status {front.status!r} is none of {', '.join(STATUSES)}"
    return "" if front.sut and front.author else "the front matter lacks sut or author"


def _lacking(section: Section, *names: str) -> list[Place]:
    return [
        at(section, f"section {section.id} has no `- **{name}:** ...`")
        for name in names
        if not section.field(name)
    ]


def _missing(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("1c")
    if section is None:
        return _absent(plan, "1c")
    said = "1c" in plan.empty
    if bool(plan.missing) == said:
        what = "lists claims that it says it has not" if said else "neither lists claims nor says"
        return [at(section, f"section 1c {what}{'' if said else ' that there are none'}")]
    return [
        at(row, f"{row.id or 'the row'} has an empty cell")
        for row in plan.missing
        if not (re.fullmatch(r"M\d+", row.id) and row.behaviour and row.source and row.action)
    ]


def _subjects(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("2")
    if section is None:
        return _absent(plan, "2")
    found = []
    for subject, words in SUBJECTS.items():
        parts = [part for part in section.parts if re.search(words, part.title, re.IGNORECASE)]
        if not any(part.text.strip() for part in parts):
            found.append(at(parts[0] if parts else section, f"nothing is said of {subject}"))
    return found


def _inventory(plan: Plan) -> Iterable[Place]:
    if plan.front.mode != "project-wide":
        return []
    section = plan.sections.get("3")
    if section is None:
        return _absent(plan, "3")
    if not plan.inventory and _NO_TESTS not in section.text.casefold():
        return [at(section, "section 3 lists no test, and does not say that there is none")]
    return [
        at(row, f"{row.test or 'a test'} lacks a cell")
        for row in plan.inventory
        if not (row.test and row.subsystem and row.invariant and row.failure_modes)
    ]


def _not_covered(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("8")
    if section is None:
        return _absent(plan, "8")
    return [] if section.text.strip() else [at(section, "section 8 is empty")]


def _questions(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("9")
    if section is None:
        return _absent(plan, "9")
    if not plan.questions and _NO_QUESTIONS not in section.text.casefold():
        return [at(section, "section 9 asks nothing, and does not say so")]
    return [
        at(row, "a question without an owner or a date")
        for row in plan.questions
        if not (row.question and row.owner and row.by)
    ]


def _too_small(plan: Plan) -> Iterable[Place]:
    section = plan.sections.get("1")
    if section is None or plan.front.mode != "change-scoped":
        return []
    files = re.findall(r"[\w./-]*\w\.\w+|\bLICENSE\b", section.field("Files touched"))
    if files and not any(is_behaviour(PurePosixPath(file)) for file in files):
        return [at(section, f"the change touches nothing that runs: {', '.join(files[:5])}")]
    return []


RULES: Final = (
    Rule(
        id="L01",
        title="section 0 is there, is short, and names the six topics",
        remedy=f"{_LINES_MAX} lines at most on {', '.join(ARCHITECTURE)}",
        check=_architecture,
    ),
    Rule(
        id="L02",
        title="the front matter is whole, and the scope fits the mode",
        remedy="a slug that describes, date, sut, author, status; project-wide: In scope and Out "
        "of scope, and no change; change-scoped: the change, a paragraph on it, its files",
        check=_scope,
    ),
    Rule(
        id="L07",
        title="section 1c is there, and says so where it is empty",
        remedy='rows M1, M2, ... with all cells, or the sentence "No missing claims were found."',
        check=_missing,
    ),
    Rule(
        id="L08",
        title="section 2 has its seven headings",
        remedy="a paragraph below `### NAME` for each of tenancy, persistence, replication, "
        "ordering, network boundaries, retries and idempotency, observability",
        check=_subjects,
    ),
    Rule(
        id="L09",
        title="a project-wide plan lists the tests that there are",
        remedy='a row for each test, all cells filled, or the sentence "No existing tests."',
        check=_inventory,
    ),
    Rule(
        id="L33",
        title="section 8 says what the plan does not cover",
        remedy="name the subsystems and modes that no scenario touches",
        check=_not_covered,
    ),
    Rule(
        id="L34",
        title="section 9 lists open questions, each with an owner and a date",
        remedy='a row for each, all cells filled, or the sentence "No open questions."',
        check=_questions,
    ),
    Rule(
        id="L35",
        title="a change without behaviour needs no plan",
        remedy="delete the plan: documents and typographical changes have nothing to falsify",
        check=_too_small,
    ),
)
