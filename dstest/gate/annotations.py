"""The decision as workflow commands of GitHub Actions."""

from __future__ import annotations

from collections.abc import Iterator

from dstest.ci.github import Level, command
from dstest.ci.paths import shown_path
from dstest.gate.decision import Decision
from dstest.gate.reader import ReadPolicy
from dstest.gate.rules import RULES, Finding


def annotated(decision: Decision, read: ReadPolicy) -> Iterator[str]:
    """A line for each finding; a warning for each accepted risk."""
    for finding in decision.findings:
        yield _line("error", finding, finding.what, read)
    for one in decision.accepted:
        said = f"accepted by {one.risk.owner} until {one.risk.expires}: {one.finding.what}"
        yield _line("warning", one.finding, said, read)


def _line(level: Level, finding: Finding, said: str, read: ReadPolicy) -> str:
    title = f"{finding.rule} {RULES[finding.rule].title}"
    about = f"{finding.of}: " if finding.of else ""
    where = f" ({finding.where})" if finding.where else ""
    file, line = shown_path(read.path), read.line_of(finding.of)
    return command(level, title, about + said + where, file=file, line=line)
