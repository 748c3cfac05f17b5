"""From the directory of an execution to its findings report. Nothing is taken from what the
commands printed, nor from what execution.json says of verdicts: every run is read again."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import EvidenceError
from dstest.core.evidence import AuditRow
from dstest.core.verdict import State
from dstest.judge.audit import TITLES
from dstest.judge.blame_file import read_blame
from dstest.judge.decide import aggregate
from dstest.plans.execution.outcome import Outcome, RunOutcome, judges_of, outcome_of
from dstest.plans.execution.red import NEVER, RedSide, held_to_red, red_side_of
from dstest.plans.execution.state import Execution, ExecutionDir, Step, not_its_own
from dstest.plans.execution.steps import not_asked_for, steps_of, steps_of_scenario
from dstest.plans.model import Plan, Scenario
from dstest.plans.reader import read_plan
from dstest.plans.review.claims import adequacy, confidence, coverage
from dstest.plans.review.red import TITLE, red_lines
from dstest.report.findings import finding_of, result_of, version_of
from dstest.report.model import RunReport, load_report
from dstest.report.review.model import (
    AuditLine,
    Disclosure,
    FindingText,
    Green,
    Report,
    Result,
    SurfaceRow,
)
from dstest.shrink.reread import read_reproducer

_WORST: Final = ("short", "ok", "n/a")
"""Of several runs the first of these that one has."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A step, its scenario, what it came to, its red side, and the reports of its runs."""

    step: Step
    scenario: Scenario
    outcome: Outcome
    red: RedSide
    reports: tuple[RunReport, ...]


def gather(directory: ExecutionDir) -> Report:
    """The whole report. Raises as `judged_in`."""
    return _report(directory, *judged_in(directory))


def judged_in(directory: ExecutionDir) -> tuple[Execution, Plan, list[Judged]]:
    """Each arm of an execution, read again. Raises ConfigError where the plan's copy cannot be
    read, EvidenceError where it is not the plan that was executed."""
    execution = directory.read()
    plan = read_plan(directory.plan)
    if plan.sha256 != execution.plan_sha256:
        raise EvidenceError(
            f"{directory.plan} is not the plan that was executed",
            remedy="take the directory from where it was made",
        )
    known = {step.id for step in execution.steps}
    planned = {step.id for step in steps_of(plan, execution.budget)}
    if len(known) < len(execution.steps) or known - planned:
        raise EvidenceError(
            f"{directory.path}: execution.json names a step twice, or one that the plan has not",
            remedy="take the directory from where it was made",
        )
    absent = [step for step in steps_of(plan, execution.budget) if step.id not in known]
    execution.steps = [*execution.steps, *map(not_asked_for, absent)]
    greens = [step for step in execution.steps if _green_one(step)]
    return execution, plan, [_judged(directory, execution, plan, step) for step in greens]


def of_scenario(directory: ExecutionDir, plan: Plan, execution: Execution, scenario: str) -> Report:
    """The report of one scenario, as far as its steps are done."""
    steps = [step for step in execution.steps if step.scenario == scenario]
    judged = [_judged(directory, execution, plan, step) for step in steps if _green_one(step)]
    found = _report(directory, execution, plan, judged)
    return msgspec.structs.replace(found, name=f"{plan.slug}, {scenario}")


def _green_one(step: Step) -> bool:
    return step.side == "green"


def _judged(directory: ExecutionDir, execution: Execution, plan: Plan, step: Step) -> Judged:
    scenario = plan.scenario(step.scenario)
    assert scenario is not None
    outcome = _outcome(directory, execution, scenario, step)
    red = red_side_of(directory, scenario, step, execution.steps, outcome)
    outcome = held_to_red(outcome, red)
    paths = [run.path for run in outcome.runs if run.evidence is not None]
    return Judged(
        step=step,
        scenario=scenario,
        outcome=outcome,
        red=red,
        reports=tuple(load_report(path) for path in paths),
    )


