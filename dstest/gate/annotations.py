"""The decision as workflow commands of GitHub Actions: `::error file=...,line=...::message`.

Source: GitHub Docs, Workflow commands for GitHub Actions, "Setting an error message". A line
break or a percent sign in what a run says would end a command or begin another, so they are
escaped as there.
"""

from __future__ import annotations

from collections.abc import Iterator

from dstest.gate.decision import Decision
from dstest.gate.reader import ReadPolicy
from dstest.gate.rules import RULES, Finding
from dstest.gate.sarif import shown_path

__all__ = ["annotated"]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def annotated(decision: Decision, read: ReadPolicy) -> Iterator[str]:
    """A line for each finding; a warning for each accepted risk."""
    for finding in decision.findings:
        yield _line("error", finding, finding.what, read)
    for one in decision.accepted:
        said = f"accepted by {one.risk.owner} until {one.risk.expires}: {one.finding.what}"
        yield _line("warning", one.finding, said, read)


def _line(level: str, finding: Finding, said: str, read: ReadPolicy) -> str:
    title = f"{finding.rule} {RULES[finding.rule].title}"
    about = f"{finding.of}: " if finding.of else ""
    where = f" ({finding.where})" if finding.where else ""
    place = (
        f"file={_property(shown_path(read.path))},line={read.line_of(finding.of)},"
        f"title={_property(title)}"
    )
    return f"::{level} {place}::{_data(about + said + where)}"
