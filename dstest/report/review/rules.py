"""R01 to R19: does a findings report say what the evidence gives, whole and in sober words?

The truth is a `Report` made anew from the run directories; the page, read back as sections, their
tables and their `- Name: text` lines (`parse`), is what lies somewhere, written by us or edited
since. A rule says what is wrong in one sentence, and nothing where all is well.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, get_args

import msgspec

from dstest.core.evidence import TaxDC
from dstest.core.rules import Rule
from dstest.core.verdict import State
from dstest.judge.audit import TITLES
from dstest.judge.blame import CLASSES
from dstest.judge.decide import aggregate
from dstest.judge.symptom import UNCLASSIFIED
from dstest.report.review.model import (
    CONFIDENCE,
    END,
    NO_RELEASE,
    NO_RELEASE_RUN,
    NO_SURFACES,
    Report,
    render,
)

_ESCAPED: Final = re.compile(r"\\([\\`*_\[\]|#])")
_CELL: Final = re.compile(r"(?<!\\)\|")
_LINE: Final = re.compile(r"- (?P<name>[^:]+): ?(?P<text>.*)")
_FENCE: Final = re.compile(r"`{3,}")

BANNED: Final = ("cannot happen", "can not happen", "guarantees", "impossible", "proves")
"""Words that no test can carry (also R16's for what a plan quotes: L31)."""

BLAMES: Final = tuple(CLASSES)

TYPES: Final = (*filter(None, get_args(TaxDC)), UNCLASSIFIED.strip(": "))
"""TaxDC's, and that it is not known, with the reason behind it."""

_STATES: Final = frozenset(state.value for state in State)
_REDUCED: Final = re.compile(r"from [\d,]+ .*to [\d,]+ .*over [\d,]+ |not reduced.*: .+")

_SOBER: Final = ("Summary", "Findings", "Coverage summary", "Adequacy", "Confidence")
"""Sections with words of ours; what a plan says is left to L31."""

_FREE: Final = ("- Directory: ", "- Root cause: ", "- Next action: ", "- Reduction: ")
"""Lines that a person writes, or that tell where a copy lies."""

_QUOTED: Final = frozenset({"Statement", "The plan's argument"})
"""Columns that quote the plan."""


def _plain(text: str) -> str:
    return html.unescape(_ESCAPED.sub(r"\1", text)).strip()


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """What stands below a heading. `fields` are its `- Name: text` lines, `rows` those of its
    table, by column; `text` is all other lines."""

    title: str
    fields: tuple[tuple[str, str], ...]
    rows: tuple[dict[str, str], ...]
    text: str

    def field(self, name: str) -> str | None:
        """The text of the first line of this name."""
        return next((text for found, text in self.fields if found == name), None)

    def all(self, name: str) -> list[str]:
        return [text for found, text in self.fields if found == name]


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """`head` stands before the first section; `parts` are the sections of the third level, by the
    second-level section that they are in."""

    head: Section
    sections: dict[str, Section]
    parts: dict[str, tuple[Section, ...]]
    end: str


def parse(text: str) -> Page:
    """The page as sections. Whatever is missing is simply not there."""
    chunks = list(_chunks(text))
    sections: dict[str, Section] = {}
    parts: dict[str, tuple[Section, ...]] = {}
    head = _section("", [])
    at = ""
    for level, title, lines in chunks:
        made = _section(title, lines)
        if level < 2:
            head = made
        elif level == 2:
            at = title
            sections[title] = made
        else:
            parts[at] = (*parts.get(at, ()), made)
    last = [line for line in text.splitlines() if line.strip()]
    return Page(head=head, sections=sections, parts=parts, end=last[-1] if last else "")


def _chunks(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """(level, title, lines) of each heading's own part; what is in a fence is no heading."""
    level, title, lines, fence = 0, "", list[str](), ""
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[0] == fence else fence
        elif mark:
            fence = mark[0]
        elif line.startswith("#"):
            yield level, title, lines
            hashes, _, name = line.partition(" ")
            level, title, lines = len(hashes), _plain(name), []
            continue
        lines.append(line)
    yield level, title, lines


def _section(title: str, lines: list[str]) -> Section:
    tables = [line for line in lines if line.startswith("|")]
    found = [_LINE.fullmatch(line) for line in lines]
    return Section(
        title=title,
        fields=tuple((_plain(m["name"]), _plain(m["text"])) for m in found if m),
        rows=tuple(_rows(tables)),
        text="\n".join(
            _plain(line) for line, m in zip(lines, found, strict=True) if not m and line[:1] != "|"
        ).strip(),
    )


def _rows(lines: list[str]) -> Iterator[dict[str, str]]:
    if len(lines) < 3:
        return
    names = _cells(lines[0])
    for line in lines[2:]:
        yield dict(zip(names, _cells(line), strict=False))


def _cells(line: str) -> list[str]:
    return [_plain(cell) for cell in _CELL.split(line.strip())[1:-1]]


class Broken(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a report breaks, and how."""

    rule: str
    what: str


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """The page, the truth, and where the page lies."""

    page: Page
    truth: Report
    place: Path
    text: str

    def section(self, title: str) -> Section:
        empty = Section(title=title, fields=(), rows=(), text="")
        return self.page.sections.get(title, empty)

    @property
    def rows(self) -> dict[str, dict[str, str]]:
        """The scenario results as the page has them, by id."""
        return {row.get("ID", ""): row for row in self.section("Scenario results").rows}

    @property
    def findings(self) -> tuple[Section, ...]:
        return self.page.parts.get("Findings", ())


def review(text: str, truth: Report, place: Path) -> list[Broken]:
    """Every rule that the page breaks. `place` is the directory that its paths start from."""
    case = _Case(page=parse(text), truth=truth, place=place, text=text)
    found = [Broken(rule=rule.id, what=said) for rule in RULES for said in rule.find(case)]
    if not found and (line := _other_line(text, render(truth))):
        found.append(Broken(rule="R19", what=f"line {line} is not what the evidence gives"))
    return found


def _other_line(text: str, wanted: str) -> int:
    """The first line, from 1 on, that differs from the report as it is made anew, but for what a
    person may write in it; 0 where there is none."""
    there, ours = text.splitlines(), wanted.splitlines()
    for number, (a, b) in enumerate(itertools.zip_longest(there, ours), 1):
        free = any(a and b and a.startswith(f) and b.startswith(f) for f in _FREE)
        if a != b and not free:
            return number
    return 0


def _under_test(case: _Case) -> Iterator[str]:
    said = case.page.head.field("Under test")
    wanted = "; ".join(case.truth.under_test) or "nothing has run"
    if said is None:
        yield "the report does not say what was tested"
    elif said.split() != wanted.split():
        yield f"what was tested is {wanted}, the report says {said}"


def _headline(case: _Case) -> Iterator[str]:
    first = case.section("Summary").text.partition(". ")[0]
    if f"Session {case.truth.outcome}:" not in first:
        yield f"the first sentence of the summary does not say: session {case.truth.outcome}"


def _verdicts(case: _Case) -> Iterator[str]:
    rows = case.rows
    for wanted in case.truth.results:
        row = rows.get(wanted.id)
        if row is None:
            yield f"{wanted.id} has no row"
        elif row.get("Verdict") not in _STATES:
            yield f"{wanted.id}: {row.get('Verdict')!r} is none of the ten verdicts"
        elif row["Verdict"] != wanted.verdict.value and not wanted.arms:
            yield f"{wanted.id}: its evidence gives {wanted.verdict.value}, not {row['Verdict']}"
    for name in rows.keys() - {row.id for row in case.truth.results}:
        yield f"there is no result {name!r}"


def _numbers(case: _Case) -> Iterator[str]:
    rows = case.rows
    for wanted in case.truth.leaves:
        row = rows.get(wanted.id, {})
        if not wanted.verdict.passed:
            continue
        said = row.get("Oracle execution evidence", "")
        if said.split() != wanted.oracle_evidence.split() or not wanted.ops:
            yield f"{wanted.id} passed, of its oracle the evidence says: {wanted.oracle_evidence}"
        landing = row.get("Nemesis landing evidence", "")
        told = f"{wanted.landed} of {wanted.planned} landed" in landing
        none = not wanted.planned and landing.startswith("n/a")
        if not told and not none:
            yield f"{wanted.id} passed and does not say how many of its faults landed"


def _aggregates(case: _Case) -> Iterator[str]:
    rows = case.rows
    for wanted in case.truth.results:
        if not wanted.arms:
            continue
        states = [rows.get(arm, {}).get("Verdict") for arm in wanted.arms]
        known = [State(state) for state in states if state in _STATES]
        folded = aggregate(known).value if known and len(known) == len(states) else None
        if rows.get(wanted.id, {}).get("Verdict") != folded:
            yield f"{wanted.id}: its arms amount to {folded}"


def _artifacts(case: _Case) -> Iterator[str]:
    rows = case.rows
    for wanted in case.truth.leaves:
        said = rows.get(wanted.id, {}).get("Artifact", "")
        if wanted.artifact and said != wanted.artifact:
            yield f"{wanted.id}: its artifact is {wanted.artifact}, not {said or 'nothing'}"
        elif wanted.artifact and not (case.place / said).exists():
            yield f"{wanted.id}: {said} is not there"


def _each_failure(case: _Case) -> Iterator[str]:
    told = [found.field("Scenario") for found in case.findings]
    for wanted in case.truth.leaves:
        if wanted.verdict.failed and wanted.id not in told:
            yield f"{wanted.id} failed and has no finding"
    for wanted_finding in case.truth.findings:
        title = f"{wanted_finding.id}: {wanted_finding.title}"
        if title.split() not in [found.title.split() for found in case.findings]:
            yield f"finding {title} is not there"


def _sections_with(case: _Case, name: str) -> Iterator[tuple[Section, list[str]]]:
    for found in case.findings:
        yield found, found.all(name)


def _blame(case: _Case) -> Iterator[str]:
    wanted = {f.id: f.blame for f in case.truth.findings}
    for found, said in _sections_with(case, "Blame"):
        id = found.title.partition(":")[0]
        if len(said) != 1 or said[0].split()[:1] == []:
            yield f"{id}: exactly one blame, not {len(said)}"
        elif said[0].split()[0].rstrip(":,") not in BLAMES:
            yield f"{id}: {said[0]!r} is none of {', '.join(BLAMES)}"
        elif id in wanted and said[0].split() != wanted[id].split():
            yield f"{id}: the probes give {wanted[id]}"


def _type(case: _Case) -> Iterator[str]:
    wanted = {f.id: f.taxdc for f in case.truth.findings}
    for found, said in _sections_with(case, "TaxDC type"):
        id = found.title.partition(":")[0]
        word = re.split(r"[\s:,;]", said[0])[0] if len(said) == 1 else ""
        if word not in TYPES:
            yield f"{id}: one TaxDC type of {', '.join(TYPES)}"
        elif id in wanted and said[0].split() != wanted[id].split():
            yield f"{id}: what is known gives {wanted[id]}"


def _reduction(case: _Case) -> Iterator[str]:
    for found, said in _sections_with(case, "Reduction"):
        if len(said) != 1 or not _REDUCED.match(said[0]):
            id = found.title.partition(":")[0]
            yield f"{id}: from N to k over M runs, or `not reduced: ` and why"


def _hypotheses(case: _Case) -> Iterator[str]:
    rows = {row.get("Hypothesis"): row for row in case.section("Coverage summary").rows}
    for wanted in case.truth.coverage:
        row = rows.get(wanted.hypothesis)
        if row is None:
            yield f"{wanted.hypothesis} is not there"
        elif row.get("Result", "").split() != wanted.result.split():
            yield f"{wanted.hypothesis}: its scenarios give {wanted.result}"


def _surfaces(case: _Case) -> Iterator[str]:
    section = case.section("Surface coverage")
    if not case.truth.surfaces:
        if NO_SURFACES not in section.text:
            yield f"it does not say: {NO_SURFACES}"
        return
    rows = {row.get("Arm"): row for row in section.rows}
    for wanted in case.truth.surfaces:
        row = rows.get(wanted.arm)
        if row is None:
            yield f"{wanted.arm} is not there"
            continue
        executed = "yes" if wanted.executed else "no"
        if (row.get("Executed"), row.get("Verdict")) != (executed, wanted.verdict.value):
            yield f"{wanted.arm}: executed: {executed}, {wanted.verdict.value}"
    missing = [r.surface or r.arm for r in case.truth.surfaces if not r.executed]
    if f"Missing surfaces: {', '.join(missing) or 'none'}" not in section.text:
        yield f"missing surfaces are {', '.join(missing) or 'none'}"


def _release(case: _Case) -> Iterator[str]:
    section = case.section("Release budget")
    if not case.truth.disclosures:
        wanted = NO_RELEASE if case.truth.coverage else NO_RELEASE_RUN
        if wanted not in section.text:
            yield f"it does not say: {wanted}"
        return
    for row in case.truth.disclosures:
        said = section.field(row.scenario) or ""
        if said.split() != row.text.split():
            yield f"{row.scenario}: the plan says {row.text!r}"


def _adequate(case: _Case) -> Iterator[str]:
    rows = {row.get("Claim"): row for row in case.section("Adequacy").rows}
    for wanted in case.truth.adequacy:
        said = rows.get(wanted.claim, {}).get("After the run", "")
        if said.split() != wanted.after.split():
            yield f"{wanted.claim}: after what ran it is {wanted.after!r}, not {said!r}"


def _lists(case: _Case) -> Iterator[str]:
    section = case.section("Confidence")
    listed = {
        change: [name.strip() for name in (section.field(change) or "").split(",") if name.strip()]
        for change in CONFIDENCE
    }
    for wanted in case.truth.confidence:
        there = [change for change, names in listed.items() if wanted.claim in names]
        if len(there) != 1:
            yield f"{wanted.claim} is in {len(there)} lists"
        elif there[0] != wanted.change:
            yield f"{wanted.claim}: its scenarios give {wanted.change}, not {there[0]}"


def _words(case: _Case) -> Iterator[str]:
    for title in _SOBER:
        section = case.section(title)
        parts = (section, *case.page.parts.get(title, ()))
        for part in parts:
            cells = [c for row in part.rows for name, c in row.items() if name not in _QUOTED]
            said = " ".join([part.text, *(text for _, text in part.fields), *cells]).lower()
            for word in BANNED:
                if re.search(rf"\b{re.escape(word)}\b", said):
                    yield f"{title}: {word!r} is more than a test can say"


def _rows_of_the_audit(case: _Case) -> Iterator[str]:
    parts = {part.title: part for part in case.page.parts.get("Green-but-broken", ())}
    for green in case.truth.greens:
        part = parts.get(green.result)
        rows = {} if part is None else {row.get("Row"): row for row in part.rows}
        for wanted in green.rows:
            row = rows.get(wanted.id)
            if row is None:
                yield f"{green.result}: {wanted.id} is not there"
            elif row.get("Status") != wanted.status:
                yield f"{green.result}: {wanted.id} is {wanted.status}, not {row.get('Status')}"
            elif not row.get("Evidence"):
                yield f"{green.result}: {wanted.id} has no evidence"
        if {line.id for line in green.rows} != set(TITLES):
            yield f"{green.result}: its audit has not all {len(TITLES)} rows"


def _session(case: _Case) -> Iterator[str]:
    said = case.section("Session verdict").text.removesuffix(END).strip()
    if said != case.truth.outcome:
        yield f"the session is {case.truth.outcome}, not {said or 'nothing'}"


def _whole(case: _Case) -> Iterator[str]:
    if case.page.end != END:
        yield "the report has no end: it was cut off, or could not be written whole"


RULES: Final[tuple[Rule[_Case, Iterator[str]], ...]] = (
    Rule("R01", "it says what was tested, as the runs recorded it", _under_test),
    Rule("R02", "its first sentence is the session verdict", _headline),
    Rule("R03", "each result has one of the ten verdicts, that of its evidence", _verdicts),
    Rule("R04", "a pass has its numbers: operations judged, faults landed", _numbers),
    Rule("R05", "a scenario with arms is what they amount to", _aggregates),
    Rule("R06", "each artifact is there", _artifacts),
    Rule("R07", "each failure has a finding", _each_failure),
    Rule("R08", "each finding has exactly one blame, that of the probes", _blame),
    Rule("R09", "each finding has one TaxDC type", _type),
    Rule("R10", "each finding says how far it was reduced, or why not", _reduction),
    Rule("R11", "each hypothesis is there with what became of it", _hypotheses),
    Rule("R12", "each surface is there, and those that are missing", _surfaces),
    Rule("R13", "what the plan says in the place of a release budget, word for word", _release),
    Rule("R14", "no claim reads better than what ran for it", _adequate),
    Rule("R15", "each claim is in exactly one list of confidence", _lists),
    Rule("R16", "no word that a test cannot carry", _words),
    Rule("R17", "all 24 rows of the audit, with status and evidence", _rows_of_the_audit),
    Rule("R18", "the session verdict is what the results amount to", _session),
    Rule("R19", "the report is whole", _whole),
)