def _outcome(
    directory: ExecutionDir, execution: Execution, scenario: Scenario, step: Step
) -> Outcome:
    path = directory.result_of(step)
    if wrong := not_its_own(directory, step):
        return Outcome(
            state=State.INCONCLUSIVE_ORACLE, rule="V05", reason=wrong, runs=[], missed=[]
        )
    if path is not None:
        budget = scenario.budgets.get(execution.budget)
        # The words of the plan, since execution.json may say anything.
        planned = steps_of_scenario(scenario, execution.budget)
        wanted = next(one.argv for one in planned if one.id == step.id)
        if not wanted:
            said = "the plan does not run it, and there is a run"
            return Outcome(
                state=State.INCONCLUSIVE_ORACLE, rule="V05", reason=said, runs=[], missed=[]
            )
        found = outcome_of(path, budget, judges_of(scenario), wanted=wanted)
        for name in step.earlier:
            before = outcome_of(directory.path / name, None, (), wanted=wanted)
            if before.state.failed and not found.state.failed:
                found = before
        never = found.state is State.NOT_RUN and step.reason
        return msgspec.structs.replace(found, reason=step.reason) if never else found
    # Without a run there is nothing to judge: no such step is ever better than these two.
    blocked = bool(step.blocked)
    return Outcome(
        state=State.INCONCLUSIVE_ENV if blocked else State.NOT_RUN,
        rule="V02" if blocked else "V01",
        reason=step.reason or ("" if step.status == "done" else "not done yet"),
        runs=[],
        missed=[],
    )


def _report(
    directory: ExecutionDir, execution: Execution, plan: Plan, judged: list[Judged]
) -> Report:
    results = _results(judged)
    states = {row.scenario_id: row.state for row in _folded(judged)}
    findings = _findings(judged)
    never = tuple(one.step.id for one in judged if _never_red(plan, one))
    versions = sorted({version_of(report) for one in judged for report in one.reports})
    commit = [f"commit {execution.commit}, as it was told"] if execution.commit else []
    return Report(
        name=plan.slug,
        plan=f"{plan.slug}, sha256 {plan.sha256}",
        under_test=(*commit, *versions),
        system=plan.front.system or plan.front.sut,
        place=str(directory.path),
        headline=_headline(judged, never),
        results=results,
        findings=findings,
        notes=(),
        coverage=coverage(plan, states),
        surfaces=_surfaces(judged),
        disclosures=tuple(
            Disclosure(scenario=one.id, text=one.reasons["release"])
            for one in plan.scenarios
            if "release" in one.reasons
        ),
        adequacy=adequacy(plan, states),
        confidence=confidence(plan, states),
        greens=tuple(_green(one) for one in judged if one.reports),
        facts=(("Budget", execution.budget), ("Started", execution.started)),
        wanted=execution.budget,
        pending=tuple(one.step.id for one in judged if one.step.status != "done"),
        besides=((TITLE, red_lines([one.red for one in judged])),),
        never_red=never,
        red_results=tuple(
            str(one.red.result)
            for one in judged
            if one.red.answer == "red" and one.red.result is not None
        ),
    )


def _never_red(plan: Plan, one: Judged) -> bool:
    """Has it passed, and nobody has seen it fail?"""
    unnamed = one.red.answer == "unnamed" and plan.serious(one.scenario)
    return unnamed and one.outcome.state.passed


class _Folded(msgspec.Struct, frozen=True, kw_only=True):
    scenario_id: str
    state: State
    arms: tuple[str, ...]


def _folded(judged: list[Judged]) -> list[_Folded]:
    """One verdict for each scenario (discipline 2.4)."""
    by_scenario: dict[str, list[Judged]] = {}
    for one in judged:
        by_scenario.setdefault(one.scenario.id, []).append(one)
    return [
        _Folded(
            scenario_id=id,
            state=aggregate([one.outcome.state for one in ones]),
            arms=tuple(one.step.id for one in ones),
        )
        for id, ones in by_scenario.items()
    ]


def _results(judged: list[Judged]) -> tuple[Result, ...]:
    rows = []
    for folded in _folded(judged):
        mine = [one for one in judged if one.scenario.id == folded.scenario_id]
        rows += [_result(one) for one in mine]
        if folded.arms != (folded.scenario_id,):
            rows.append(
                Result(
                    id=folded.scenario_id,
                    scenario=mine[0].scenario.name,
                    verdict=folded.state,
                    oracle="",
                    ops=0,
                    oracle_evidence="",
                    planned=0,
                    landed=0,
                    landing_evidence="",
                    artifact="",
                    arms=folded.arms,
                )
            )
    return tuple(rows)


