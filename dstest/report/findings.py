"""`findings.md`: the run as a findings report, headline first (discipline 6.3, first version)."""

from __future__ import annotations

from collections.abc import Mapping

from dstest.core.evidence import BlameProbe
from dstest.core.printable import printable
from dstest.judge.blame import blame
from dstest.judge.judged import share
from dstest.report.blame import bug_lines, probe_lines
from dstest.report.model import RunReport
from dstest.report.tally import tallies
from dstest.report.timeline import sentence

__all__ = ["render_findings"]


def md(text: object) -> str:
    """Text that cannot open a tag, a table cell, a heading or a code span."""
    flat = printable(" ".join(str(text).split()))
    for char in ("\\", "`", "*", "_", "[", "]", "|", "#"):
        flat = flat.replace(char, "\\" + char)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    """A fenced block; the fence is longer than any run of backticks inside."""
    text = printable(text)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _landing(report: RunReport) -> str:
    planned = report.evidence.faults_planned
    if not planned:
        return "n/a, no fault"
    first = next((f for f in report.faults if f.landed == "yes" and f.signals), None)
    said = f"{report.landed} of {planned} landed"
    if first is not None and first.signals[0].rows:
        path, before, during, _ = first.signals[0].rows[0]
        said += f"; {first.id}: {first.signals[0].signal}, {path} {before} to {during}"
    return said


def _scenario(report: RunReport) -> list[str]:
    header = report.history.header
    name = " ".join(str(x) for x in (header.system, header.workload) if x) or report.run
    c = report.evidence.checker
    oracle = (
        f"operations judged: {share(c)}, result {c.result}, "
        f"{c.canary_killed} of {c.canary_total} broken copies rejected"
    )
    return [
        "## Scenario results",
        "",
        (
            "| ID | Scenario | Verdict | Oracle | Oracle execution evidence |"
            " Nemesis landing evidence | Artifact |"
        ),
        "|---|---|---|---|---|---|---|",
        (
            f"| S1 | {md(name)} | {report.state.value} | {md(', '.join(c.declared) or 'none')} |"
            f" {md(oracle)} | {md(_landing(report))} | history.jsonl |"
        ),
        "",
    ]


def _finding(report: RunReport, more: Mapping[str, BlameProbe] | None) -> list[str]:
    v = report.verdict
    lines = [
        "## Findings",
        "",
        f"### F1: {md(report.evidence.violation_fingerprint or 'violation')}",
        "",
        f"- What happened: {md(v.reason)}",
        *(f"- Counted by {md(line)}" for line in tallies(report.results)),
        f"- Verdict: {report.state.value}, rule {v.rule}",
        f"- Fault proven: {'yes' if report.evidence.fault_landed else 'no'}",
        f"- Blame: {md(blame(report.evidence, more) or 'unknown - pending: no probe was run')}",
        *bug_lines(v.bug, md),
        "- Reduction: not reduced yet",
        "",
        "Probes of who is to blame:",
        "",
        *probe_lines(report.evidence, more, md),
        "",
        "Reproducer:",
        "",
        _code(report.command or f"dstest check {report.path}/history.jsonl"),
        "",
    ]
    for checker, anomaly in report.anomalies:
        key = "" if anomaly.key is None else f" on key {anomaly.key}"
        lines += [f"Witness ({md(checker)}): {md(anomaly.type + key)}", ""]
        if anomaly.explanation:
            lines += [md(anomaly.explanation), ""]
        lines += [f"- {md(sentence(op))}" for op in report.ops_of(anomaly)]
        lines.append("")
    lines += ["Next action: run the same seed again, then reduce.", ""]
    return lines


def _no_finding(report: RunReport) -> list[str]:
    lines = ["## Findings", "", "No violation was found.", ""]
    if report.verdict.why_not_better:
        lines += ["What stands between this verdict and the next stronger one:", ""]
        for remedy in report.remedies:
            lines.append(f"- {md(remedy.obstacle)}")
            if remedy.command:
                lines.append(f"  Supplied by: `{printable(remedy.command)}`")
        lines.append("")
    return lines


def _errors(report: RunReport) -> list[str]:
    if not report.errors:
        return []
    lines = ["## Errors that no fault explains", "", "| Operation | Outcome | Count | Error |"]
    lines.append("|---|---|---|---|")
    for row in report.errors:
        lines.append(f"| {md(row.op_type)} | | | {md(row.message)} |")
        lines += [f"| | {e.outcome} | {e.count:,} | {md(e.text)} |" for e in row.texts]
    return [*lines, ""]


def render_findings(report: RunReport, more: Mapping[str, BlameProbe] | None = None) -> str:
    """The Markdown text. `more` are results of probes that were run apart (`dstest blame`)."""
    header = report.history.header
    lines = [
        f"# Findings: {md(report.run)}",
        "",
        f"- System: {md(header.system or '-')} {md(header.system_version or '')}",
        f"- Seed: {md(header.seed)}",
        f"- Directory: {md(report.path)}",
        "",
        "## Summary",
        "",
        f"Session {report.session}: {report.state.value}. {md(report.verdict.reason)}",
        "",
        md(report.meaning),
        "",
        *_scenario(report),
        *(_finding(report, more) if report.state.failed else _no_finding(report)),
        *_errors(report),
        "## Green-but-broken",
        "",
        "| Row | What must hold | Status | Evidence |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row.id} | {md(row.title)} | {row.status} | {md(row.evidence)} |"
        for row in report.audit
    ]
    lines += [
        "",
        "No boundary or fairness scenarios in this run.",
        "",
        "## Session verdict",
        "",
        report.session,
        "",
    ]
    return "\n".join(lines)
