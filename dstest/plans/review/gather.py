"""The findings report of an execution, made from its runs alone and held to the rules: coverage,
adequacy and confidence by claim and hypothesis, and what was seen red before it was green.

Nothing is taken from what commands printed, nor from what execution.json says of verdicts.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.campaign.shrink.reproducer import read_reproducer
from dstest.core.errors import EvidenceError, HarnessError
from dstest.core.evidence import AuditRow
from dstest.core.verdict import State
from dstest.judge.audit import TITLES
from dstest.judge.blame import read_blame
from dstest.judge.decide import aggregate
from dstest.plans.execution.state import (
    NEVER,
    Execution,
    ExecutionDir,
    Outcome,
    RedSide,
    RunOutcome,
    Step,
    folder_of,
    held_to_red,
    judges_of,
    not_its_own,
    outcome_of,
    red_side_of,
    skip,
    steps_of,
    steps_of_scenario,
)
from dstest.plans.model import Adequacy, Plan, Scenario, Threat
from dstest.plans.reader import read_plan
from dstest.report.findings import finding_of, result_of, version_of
from dstest.report.model import RunReport, load_report
from dstest.report.review.model import (
    AdequacyRow,
    AuditLine,
    Confidence,
    CoverageRow,
    Disclosure,
    FindingText,
    Green,
    Report,
    Result,
    SurfaceRow,
    confidence_of,
    render,
    table,
)
from dstest.report.review.rules import Broken, review

States = Mapping[str, State]
"""The verdict of each scenario that was asked for; arms are folded."""

TITLE: Final = "Red first"

_WORST: Final = ("short", "ok", "n/a")
"""Of several runs the first of these that one has."""

REPORT = "findings/report.md"


def _states_text(scenarios: Sequence[str], states: States) -> str:
    return ", ".join(
        f"{id} {states[id].value if id in states else 'not asked for'}" for id in scenarios
    )


def _of(scenarios: Collection[Scenario], states: States) -> list[State]:
    return [states.get(one.id, State.NOT_RUN) for one in scenarios]


def coverage(plan: Plan, states: States) -> tuple[CoverageRow, ...]:
    """Each hypothesis: what became of the scenarios that close it, or why there is none."""
    rows = []
    for hypothesis in plan.hypotheses:
        closing = [one for one in plan.scenarios if hypothesis.id in one.closes]
        found = _of(closing, states)
        if not closing:
            result = "not exercised: no scenario closes it"
        elif any(state.failed for state in found):
            result = "falsified: a violation was observed"
        elif all(state.passed for state in found):
            result = "not falsified by what ran"
        else:
            lacking = [one.id for one in closing if not states.get(one.id, State.NOT_RUN).passed]
            result = f"not exercised to the end: {', '.join(lacking)}"
        rows.append(
            CoverageRow(
                hypothesis=hypothesis.id,
                statement=hypothesis.statement,
                scenarios=_states_text([one.id for one in closing], states) or "no scenario",
                result=result,
            )
        )
    return tuple(rows)


def adequacy(plan: Plan, states: States) -> tuple[AdequacyRow, ...]:
    """Each claim of section 7b after the run. A threat is covered where one of its scenarios ended
    as PASS-hardening or with a violation; a claim of which a scenario did not deliver is not
    adequately tested, whatever the others say."""
    return tuple(_adequate(plan, row, states) for row in plan.adequacy)


def _adequate(plan: Plan, row: Adequacy, states: States) -> AdequacyRow:
    mine = [one for one in plan.scenarios if row.claim in one.falsifies]
    open_ = [t for t in row.threats if not _covered(t, states)]
    undelivered = [
        one.id
        for one in mine
        if not (state := states.get(one.id, State.NOT_RUN)).passed and not state.failed
    ]
    if any(state.failed for state in _of(mine, states)):
        after = "answered: a violation was observed"
    elif undelivered:
        after = f"not enough: {', '.join(undelivered)} did not deliver"
    elif open_ or not row.threats:
        named = ", ".join(f"{t.letter} ({t.text})" for t in open_) or "none is named"
        after = f"not enough: threats without a hardening pass: {named}"
    else:
        after = "adequate for the threats that are named"
    return AdequacyRow(
        claim=row.claim,
        argument=row.why,
        ran=_states_text([one.id for one in mine], states) or "nothing",
        after=after,
    )


def _covered(threat: Threat, states: States) -> bool:
    found = [states[id] for id in threat.scenarios if id in states]
    return any(state is State.PASS_HARDENING or state.failed for state in found)


def confidence(plan: Plan, states: States) -> tuple[Confidence, ...]:
    """Each claim in one of the three lists."""
    rows = []
    for claim in plan.claims:
        mine = [one for one in plan.scenarios if claim.id in one.falsifies]
        asked = [states[one.id] for one in mine if one.id in states]
        change, why = confidence_of(asked)
        rows.append(Confidence(claim=claim.id, change=change, why=why))
    return tuple(rows)


_COLUMNS: Final = ("Seen red", "Arm", "Under", "Its verdict", "What was seen")


def red_lines(sides: Sequence[RedSide]) -> tuple[str, ...]:
    """A row for each arm."""
    rows = (
        (
            "yes" if side.answer == "red" else NEVER,
            side.of,
            side.under,
            "-" if side.state is None else side.state.value,
            side.said,
        )
        for side in sides
    )
    return (*table(_COLUMNS, rows),)


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """A step, its scenario, what it came to, its red side, and the reports of its runs."""

    step: Step
    scenario: Scenario
    outcome: Outcome
    red: RedSide
    reports: tuple[RunReport, ...]


def gather(directory: ExecutionDir) -> Report:
    """The whole report. Raises as `judged_in`."""
    return _report(directory, *step_results(directory))


def step_results(directory: ExecutionDir) -> tuple[Execution, Plan, list[StepResult]]:
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
    execution.steps = [*execution.steps, *map(skip, absent)]
    greens = [step for step in execution.steps if _green_one(step)]
    return execution, plan, [_step_result(directory, execution, plan, step) for step in greens]


def of_scenario(directory: ExecutionDir, plan: Plan, execution: Execution, scenario: str) -> Report:
    """The report of one scenario, as far as its steps are done."""
    steps = [step for step in execution.steps if step.scenario == scenario]
    judged = [_step_result(directory, execution, plan, step) for step in steps if _green_one(step)]
    found = _report(directory, execution, plan, judged)
    return msgspec.structs.replace(found, name=f"{plan.slug}, {scenario}")


def _green_one(step: Step) -> bool:
    return step.side == "green"


def _step_result(
    directory: ExecutionDir, execution: Execution, plan: Plan, step: Step
) -> StepResult:
    scenario = plan.scenario(step.scenario)
    assert scenario is not None
    outcome = _outcome(directory, execution, scenario, step)
    red = red_side_of(directory, scenario, step, execution.steps, outcome)
    outcome = held_to_red(outcome, red)
    paths = [run.path for run in outcome.runs if run.evidence is not None]
    return StepResult(
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
    directory: ExecutionDir, execution: Execution, plan: Plan, judged: list[StepResult]
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


def _never_red(plan: Plan, one: StepResult) -> bool:
    """Has it passed, and nobody has seen it fail?"""
    unnamed = one.red.answer == "unnamed" and plan.serious(one.scenario)
    return unnamed and one.outcome.state.passed


class _Folded(msgspec.Struct, frozen=True, kw_only=True):
    scenario_id: str
    state: State
    arms: tuple[str, ...]


def _folded(judged: list[StepResult]) -> list[_Folded]:
    """One verdict for each scenario."""
    by_scenario: dict[str, list[StepResult]] = {}
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


def _results(judged: list[StepResult]) -> tuple[Result, ...]:
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


def _result(one: StepResult) -> Result:
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


def _findings(judged: list[StepResult]) -> tuple[FindingText, ...]:
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


def _headline(judged: list[StepResult], never_red: tuple[str, ...]) -> str:
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


def _surfaces(judged: list[StepResult]) -> tuple[SurfaceRow, ...]:
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


def _green(one: StepResult) -> Green:
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


def write_report(directory: ExecutionDir) -> Report:
    """findings/report.md. Where it cannot be written it is printed, which is said."""
    report = gather(directory)
    text = render(report)
    try:
        directory.write(REPORT, text)
    except HarnessError as error:
        sys.stdout.write(text)
        sys.stderr.write(f"dstest: the report could not be written, so it is above: {error}\n")
    return report


def write_finding(directory: ExecutionDir, plan: Plan, execution: Execution, scenario: str) -> None:
    """findings/<scenario>.md, as the execution proceeds."""
    text = render(of_scenario(directory, plan, execution, scenario))
    directory.write(f"findings/{folder_of(scenario)}.md", text)


def review_again(directory: ExecutionDir) -> tuple[Report, list[Broken]]:
    """What the evidence gives, and the rules that the report which lies there breaks."""
    truth = gather(directory)
    path = directory.path / REPORT
    if not path.is_file():
        return truth, [Broken(rule="R19", what=f"{REPORT} is not there")]
    return truth, review(path.read_text(errors="replace"), truth, directory.findings)