def _result(one: Judged) -> Result:
    """The row of a step; of several runs the numbers are added."""
    step, outcome = one.step, one.outcome
    if not one.reports:
        return Result(
            id=step.id,
            scenario=one.scenario.name,
            verdict=outcome.state,
            oracle=one.scenario.field("oracle"),
            ops=0,
            oracle_evidence=f"nothing was judged: {outcome.reason}",
            planned=0,
            landed=0,
            landing_evidence="nothing was injected",
            artifact="",
        )
    rows = [result_of(r, step.id, "", one.scenario.name) for r in one.reports]
    ops, landed = sum(r.ops for r in rows), sum(r.landed for r in rows)
    planned = sum(r.planned for r in rows)
    of_runs = f"{len(rows)} runs" if len(rows) > 1 else ""
    said = f"{of_runs}, operations judged: {ops:,}; " if of_runs else ""
    landing = f"{landed} of {planned} landed in {of_runs}; " if of_runs and planned else ""
    missed = f"; missed of the plan's budget: {'; '.join(outcome.missed)}" if outcome.missed else ""
    from_place = Path("..") / Path(step.result)
    return Result(
        id=step.id,
        scenario=one.scenario.name,
        verdict=outcome.state,
        oracle=rows[0].oracle,
        ops=ops,
        oracle_evidence=said + rows[0].oracle_evidence + missed,
        planned=planned,
        landed=landed,
        landing_evidence=landing + rows[0].landing_evidence,
        artifact=str(from_place),
    )


def _findings(judged: list[Judged]) -> tuple[FindingText, ...]:
    """One for each step that failed, from the first of its runs that did."""
    found: list[FindingText] = []
    for one in judged:
        failed = [report for report in one.reports if report.state.failed]
        if failed:
            closes = ", ".join(one.scenario.closes)
            told = read_blame(Path(failed[0].path))
            more = None if told is None else told.probes
            small = read_reproducer(Path(failed[0].path), failed[0].verdict)
            id = f"F{len(found) + 1}"
            found.append(finding_of(failed[0], id, one.step.id, closes, more, small))
    return tuple(found)


def _headline(judged: list[Judged], never_red: tuple[str, ...]) -> str:
    failed = [one for one in judged if one.outcome.state.failed]
    passed = [one for one in judged if one.outcome.state.passed]
    if failed:
        said = "; ".join(
            f"{one.step.id} {one.scenario.name}: {one.outcome.reason}" for one in failed
        )
        return f"{len(failed)} of {len(judged)} arms found a violation. {said}"
    rest = len(judged) - len(passed)
    open_ = f" {rest} did not deliver." if rest else ""
    open_ += (
        f" {NEVER.capitalize()}, so no evidence yet: {', '.join(never_red)}." if never_red else ""
    )
    return (
        f"We have not observed a violation in {len(passed)} of {len(judged)} arms that passed under"
        f" the tested threats.{open_}"
    )


def _surfaces(judged: list[Judged]) -> tuple[SurfaceRow, ...]:
    rows = []
    for one in judged:
        if one.scenario.surfaces is None:
            continue
        arms = () if one.scenario.run is None else one.scenario.run.arms
        surface = next((arm.surface for arm in arms if arm.name == one.step.arm), "")
        state = one.outcome.state
        rows.append(
            SurfaceRow(
                arm=one.step.id,
                surface=surface or one.step.arm or "the only one",
                executed=bool(one.reports),
                verdict=state,
                reason="" if state.passed else one.outcome.reason,
            )
        )
    return tuple(rows)


def _green(one: Judged) -> Green:
    """The audit over all runs of a step: each row as it was in the run where it was worst."""
    rows = []
    for name, title in TITLES.items():
        found = [row for run in one.outcome.runs if (row := _row(run, name)) is not None]
        worst = min(found, key=lambda row: _WORST.index(row.status), default=None)
        rows.append(
            AuditLine(
                id=name,
                title=title,
                status="short" if worst is None else worst.status,
                evidence="the audit has no such row" if worst is None else worst.evidence,
            )
        )
    return Green(result=one.step.id, rows=tuple(rows))


def _row(run: RunOutcome, name: str) -> AuditRow | None:
    if run.evidence is None:
        return None
    return (run.evidence.redflags | run.evidence.weak_audit).get(name)
