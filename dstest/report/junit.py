"""`junit.xml`: a run as one test case, for CI servers.

Only a pass is a green case. A violation is a failure, and whatever proved nothing an error: what
was never tried and what cannot be tried here as well, since a skip looks green on most servers.
"""

from __future__ import annotations

from dstest.ci.junit import Case, Kind, render_suite
from dstest.core.verdict import State
from dstest.judge.fingerprint import all_fingerprints
from dstest.report.after import after_failure
from dstest.report.model import RunReport

__all__ = ["case_of", "kind_of", "render_junit"]


def kind_of(state: State) -> Kind:
    """The element that a state puts into its test case; None for a pass."""
    if state.failed:
        return "failure"
    return None if state.passed else "error"


def _properties(report: RunReport) -> dict[str, object]:
    """What a reader of a row must know: how much was tested, and how to do it again."""
    header, meta = report.history.header, report.meta
    return {
        "verdict": report.state.value,
        "rule": report.verdict.rule,
        "tier": report.evidence.budget.met,
        "tier_wanted": meta.tier_wanted or "none",
        "seed": header.seed,
        "nodes": len(header.nodes),
        "faults_landed": report.landed,
        "faults_planned": report.evidence.faults_planned,
        "operations": len(report.history.ops),
        "system": header.system or "",
        "system_version": header.system_version or "",
        "dstest": (meta.host and meta.host.dstest) or "",
        "fingerprints": ", ".join(all_fingerprints(report.verdict)),
        "command": report.command,
    }


def _next(report: RunReport) -> list[str]:
    """The file is the same wherever the run lies, so its place is not in it."""
    if not report.steps():
        return []
    steps = after_failure({**report.meta.spec, "lab_id": None}, "RUN")
    told = "; ".join(step.command for step in steps)
    return [f"what next, where RUN is the directory of this run: {told}"]


def case_of(report: RunReport) -> Case:
    """The run as one case. A run that ended early is no green one, whatever it found."""
    state, verdict, header = report.state, report.verdict, report.history.header
    name = "-".join(str(part) for part in (header.system, header.workload) if part) or "dstest"
    early = report.meta.ended_by if state.passed else None
    return Case(
        classname=name,
        name=report.run,
        kind="error" if early else kind_of(state),
        message=f"the run ended early: {early}" if early else verdict.reason,
        type="ended-early" if early else state.value,
        text="\n".join([*verdict.why_not_better, *_next(report)]),
        said=f"{state.value} ({verdict.rule}): {verdict.reason}",
        time_s=report.load_s,
        properties=_properties(report),
    )


def render_junit(report: RunReport) -> str:
    """The XML document as text."""
    case = case_of(report)
    return render_suite(f"dstest.{case.classname}", [case], time_s=report.load_s)
