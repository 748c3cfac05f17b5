"""L01 to L14, L27 and L33 to L35: what is tested and what is left out, claims and who cites them,
and the hypotheses about them, with the kinds and pitfalls that they come from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from dstest.core.check import CATEGORIES
from dstest.plans.choice import KINDS, PITFALLS
from dstest.plans.draft.sources import is_behaviour
from dstest.plans.lint.rule import Rule, Where, at
from dstest.plans.model import Coverage, Plan, Section, ids, placeholders

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
VERDICTS: Final = ("not covered", "partial", "covered")
GAPS: Final = (
    *("no test", "oracle too weak", "no fault variant", "shallow", "no scale variant", "none"),
)
"""What existing tests leave open; `none` where they cover the claim."""

_ANSWERS: Final = ("y", "n", "maybe")


def _absent(plan: Plan, id: str) -> list[Where]:
    return [] if id in plan.sections else [at(1, f"there is no section {id}")]


def _architecture(plan: Plan) -> Iterable[Where]:
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


def _scope(plan: Plan) -> Iterable[Where]:
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


def _lacking(section: Section, *names: str) -> list[Where]:
    return [
        at(section, f"section {section.id} has no `- **{name}:** ...`")
        for name in names
        if not section.field(name)
    ]


def _missing(plan: Plan) -> Iterable[Where]:
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


def _subjects(plan: Plan) -> Iterable[Where]:
    section = plan.sections.get("2")
    if section is None:
        return _absent(plan, "2")
    found = []
    for subject, words in SUBJECTS.items():
        parts = [part for part in section.parts if re.search(words, part.title, re.IGNORECASE)]
        if not any(part.text.strip() for part in parts):
            found.append(at(parts[0] if parts else section, f"nothing is said of {subject}"))
    return found


def _inventory(plan: Plan) -> Iterable[Where]:
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


def _not_covered(plan: Plan) -> Iterable[Where]:
    section = plan.sections.get("8")
    if section is None:
        return _absent(plan, "8")
    return [] if section.text.strip() else [at(section, "section 8 is empty")]


def _questions(plan: Plan) -> Iterable[Where]:
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


def _too_small(plan: Plan) -> Iterable[Where]:
    section = plan.sections.get("1")
    if section is None or plan.front.mode != "change-scoped":
        return []
    files = re.findall(r"[\w./-]*\w\.\w+|\bLICENSE\b", section.field("Files touched"))
    if files and not any(is_behaviour(PurePosixPath(file)) for file in files):
        return [at(section, f"the change touches nothing that runs: {', '.join(files[:5])}")]
    return []


SCOPE_RULES: Final = (
    Rule(
        id="L01",
        title="section 0 is there, is short, and names the six topics",
        remedy=f"{_LINES_MAX} lines at most on {', '.join(ARCHITECTURE)}",
        find=_architecture,
    ),
    Rule(
        id="L02",
        title="the front matter is whole, and the scope fits the mode",
        remedy="a slug that describes, date, sut, author, status; project-wide: In scope and Out "
        "of scope, and no change; change-scoped: the change, a paragraph on it, its files",
        find=_scope,
    ),
    Rule(
        id="L07",
        title="section 1c is there, and says so where it is empty",
        remedy='rows M1, M2, ... with all cells, or the sentence "No missing claims were found."',
        find=_missing,
    ),
    Rule(
        id="L08",
        title="section 2 has its seven headings",
        remedy="a paragraph below `### NAME` for each of tenancy, persistence, replication, "
        "ordering, network boundaries, retries and idempotency, observability",
        find=_subjects,
    ),
    Rule(
        id="L09",
        title="a project-wide plan lists the tests that there are",
        remedy='a row for each test, all cells filled, or the sentence "No existing tests."',
        find=_inventory,
    ),
    Rule(
        id="L33",
        title="section 8 says what the plan does not cover",
        remedy="name the subsystems and modes that no scenario touches",
        find=_not_covered,
    ),
    Rule(
        id="L34",
        title="section 9 lists open questions, each with an owner and a date",
        remedy='a row for each, all cells filled, or the sentence "No open questions."',
        find=_questions,
    ),
    Rule(
        id="L35",
        title="a change without behaviour needs no plan",
        remedy="delete the plan: documents and typographical changes have nothing to falsify",
        find=_too_small,
    ),
)


_NOTHING: Final = frozenset({"", "-", "--", "?", "none", "n/a", "unknown", "tbd"})


def _ids(plan: Plan) -> Iterable[Where]:
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


def _categories(plan: Plan) -> Iterable[Where]:
    return [
        at(claim, f"{claim.id}: {claim.category!r} is no category of claims")
        for claim in plan.claims
        if claim.category not in CATEGORIES
    ]


def _sources(plan: Plan) -> Iterable[Where]:
    return [
        at(claim, f"{claim.id} has no source")
        for claim in plan.claims
        if claim.source.casefold().strip("`") in _NOTHING
    ]


def _cited(plan: Plan) -> Iterable[Where]:
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


def _matrix(plan: Plan) -> Iterable[Where]:
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


def _legend(plan: Plan) -> Iterable[Where]:
    for row in plan.coverage:
        if row.verdict not in VERDICTS:
            yield at(row, f"{row.verdict!r} is none of {', '.join(VERDICTS)}")
        elif row.gap not in GAPS:
            yield at(row, f"{row.gap!r} is none of {', '.join(GAPS)}")
        elif (row.gap == "none") != (row.verdict == "covered"):
            yield at(row, f"{row.verdict}, and the gap is {row.gap!r}")


CLAIM_RULES: Final = (
    Rule(
        id="L03",
        title="claims have ids of their own, and say something",
        remedy="C1, C2, ... each once, and one claim at least",
        find=_ids,
    ),
    Rule(
        id="L04",
        title="each claim is of a known category",
        remedy=f"one of {', '.join(sorted(CATEGORIES))}",
        find=_categories,
    ),
    Rule(
        id="L05",
        title="each claim has a source",
        remedy="where it is written: a file with its line, or an address",
        find=_sources,
    ),
    Rule(
        id="L06",
        title="hypotheses and scenarios cite claims that are there",
        remedy="ids of section 1b",
        find=_cited,
    ),
    Rule(
        id="L13",
        title="each claim stands in the matrix, and the matrix names what is there",
        remedy="a row in section 5 for each claim under each hypothesis against it",
        find=_matrix,
    ),
    Rule(
        id="L14",
        title="the matrix uses the words of its legend",
        remedy=f"verdict: {', '.join(VERDICTS)}; gap: {', '.join(GAPS)}",
        find=_legend,
    ),
)


def _cite(plan: Plan) -> Iterable[Where]:
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


def _kinds(plan: Plan) -> Iterable[Where]:
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


def _walk(plan: Plan) -> Iterable[Where]:
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


def _closed(plan: Plan) -> Iterable[Where]:
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


HYPOTHESIS_RULES: Final = (
    Rule(
        id="L10",
        title="each hypothesis cites a claim",
        remedy="H1, H2, ... each once, with the claims that it could falsify and all other cells",
        find=_cite,
    ),
    Rule(
        id="L11",
        title="the eight kinds of hypotheses are covered",
        remedy=f"a row for each of {', '.join(KINDS)}: its hypotheses, or `N/A because ...`",
        find=_kinds,
    ),
    Rule(
        id="L12",
        title="the walk over the pitfalls is complete, and nothing is left to be filled in",
        remedy="for each of the 16 y, n or maybe, with hypotheses or a reason; and what `<fill: "
        "...>` asks for",
        find=_walk,
    ),
    Rule(
        id="L27",
        title="each hypothesis is closed by a scenario, and each scenario closes one",
        remedy="ids of hypotheses in `Closes`; drop what nothing tests, or say so in section 7c",
        find=_closed,
    ),
)

RULES: Final[tuple[Rule, ...]] = (
    *SCOPE_RULES,
    *CLAIM_RULES,
    *HYPOTHESIS_RULES,
)
