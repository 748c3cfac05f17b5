"""Results as one JUnit suite: a case for each run and each session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.ci.junit import Case, render_suite
from dstest.ci.paths import shown_path
from dstest.report.junit import RunProperties
from dstest.results.model import Result, RunFacts


def _properties(result: Result) -> Mapping[str, Any]:
    """Those of its run or session, and where it lies."""
    row: dict[str, Any] = {"verdict": result.word, "path": shown_path(result.path)}
    if (session := result.session) is not None:
        row |= {"tier": session.tier_met, "tier_wanted": session.tier_wanted}
        row["seeds"] = ", ".join(dict.fromkeys(str(arm.seed) for arm in session.arms))
        row["sizes"] = ", ".join(map(str, session.sizes))
    if (run := result.run) is not None:
        row |= _of_run(result, run).rows
    elif result.command:
        row["command"] = result.command
    return row


def _of_run(result: Result, run: RunFacts) -> RunProperties:
    return RunProperties(
        verdict=result.word,
        rule=run.rule,
        tier=run.tier_met,
        tier_wanted=run.tier_wanted,
        seed=run.seed,
        nodes=run.nodes,
        faults_landed=run.faults_landed,
        faults_planned=run.faults_planned,
        operations=sum(one.total for one in run.types),
        system=run.system,
        system_version=run.system_version,
        nemesis=run.nemesis,
        dstest=run.dstest,
        fingerprints=", ".join(run.fingerprints),
        command=result.command,
    )


_SHOWN_MAX: Final = 12
"""Violations of a run told in its case; the report has all."""


def _text(result: Result) -> str:
    if (run := result.run) is not None:
        shown = run.violations[:_SHOWN_MAX]
        said = [f"{one.checker}: {one.type}: {one.explanation}" for one in shown]
        if (more := run.anomalies - len(shown)) > 0:
            said.append(f"{more} more in {shown_path(result.path / 'report.html')}")
        return "\n".join([result.reason, *said, *run.why_not_better, *run.steps])
    if (session := result.session) is not None:
        return "\n".join(f"{arm.id}: {arm.state.value}: {arm.reason}" for arm in session.arms)
    return result.reason


def _case(result: Result) -> Case:
    run = result.run
    name = "-".join(filter(None, [run.system, run.workload])) if run is not None else ""
    return Case(
        classname=name or f"dstest.{result.kind}",
        name=shown_path(result.path),
        kind=result.red,
        message=result.sentence,
        type=result.word,
        text=_text(result),
        said=f"{result.word}: {result.reason}\nreport: {shown_path(result.path / 'report.html')}",
        time_s=None if run is None else run.load_s,
        properties=_properties(result),
    )


def render_junit(results: Sequence[Result]) -> str:
    """The XML document as text. Only a pass is green; there are no skipped cases."""
    return render_suite("dstest", [_case(result) for result in results])
