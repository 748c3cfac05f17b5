"""What lies beside runs (replays for blame, reductions), and whether test plans that a policy asks
for were executed as promised.

Nothing beside a run speaks for a claim. A violation there speaks against one, else a run that
failed would be none any more when it is moved there; but an attempt that shows what its own run
shows is nothing new where that run counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from dstest.core.errors import DstestError
from dstest.core.run_record import RunMeta
from dstest.core.verdict import Verdict
from dstest.gate.claims import Answer, Count, violation_of
from dstest.gate.gather import (
    BrokenEvidence,
    JudgedPlan,
    JudgedRun,
    StoreEvidence,
    judge_dead_run,
    judge_run,
    unproven,
)
from dstest.gate.policy import Finding, Policy, RequiredPlan, RequiredTest, Rule
from dstest.gate.relevance import misfits_of_plan, of_test
from dstest.history.layout import RunDir
from dstest.judge.symptom import all_fingerprints
from dstest.runner.integrity import Again, is_finished
from dstest.store.inventory import StorePlace, asked_anything, walk


def hidden(gathered: StoreEvidence, policy: Policy) -> Iterator[Finding]:
    """Violations of the tests of claims and green controls in what lies beside runs, and what is
    not as it was left of those runs."""
    rows: list[RequiredTest] = [*policy.claim, *(c for c in policy.control if c.expect == "green")]
    for run in gathered.runs:
        for aside in run.asides:
            yield from _in(aside, run, rows, policy.evidence.again_beside)


def _in(
    aside: Path, of: JudgedRun, rows: Sequence[RequiredTest], again: Again
) -> Iterator[Finding]:
    for place in walk(aside).places:
        if place.kind != "run":
            continue
        found, wrong = _judge(place, lambda meta: any(of_test(meta, row) for row in rows), again)
        yield from wrong
        if found is not None:
            yield from _against(found, of, rows)
        for inner in place.asides:
            yield from _in(inner, found or of, rows, again)


def _judge(
    place: StorePlace, is_asked: Callable[[RunMeta], bool], again: Again
) -> tuple[JudgedRun | None, tuple[Finding, ...]]:
    """The run, read where somebody asks for its test; what is not as it was left."""
    run = RunDir(place.path)
    try:
        meta = run.read_meta()
    except DstestError:
        return None, ()
    if meta is None or not is_asked(meta) or not asked_anything(place.path):
        return None, ()
    try:
        return (judge_run(place, again) if is_finished(run) else judge_dead_run(place)), ()
    except BrokenEvidence as broken:
        return None, broken.findings if is_finished(run) else ()


def _against(found: JudgedRun, of: JudgedRun, rows: Sequence[RequiredTest]) -> Iterator[Finding]:
    if not found.verdict.verdict.failed:
        return
    new = not _fingerprints(found.verdict) & _fingerprints(of.verdict)
    for row in rows:
        counts = of.verdict.verdict.failed and of_test(of.meta, row)
        if of_test(found.meta, row) and (new or not counts):
            what = f"{violation_of(found)} (it lies beside {of.path.name})"
            yield Finding(rule="G22", what=what, of=row.id, where=str(found.path))


def _fingerprints(verdict: Verdict) -> set[str]:
    return {*all_fingerprints(verdict)}


def plan_answer(
    gathered: StoreEvidence, asked: RequiredPlan, policy: Policy, now_ns: int
) -> Answer:
    """The best execution of that plan with that budget whose runs are what evidence has to be;
    none that failed is left out."""
    same = [p for p in gathered.plans if (p.sha256, p.budget) == (asked.sha256, asked.budget)]
    wrong = {plan.path: _wrong(gathered, plan, asked, policy, now_ns) for plan in same}
    fit = [plan for plan in same if not wrong[plan.path]]
    done = [plan for plan in fit if plan.report.outcome == "DONE"]
    failed = [plan for plan in same if plan.report.outcome == "FAIL"]
    findings = [
        Finding(rule="G22", what=plan.report.headline, of=asked.id, where=str(plan.path))
        for plan in failed
    ]
    for plan in same:
        inside = [run for run in gathered.runs if run.path.is_relative_to(plan.path)]
        findings += unproven(inside, asked.id)
    if not same:
        others = sorted({f"{plan.slug} with {plan.budget}" for plan in gathered.plans})
        there = ", ".join(others) or "none"
        what = f"it was not executed with the budget {asked.budget}; there is {there}"
        findings.append(Finding(rule="G21", what=what, of=asked.id))
    elif not done and not failed:
        findings += [f for plan in fit or same for f in DONE.findings(plan, asked.id, plan.path)]
        # One that fits and is not done may be accepted; of others, what is wrong with each stands.
        findings += [] if fit else [finding for plan in same for finding in wrong[plan.path]]
    return Answer(
        id=asked.id,
        text=f"the plan {asked.slug} with its budget {asked.budget}",
        said=", ".join(plan.report.outcome for plan in same) or "never executed",
        findings=tuple(findings),
        counts=(Count("budget", asked.budget, _of_budget(same)),),
    )


def _of_budget(same: Sequence[JudgedPlan]) -> str:
    return ", ".join(f"{plan.budget}: {plan.report.outcome}" for plan in same) or "never executed"


def _wrong(
    gathered: StoreEvidence, plan: JudgedPlan, asked: RequiredPlan, policy: Policy, now_ns: int
) -> list[Finding]:
    """Why an execution cannot count: what its runs are not, or that it has none."""
    units = [unit for unit in gathered.units if unit.path in plan.results]
    if not units:
        what = "none of its runs is evidence"
        return [Finding(rule="G21", what=what, of=asked.id, where=str(plan.path))]
    return misfits_of_plan(units, asked.id, policy, now_ns)


def _undone(plan: JudgedPlan) -> Iterator[str]:
    if plan.report.outcome != "DONE":
        yield f"{plan.report.outcome}: {plan.report.headline}"


DONE: Final = Rule("G33", "The plan was executed to its end and passed", _undone, acceptable=True)
