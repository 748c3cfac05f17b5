"""`junit.xml`: a run as one test case, for CI servers.

Only a pass is a green case. A violation is a failure, and whatever proved nothing an error: what
was never tried and what cannot be tried here as well, since a skip looks green on most servers.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dstest.ci.junit import Case, Kind, render_suite
from dstest.core.printable import printable
from dstest.core.verdict import State
from dstest.judge.fingerprint import all_fingerprints
from dstest.report.after import after_failure
from dstest.report.model import RunReport

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
    """The run as one case. A run that ended early is no green one, whatever it found."""
    state, verdict, header = report.state, report.verdict, report.history.header
    name = "-".join(str(part) for part in (header.system, header.workload) if part) or "dstest"
    early = report.meta.ended_by if state.passed else None
    word = ENDED_EARLY if early else state.value
    return Case(
        classname=name,
        name=report.run,
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
