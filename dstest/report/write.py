"""Write a run's reports into its directory: plots, report.html, findings.md, junit.xml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from dstest.core.errors import HarnessError
from dstest.core.evidence import LandingRecord
from dstest.core.history import History
from dstest.core.run_meta import RunMeta
from dstest.core.verdict import Verdict
from dstest.core.words import shell_word
from dstest.judge.facts import Canary
from dstest.report.model import RunReport, build_report, load_report
from dstest.report.terminal import summary_text
from dstest.store.layout import way_out


def _write(run: Path, name: str, text: str) -> None:
    path = run / name
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8", errors="replace")
        partial.replace(path)
    except OSError as error:
        raise HarnessError(
            f"cannot write {path}: {error.strerror}",
            remedy=f"{way_out(run, error)}, then `dstest report {shell_word(run)}`",
        ) from None


def plain_texts(report: RunReport) -> dict[str, str]:
    """The reports that hold words alone, by file name."""
    from dstest.report.findings import render_findings
    from dstest.report.junit import render_junit

    return {"findings.md": render_findings(report), "junit.xml": render_junit(report)}


def pictures(report: RunReport) -> dict[str, str]:
    """Those that stand alone, by their names in the run directory."""
    from dstest.report.plots import latency_svg, rate_svg

    return {"plots/latency.svg": latency_svg(report), "plots/rate.svg": rate_svg(report)}


def drawn(report: RunReport) -> dict[str, str]:
    """Every file of a report by its name in the run directory."""
    from dstest.report.html import render_html

    return {
        **pictures(report),
        "report.html": render_html(report),
        **plain_texts(report),
    }


def outdated(run: Path, files: dict[str, str]) -> dict[str, str]:
    """Those of `files` that are not in the run directory with this content."""
    return {
        name: text
        for name, text in files.items()
        if not (run / name).is_file()
        or (run / name).read_bytes() != text.encode("utf-8", errors="replace")
    }


def render(run: Path, report: RunReport) -> list[str]:
    """Draw everything, write what is new; the names. Raises HarnessError where the disk refuses."""
    changed = outdated(run, drawn(report))
    write_texts(run, changed)
    return list(changed)


def write_texts(run: Path, files: Mapping[str, str]) -> None:
    """Files of a report as they were drawn. Raises HarnessError where the disk refuses."""
    for name, text in files.items():
        _write(run, name, text)


def write_reports(
    run: Path,
    verdict: Verdict,
    records: list[LandingRecord],
    history: History,
    meta: RunMeta,
    canary: Canary | None = None,
) -> RunReport:
    """The reports of a run that has just been judged. `meta` is run.json."""
    if canary is not None:
        _write(run, "canary.json", msgspec.json.encode(canary).decode() + "\n")
    report = build_report(
        verdict,
        verdict.evidence,
        records,
        history,
        meta,
        canary=canary,
        path=run,
    )
    render(run, report)
    return report


def summary(run: Path, *, color: bool = False, report: RunReport | None = None) -> str:
    """The terminal summary of a judged run directory, from its `report` where that was read."""
    return summary_text(report or load_report(run), color=color)
