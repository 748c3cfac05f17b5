"""A findings report as Markdown. The order of sections and columns is what `parse.py` reads."""

from __future__ import annotations

from typing import Final

from dstest.report.blame import PROBE_COLUMNS
from dstest.report.review.markdown import fenced, md, table
from dstest.report.review.model import CONFIDENCE, FindingText, Green, Report, Result

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
