"""Lay the findings report down, and hold what lies there to its rules."""

from __future__ import annotations

import sys

from dstest.core.errors import HarnessError
from dstest.plans.execution.state import Execution, ExecutionDir, folder_of
from dstest.plans.model import Plan
from dstest.plans.review.gather import gather, of_scenario
from dstest.report.review.model import Report
from dstest.report.review.render import render
from dstest.report.review.rules import Broken, review

REPORT = "findings/report.md"


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


def reviewed(directory: ExecutionDir) -> tuple[Report, list[Broken]]:
    """What the evidence gives, and the rules that the report which lies there breaks."""
    truth = gather(directory)
    path = directory.path / REPORT
    if not path.is_file():
        return truth, [Broken(rule="R19", what=f"{REPORT} is not there")]
    return truth, review(path.read_text(errors="replace"), truth, directory.findings)
