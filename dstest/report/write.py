"""Write a run's reports into its directory: plots, report.html, findings.md, junit.xml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import HarnessError
from dstest.core.evidence import LandingRecord
from dstest.core.history import History
from dstest.core.run_record import RunMeta
from dstest.core.run_words import case_name
from dstest.core.verdict import State, Verdict
from dstest.core.words import printable, shell_word
from dstest.history.layout import RunDir, way_out, write_verdict
from dstest.judge.symptom import all_fingerprints
from dstest.report.ci_formats import Case, Kind, render_suite
from dstest.report.model import RunReport, build_report, load_report
from dstest.report.remedies import after_failure
from dstest.report.summarize import summary_of
from dstest.report.terminal import brief_text, summary_text


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

    return {"findings.md": render_findings(report), "junit.xml": render_junit(report)}


def pictures(report: RunReport) -> dict[str, str]:
    """Those that stand alone, by their names in the run directory."""
    from dstest.report.plots import latency_svg, rate_svg

    return {"plots/latency.svg": latency_svg(report), "plots/rate.svg": rate_svg(report)}


def report_files(report: RunReport) -> dict[str, str]:
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
    changed = outdated(run, report_files(report))
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
) -> RunReport:
    """The reports of a run that has just been judged, and its verdict with what a list shows of it.
    `meta` is run.json."""
    report = build_report(verdict, records, history, meta, path=run)
    verdict = msgspec.structs.replace(verdict, summary=summary_of(report))
    report = msgspec.structs.replace(report, verdict=verdict)
    write_verdict(RunDir(run), verdict)
    render(run, report)
    return report


def summary(
    run: Path, *, color: bool = False, report: RunReport | None = None, verbose: bool = False
) -> str:
    """The terminal summary of a judged run directory, from its `report` where that was read:
    `verbose` with all faults, witnesses and what to do, else what is needed first."""
    text = summary_text if verbose else brief_text
    return text(report or load_report(run), color=color)


ENDED_EARLY: Final = "ended-early"
"""Instead of a pass that a run has which did not come to its end."""


def kind_of(state: State) -> Kind:
    """The element that a state puts into its test case; None for a pass."""
    if state.failed:
        return "failure"
    return None if state.passed else "error"


class RunProperties(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader of a run's row must know: how much was tested, and how to do it again. The
    properties of a run's case, whichever file it stands in."""

    verdict: str
    rule: str
    tier: str
    tier_wanted: str
    seed: int | None
    run: str
    nodes: int
    faults_landed: int
    faults_planned: int
    operations: int
    system: str
    system_version: str
    nemesis: str
    dstest: str
    fingerprints: str
    command: str

    @property
    def rows(self) -> dict[str, object]:
        """By name, in the order of the file; a text without control characters."""
        plain = {**msgspec.structs.asdict(self), "tier_wanted": self.tier_wanted or "none"}
        return {k: printable(v) if isinstance(v, str) else v for k, v in plain.items()}


def _properties(report: RunReport, word: str) -> RunProperties:
    header, meta = report.history.header, report.meta
    return RunProperties(
        verdict=word,
        rule=report.verdict.rule,
        tier=report.evidence.budget.met,
        tier_wanted=meta.tier_wanted or "",
        seed=header.seed,
        run=report.run,
        nodes=len(header.nodes),
        faults_landed=report.landed,
        faults_planned=report.evidence.faults_planned,
        operations=len(report.history.ops),
        system=header.system or "",
        system_version=header.system_version or "",
        nemesis=str(meta.spec.get("nemesis") or ""),
        dstest=(meta.host and meta.host.dstest) or "",
        fingerprints=", ".join(all_fingerprints(report.verdict)),
        command=report.command,
    )


def _next(report: RunReport) -> list[str]:
    """The file is the same wherever the run lies, so its place is not in it."""
    if not report.steps():
        return []
    given = report.meta.options_given
    steps = after_failure({**report.meta.spec, "lab_id": None}, "RUN", given=given)
    told = "; ".join(step.command for step in steps)
    return [f"what next, where RUN is the directory of this run: {told}"]


def case_of(report: RunReport) -> Case:
    """The run as one test case of `junit.xml`, for CI servers. A run that ended early is no green
    one, whatever it found.

    Only a pass is a green case. A violation is a failure, and whatever proved nothing an error:
    what was never tried and what cannot be tried here as well, since a skip looks green on most
    servers.
    """
    state, verdict, header = report.state, report.verdict, report.history.header
    name = "-".join(str(part) for part in (header.system, header.workload) if part) or "dstest"
    early = report.meta.ended_by if state.passed else None
    word = ENDED_EARLY if early else state.value
    return Case(
        classname=name,
        name=case_name(report.meta.spec, report.meta.options_given or ()) or report.run,
        kind="error" if early else kind_of(state),
        message=f"the run ended early: {early}" if early else verdict.reason,
        type=word,
        text="\n".join([*verdict.why_not_better, *_next(report)]),
        said=f"{state.value} ({verdict.rule}): {verdict.reason}",
        time_s=report.load_s,
        properties=_properties(report, word).rows,
    )


def render_junit(report: RunReport) -> str:
    """The XML document as text."""
    case = case_of(report)
    return render_suite(f"dstest.{case.classname}", [case], time_s=report.load_s)
