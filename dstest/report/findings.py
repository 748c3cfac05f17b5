"""`findings.md`: a run as a findings report, headline first.

The pieces are those of a plan's report as well (`dstest/plans/review/`), which has a row for each
of its runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET

from dstest.core import limits
from dstest.core.evidence import BlameProbe
from dstest.core.reproducer import SCRIPT, Reproducer
from dstest.core.words import printable, shell_word
from dstest.judge.blame import blame
from dstest.judge.decide import share
from dstest.report.model import RunReport, alert_lines
from dstest.report.moments import tallies
from dstest.report.review.model import (
    NO_PLAN,
    AuditLine,
    Confidence,
    FindingText,
    Green,
    Report,
    Result,
    confidence_of,
    md,
    render,
    table,
)
from dstest.report.terminal import bug_of, probe_rows
from dstest.report.timeline import sentence

_OWN: Final = "S1"
"""The only scenario of a run without a plan."""


Probes = Mapping[str, BlameProbe]
"""Results of probes that were run apart from the run (`dstest blame`), by name."""


def render_findings(
    report: RunReport, more: Probes | None = None, small: Reproducer | None = None
) -> str:
    """The Markdown text."""
    return render(review_of(report, more, small))


def review_of(
    report: RunReport, more: Probes | None = None, small: Reproducer | None = None
) -> Report:
    """A run by itself, as a findings report. `small` is what it was reduced to, apart from it."""
    header = report.history.header
    state = report.state
    found = finding_of(report, "F1", _OWN, "none written down", more, small)
    return Report(
        name=report.run,
        plan=NO_PLAN,
        under_test=(version_of(report),),
        system=header.system or "-",
        place=report.path,
        facts=(("Seed", str(header.seed)),),
        headline=report.verdict.reason,
        notes=(report.meaning, *_what_is_missing(report)),
        results=(result_of(report, _OWN, "history.jsonl"),),
        findings=(found,) if state.failed else (),
        coverage=(),
        surfaces=(),
        disclosures=(),
        adequacy=(),
        confidence=tuple(_confidence(report, claim) for claim in report.meta.claims or ["safety"]),
        greens=(green_of(report, _OWN),),
        besides=(*_errors(report), *_measured(report)),
    )


def version_of(report: RunReport) -> str:
    """What ran, as the run recorded it."""
    version = report.history.header.system_version
    return (
        f"{report.history.header.system or 'an unnamed system'} {version or '(version not told)'}"
    )


def result_of(report: RunReport, id: str, artifact: str, scenario: str | None = None) -> Result:
    """The row of a run."""
    header = report.history.header
    name = " ".join(str(x) for x in (header.system, header.workload) if x) or report.run
    c = report.evidence.checker
    oracle = (
        f"operations judged: {share(c)}, result {c.result}, "
        f"{c.canary_killed} of {c.canary_total} broken copies rejected"
    )
    return Result(
        id=id,
        scenario=scenario or name,
        verdict=report.state,
        oracle=", ".join(c.declared) or "none",
        ops=c.ops_judged,
        oracle_evidence=oracle,
        planned=report.evidence.faults_planned,
        landed=report.landed,
        landing_evidence=_landing(report),
        artifact=artifact,
    )


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


def finding_of(
    report: RunReport,
    id: str,
    result: str,
    hypotheses: str,
    more: Probes | None = None,
    small: Reproducer | None = None,
) -> FindingText:
    """The finding of a run that failed."""
    v = report.verdict
    bug = bug_of(v.bug)
    return FindingText(
        id=id,
        result=result,
        title=report.evidence.violation_fingerprint or "violation",
        hypotheses=hypotheses,
        happened=v.reason,
        counted=tuple(tallies(report.results)),
        fault_proven=report.evidence.fault_landed,
        blame=blame(report.evidence, more) or "unknown - pending: no probe was run",
        taxdc=bug.type,
        tags=", ".join(bug.tags) or "nothing that is known gives one",
        severity=bug.severity,
        reasons=tuple(bug.reasons),
        probes=tuple(probe_rows(report.evidence, more)),
        reduction=_reduction(report, small),
        reproducer=report.command or f"dstest check {shell_word(report.path)}/history.jsonl",
        evidence=("verdict.json, history.jsonl, faults.jsonl",),
        witness=_witness(report),
        cause="not known; its owner is who maintains what is blamed",
        next_action=_next(report, more, small),
    )


def _next(report: RunReport, more: Probes | None, small: Reproducer | None) -> str:
    """Commands, in the order in which they pay; the last makes it smaller, unless that was done."""
    steps = [step.command for step in report.steps(more)]
    if small is not None:
        steps = [f"sh {shell_word(f'{report.path}.shrink/{SCRIPT}')}", *steps[:-1]]
    return "; ".join(steps) or f"dstest check {shell_word(f'{report.path}/history.jsonl')}"


def _reduction(report: RunReport, small: Reproducer | None) -> str:
    if small is None:
        return f"not reduced: `dstest shrink {shell_word(report.path)}` does it"
    came, after = small.rate_after, small.after
    kinds = ", ".join(after.kinds) or "no fault"
    return (
        f"from {small.before.events:,} fault events to {after.events:,} ({kinds}) over"
        f" {small.runs:,} runs; of runs of that alone it came in {came.came} of {came.runs}"
        + ("" if came.simulations is UNSET else ", which are one sample")
        + ("" if small.confirmed else ", which is too few to call it reproducible")
    )


def _witness(report: RunReport) -> tuple[str, ...]:
    """Of a long one the last operations, in order of invocation."""
    lines: list[str] = []
    ops = report.history.ops
    places = {op.op_id: at for at, op in enumerate(ops)} if report.anomalies else {}
    for checker, anomaly in report.anomalies:
        found = sorted(places[op_id] for op_id in {*anomaly.ops} if op_id in places)
        key = "" if anomaly.key is None else f" on key {anomaly.key}"
        lines += [f"Witness ({md(checker)}): {md(anomaly.type + key)}", ""]
        if anomaly.explanation:
            lines += [md(anomaly.explanation), ""]
        lines += [f"- {md(sentence(ops[at]))}" for at in found[-limits.WITNESS_OPS_MAX :]]
        lines.append("")
    return tuple(lines)


def _what_is_missing(report: RunReport) -> tuple[str, ...]:
    if report.state.failed or not report.verdict.why_not_better:
        return ()
    said = ["What stands between this verdict and the next stronger one:"]
    for remedy in report.remedies:
        supplied = f" Supplied by: {printable(remedy.command)}" if remedy.command else ""
        said.append(f"{remedy.obstacle}{supplied}")
    return tuple(said)


def _confidence(report: RunReport, claim: str) -> Confidence:
    change, why = confidence_of([report.state])
    return Confidence(claim=claim, change=change, why=why)


def green_of(report: RunReport, result: str) -> Green:
    """The audit of a run."""
    rows = tuple(
        AuditLine(id=row.id, title=row.title, status=row.status, evidence=row.evidence)
        for row in report.audit
    )
    return Green(result=result, rows=rows)


def _errors(report: RunReport) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not report.errors:
        return ()
    rows: list[tuple[object, ...]] = []
    for row in report.errors:
        rows.append((row.op_type, "", "", row.message))
        rows += [("", e.outcome, f"{e.count:,}", e.text) for e in row.texts]
    lines = table(("Operation", "Outcome", "Count", "Error"), rows)
    return (("Errors that no fault explains", tuple(lines[:-1])),)


def _measured(report: RunReport) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Of a run that was sampled: its baseline, and alerts."""
    if report.measured is None:
        return ()
    return (("What was measured", tuple(f"- {md(line)}" for line in alert_lines(report.measured))),)
