"""A findings report, of one run or of a plan that was executed, and its Markdown.

The order of sections and columns is what `parse` of `rules.py` reads. What others have said is text
that cannot open a tag, a cell or a heading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal

import msgspec

from dstest.core.verdict import State
from dstest.core.words import printable
from dstest.judge.decide import session, session_exit_code
from dstest.report.terminal import PROBE_COLUMNS

Change = Literal["MORE", "LESS", "UNCHANGED"]

CONFIDENCE: Final[tuple[Change, ...]] = ("MORE", "LESS", "UNCHANGED")

NO_PLAN: Final = "none, a run by itself"

NO_SURFACES: Final = "No boundary or fairness scenarios in this plan."
NO_RELEASE: Final = "All scenarios declared a concrete release budget."
NO_RELEASE_RUN: Final = "No plan, so no release budget was declared."
END: Final = "End of the report."

COLUMNS: Final = {
    "Scenario results": (
        *("ID", "Scenario", "Verdict", "Oracle", "Oracle execution evidence"),
        *("Nemesis landing evidence", "Artifact"),
    ),
    "Coverage summary": ("Hypothesis", "Statement", "Scenarios", "Result"),
    "Surface coverage": ("Arm", "Surface", "Executed", "Verdict", "Why it is worth less"),
    "Adequacy": ("Claim", "The plan's argument", "What ran", "After the run"),
    "Green-but-broken": ("Row", "What must hold", "Status", "Evidence"),
}
"""Section -> the columns of its tables."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the scenario results: an arm, or a scenario with several (`arms` of it).

    `ops` are the operations judged, `landed` and `planned` faults. `artifact` is a path relative to
    the report's directory, empty where there is none.
    """

    id: str
    scenario: str
    verdict: State
    oracle: str
    ops: int
    oracle_evidence: str
    planned: int
    landed: int
    landing_evidence: str
    artifact: str
    arms: tuple[str, ...] = ()


class FindingText(msgspec.Struct, frozen=True, kw_only=True):
    """A violation. `blame` is one of the five classes, or unknown with the probes that are still to
    be run; `taxdc` a type, or why it is not known, and `reasons` why so; `probes` are rows of
    `report.blame.PROBE_COLUMNS`; `reduction` says from how many to how many, or why not."""

    id: str
    result: str
    title: str
    hypotheses: str
    happened: str
    counted: tuple[str, ...]
    fault_proven: bool
    blame: str
    taxdc: str
    tags: str
    severity: str
    reasons: tuple[str, ...]
    probes: tuple[tuple[str, ...], ...]
    reduction: str
    reproducer: str
    evidence: tuple[str, ...]
    witness: tuple[str, ...]
    cause: str
    next_action: str


class CoverageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A hypothesis, the scenarios that close it with their verdicts, or why it was not tested."""

    hypothesis: str
    statement: str
    scenarios: str
    result: str


class SurfaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """An arm that was planned: whether it ran, with what, and why it is worth less."""

    arm: str
    surface: str
    executed: bool
    verdict: State
    reason: str


class Disclosure(msgspec.Struct, frozen=True, kw_only=True):
    """What a scenario says in the place of a release budget."""

    scenario: str
    text: str


class AdequacyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: why the plan holds its scenarios for enough, what ran, and what that amounts to."""

    claim: str
    argument: str
    ran: str
    after: str


class Confidence(msgspec.Struct, frozen=True, kw_only=True):
    """A claim: is it believed more than before, or less? And why."""

    claim: str
    change: Change
    why: str


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """RF1 to RF10, WO1 to WO14."""

    id: str
    title: str
    status: str
    evidence: str


class Green(msgspec.Struct, frozen=True, kw_only=True):
    """The audit of one result: could it be green and broken?"""

    result: str
    rows: tuple[AuditLine, ...]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report. `under_test` are the versions or the commit that ran; `place` its directory.
    `pending`: steps that are not done, so that the report is one of a part."""

    name: str
    plan: str
    under_test: tuple[str, ...]
    system: str
    place: str
    headline: str
    results: tuple[Result, ...]
    findings: tuple[FindingText, ...]
    notes: tuple[str, ...]
    coverage: tuple[CoverageRow, ...]
    surfaces: tuple[SurfaceRow, ...]
    disclosures: tuple[Disclosure, ...]
    adequacy: tuple[AdequacyRow, ...]
    confidence: tuple[Confidence, ...]
    greens: tuple[Green, ...]
    facts: tuple[tuple[str, str], ...] = ()
    wanted: str = "smoke"
    pending: tuple[str, ...] = ()
    besides: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Sections of its own, (title, lines) as they are to stand there."""
    never_red: tuple[str, ...] = ()
    """Arms that passed, of a claim that only a history can falsify, and that nobody has seen
    fail."""
    red_results: tuple[str, ...] = ()
    """Runs and sessions that were to fail by a known bug, and did."""

    @property
    def leaves(self) -> tuple[Result, ...]:
        """The results that are not made of others."""
        return tuple(row for row in self.results if not row.arms)

    @property
    def outcome(self) -> str:
        """The session verdict. Above smoke a smoke pass is less than was asked;
        and so is, always, a pass of what nobody has seen fail."""
        states = [row.verdict for row in self.leaves]
        word = session(states) if states else "BLOCKED"
        if word == "DONE" and (self.pending or self.never_red or self._less(states)):
            return "DONE_WITH_CONCERNS"
        return word

    def _less(self, states: list[State]) -> bool:
        return self.wanted != "smoke" and State.PASS_SMOKE in states

    @property
    def exit_code(self) -> int:
        word = self.outcome
        return int(session_exit_code(word))  # type: ignore[arg-type]


def md(text: object) -> str:
    """Text that cannot open a tag, a table cell, a heading or a code span."""
    flat = printable(" ".join(str(text).split()))
    for char in ("\\", "`", "*", "_", "[", "]", "|", "#"):
        flat = flat.replace(char, "\\" + char)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def fenced(text: str) -> str:
    """A fenced block; the fence is longer than any run of backticks inside."""
    text = printable(text)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """A table with an empty line after it."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(md(cell) for cell in row) + " |" for row in rows]
    return [*lines, ""]


def render(report: Report) -> str:
    """The page; it ends with `END`, so that a part of one is known as such."""
    lines = [
        f"# Findings: {md(report.name)}",
        "",
        f"- Plan: {md(report.plan)}",
        f"- Under test: {md('; '.join(report.under_test) or 'nothing has run')}",
        f"- System: {md(report.system)}",
        f"- Directory: {md(report.place)}",
        *(f"- {md(name)}: {md(text)}" for name, text in report.facts),
        "",
        "## Summary",
        "",
        f"Session {report.outcome}: {md(report.headline)}",
        "",
        *(line for note in report.notes for line in (md(note), "")),
        "## Scenario results",
        "",
        *table(COLUMNS["Scenario results"], map(_result, report.results)),
        "## Findings",
        "",
        *(line for found in report.findings for line in _finding(found)),
        *([] if report.findings else ["No violation was found.", ""]),
        *(line for name, own in report.besides for line in (f"## {name}", "", *own, "")),
        "## Coverage summary",
        "",
        *_or(
            table(
                COLUMNS["Coverage summary"],
                ((r.hypothesis, r.statement, r.scenarios, r.result) for r in report.coverage),
            ),
            bool(report.coverage),
            "No plan, so no hypotheses were written down.",
        ),
        "## Surface coverage",
        "",
        *_surfaces(report),
        "## Release budget",
        "",
        *_disclosures(report),
        "## Adequacy",
        "",
        *_or(
            table(
                COLUMNS["Adequacy"],
                ((r.claim, r.argument, r.ran, r.after) for r in report.adequacy),
            ),
            bool(report.adequacy),
            "No plan, so nothing was argued beforehand.",
        ),
        "## Confidence",
        "",
        *_confidence(report),
        "## Green-but-broken",
        "",
        *(line for green in report.greens for line in _green(green)),
        *([] if report.greens else ["Nothing has run that could be green.", ""]),
        "## Session verdict",
        "",
        report.outcome,
        "",
        END,
        "",
    ]
    return "\n".join(lines)


