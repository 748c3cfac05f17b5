"""Was a test plan that the policy asks for executed, and did it come to what it promised?"""

from __future__ import annotations

from collections.abc import Sequence

from dstest.gate.anomalies import unproven
from dstest.gate.claims import Answer, Count
from dstest.gate.fits import misfits_of_plan
from dstest.gate.judged import Gathered, JudgedPlan
from dstest.gate.policy import PlanAsked, Policy
from dstest.gate.rules import Finding


def plan_answer(gathered: Gathered, asked: PlanAsked, policy: Policy, now_ns: int) -> Answer:
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
        findings += [
            Finding(
                rule="G33",
                what=f"{plan.report.outcome}: {plan.report.headline}",
                of=asked.id,
                where=str(plan.path),
            )
            for plan in fit or same
            if plan.report.outcome != "DONE"
        ]
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
    gathered: Gathered, plan: JudgedPlan, asked: PlanAsked, policy: Policy, now_ns: int
) -> list[Finding]:
    """Why an execution cannot count: what its runs are not, or that it has none."""
    units = [unit for unit in gathered.units if unit.path in plan.results]
    if not units:
        what = "none of its runs is evidence"
        return [Finding(rule="G21", what=what, of=asked.id, where=str(plan.path))]
    return misfits_of_plan(units, asked.id, policy, now_ns)
