"""Was a test plan that the policy asks for executed, and did it come to what it promised?"""

from __future__ import annotations

from dstest.gate.claims import Answer
from dstest.gate.gather import Gathered
from dstest.gate.policy import PlanAsked
from dstest.gate.rules import Finding

__all__ = ["plan_answer"]


def plan_answer(gathered: Gathered, asked: PlanAsked) -> Answer:
    """The best execution of that plan with that budget; none that failed is left out."""
    same = [p for p in gathered.plans if (p.sha256, p.budget) == (asked.sha256, asked.budget)]
    done = [plan for plan in same if plan.report.outcome == "DONE"]
    failed = [plan for plan in same if plan.report.outcome == "FAIL"]
    findings = [
        Finding(rule="G22", what=plan.report.headline, of=asked.id, where=str(plan.path))
        for plan in failed
    ]
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
            for plan in same
        ]
    return Answer(
        id=asked.id,
        text=f"the plan {asked.slug} with its budget {asked.budget}",
        said=", ".join(plan.report.outcome for plan in same) or "never executed",
        findings=tuple(findings),
    )
