"""Write a run's reports into its directory: plots, report.html, findings.md, junit.xml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import HarnessError
from dstest.core.evidence import LandingRecord
from dstest.core.history import History
from dstest.core.verdict import Verdict
from dstest.judge.facts import Canary
from dstest.report.model import RunReport, build_report, load_report
from dstest.report.terminal import summary_text

__all__ = ["render", "summary", "write_reports"]


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8", errors="replace")
        partial.replace(path)
    except OSError as error:
        raise HarnessError(
            f"cannot write {path}: {error.strerror}",
            remedy=f"free space there, then `dstest report {path.parent}`",
        ) from None


def render(run: Path, report: RunReport) -> None:
    """Draw and write everything. Raises HarnessError where the disk refuses."""
    from dstest.report.findings import render_findings
    from dstest.report.html import render_html
    from dstest.report.junit import render_junit
    from dstest.report.plots import latency_svg, rate_svg

    plots = {"latency": latency_svg(report), "rate": rate_svg(report)}
    for name, svg in plots.items():
        _write(run / "plots" / f"{name}.svg", svg)
    _write(run / "report.html", render_html(report, plots))
    _write(run / "findings.md", render_findings(report))
    _write(run / "junit.xml", render_junit(report))


def write_reports(
    run: Path,
    verdict: Verdict,
    records: list[LandingRecord],
    history: History,
    run_facts: dict[str, Any],
    canary: Canary | None = None,
) -> RunReport:
    """The reports of a run that has just been judged. `run_facts` is the content of run.json."""
    if canary is not None:
        _write(run / "canary.json", msgspec.json.encode(canary).decode() + "\n")
    report = build_report(
        verdict,
        verdict.evidence,
        records,
        history,
        run_facts.get("spec", {}),
        run_facts,
        canary=canary,
        path=run,
    )
    render(run, report)
    return report


def summary(run: Path, *, color: bool = False) -> str:
    """The terminal summary of a judged run directory."""
    return summary_text(load_report(run), color=color)
