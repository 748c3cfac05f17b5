"""Results as Markdown, for a step's summary: a table, and what is wrong below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dstest.ci.paths import shown_path
from dstest.core.words import sentences
from dstest.report.review.markdown import fenced, md
from dstest.results.model import Result, passed_of

_BYTES_MAX: Final = 900_000
"""A step's summary may have 1 MiB; GitHub drops the whole of a longer one."""

_ROWS_MAX: Final = 500

_TOLD_MAX: Final = 5
"""Violations of a run that are told."""


def _row(result: Result) -> str:
    run = result.run
    cells = [
        "✅" if result.green else "❌",
        result.word,
        md(shown_path(result.path)),
        "" if run is None else md(f"{run.system} {run.system_version}".strip()),
        "" if run is None else md(run.nemesis),
        "" if run is None else str(run.seed),
        "" if run is None else f"{run.faults_landed} of {run.faults_planned}",
        "" if run is None else f"{sum(one.total for one in run.types):,}",
    ]
    return f"| {' | '.join(cells)} |"


def _detail(result: Result) -> Iterator[str]:
    yield f"### {md(result.word)}: {md(shown_path(result.path))}"
    yield ""
    yield md(result.sentence)
    yield ""
    if result.run is not None:
        for one in result.run.violations[:_TOLD_MAX]:
            said = sentences(one.explanation, one.where)
            yield f"- {md(one.type)} by {md(one.checker)}: {md(said)}"
        if (more := result.run.anomalies - _TOLD_MAX) > 0:
            yield f"- and {more:,} more in its report"
        if result.run.violations:
            yield ""
    if result.command:
        yield "Again:"
        yield ""
        yield fenced(result.command)
        yield ""
    if result.run is not None and result.run.steps:
        yield "What next: is it reproducible, who is to blame, what does it take?"
        yield ""
        yield fenced("\n".join(result.run.steps))
        yield ""


def render_summary(results: Sequence[Result]) -> str:
    """Markdown below 1 MiB; what does not fit is counted. Those that are not green come first."""
    ordered = sorted(results, key=lambda one: (one.green, one.red != "failure"))
    lines = [
        f"## dstest: {passed_of(results)}",
        "",
        "| | Verdict | Run | System | Nemesis | Seed | Faults landed | Operations |",
        "|---|---|---|---|---|---|---|---|",
        *map(_row, ordered[:_ROWS_MAX]),
        "",
    ]
    if len(ordered) > _ROWS_MAX:
        red = sum(not one.green for one in ordered[_ROWS_MAX:])
        lines += [f"{len(ordered) - _ROWS_MAX} more, of which {red} did not pass.", ""]
    size = sum(len(line.encode()) + 1 for line in lines)
    for number, result in enumerate(ordered):
        if result.green:
            break
        part = list(_detail(result))
        size += sum(len(line.encode()) + 1 for line in part)
        if size > _BYTES_MAX:
            left = sum(not one.green for one in ordered[number:])
            lines += [f"{left} more did not pass and have no room here.", ""]
            break
        lines += part
    return "\n".join(lines)