def _or(lines: list[str], there: bool, otherwise: str) -> list[str]:
    return lines if there else [otherwise, ""]


def _result(row: Result) -> tuple[object, ...]:
    made_of = f" (of {', '.join(row.arms)})" if row.arms else ""
    return (
        row.id,
        row.scenario + made_of,
        row.verdict.value,
        row.oracle or "-",
        row.oracle_evidence or "-",
        row.landing_evidence or "-",
        row.artifact or "-",
    )


def _finding(found: FindingText) -> list[str]:
    lines = [
        f"### {found.id}: {md(found.title)}",
        "",
        f"- Scenario: {md(found.result)}",
        f"- Hypothesis: {md(found.hypotheses)}",
        f"- What happened: {md(found.happened)}",
        *(f"- Counted by {md(line)}" for line in found.counted),
        f"- Fault proven: {'yes' if found.fault_proven else 'no'}",
        f"- Blame: {md(found.blame)}",
        f"- TaxDC type: {md(found.taxdc)}",
        f"- Tags: {md(found.tags)}",
        f"- Severity: {md(found.severity)}",
        *(f"- Because: {md(reason)}" for reason in found.reasons),
        f"- Reduction: {md(found.reduction)}",
        f"- Root cause: {md(found.cause)}",
        f"- Next action: {md(found.next_action)}",
        *(f"- Evidence: {md(line)}" for line in found.evidence),
        "",
        *table(PROBE_COLUMNS, found.probes),
        "Reproducer:",
        "",
        fenced(found.reproducer),
        "",
    ]
    return [*lines, *found.witness]


def _surfaces(report: Report) -> list[str]:
    if not report.surfaces:
        return [NO_SURFACES, ""]
    rows = (
        (r.arm, r.surface or "-", "yes" if r.executed else "no", r.verdict.value, r.reason or "-")
        for r in report.surfaces
    )
    missing = [r.surface or r.arm for r in report.surfaces if not r.executed]
    return [
        *table(COLUMNS["Surface coverage"], rows),
        f"Missing surfaces: {md(', '.join(missing) or 'none')}",
        "",
    ]


def _disclosures(report: Report) -> list[str]:
    if not report.disclosures:
        return [NO_RELEASE if report.coverage else NO_RELEASE_RUN, ""]
    return [*(f"- {row.scenario}: {md(row.text)}" for row in report.disclosures), ""]


def _confidence(report: Report) -> list[str]:
    lines = []
    for change in CONFIDENCE:
        rows = [row for row in report.confidence if row.change == change]
        lines.append(f"- {change}: {', '.join(row.claim for row in rows) or 'none'}")
    lines += ["", *(f"{md(row.claim)}: {md(row.why)}" for row in report.confidence)]
    return [*lines, ""]


def _green(green: Green) -> list[str]:
    rows = ((row.id, row.title, row.status, row.evidence) for row in green.rows)
    return [f"### {md(green.result)}", "", *table(COLUMNS["Green-but-broken"], rows)]


def confidence_of(states: Collection[State]) -> tuple[Change, str]:
    """Is a claim believed more than before, or less? From the verdicts of all that ran for it: the
    change, and a sentence."""
    if any(state.failed for state in states):
        return "LESS", "a violation was observed."
    undelivered = [state.value for state in states if not state.passed]
    if undelivered:
        said = ", ".join(sorted(set(undelivered)))
        return "LESS", f"what was to test it did not deliver: {said}."
    if State.PASS_HARDENING in states:
        return "MORE", "no violation was observed under the faults that landed."
    if states:
        return "UNCHANGED", "smoke passes alone: the tests work, and say nothing of robustness."
    return "UNCHANGED", "nothing ran for it."
