"""`Result`, what a run or session came to, and results for CI servers: a Markdown summary,
annotations of GitHub Actions, a JUnit suite.

All formats are made of results, so that none can show a better verdict than another. A result has
no history: a store has more of them than fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import Exit
from dstest.core.summary import RunSummary
from dstest.core.verdict import State
from dstest.core.words import sentences
from dstest.judge.session import SessionVerdict
from dstest.report.ci_formats import Case, Kind, command, numbered, render_suite, shown_path
from dstest.report.review.model import fenced, md
from dstest.report.write import ENDED_EARLY, RunProperties

__all__ = [
    "ENDED_EARLY",
    "NOT_BELIEVED",
    "Result",
    "passed_text",
]


NOT_BELIEVED: Final = "not-believed"
"""Instead of a verdict: the run is not over, cut off, edited, or cannot be judged."""

_BYTES_MAX: Final = 900_000
"""A step's summary may have 1 MiB; GitHub drops the whole of a longer one."""

_ROWS_MAX: Final = 500


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is None where there is no verdict to believe, and `reason` says why; `shown` is the
    state as people are told it, empty where that is no other. `exit` is what a command that shows
    it ends with. `case` names what was tested, the same in each run of it. Of a session `of` is its
    system and workload, `load_s` the seconds of load of all its runs.
    `steps` are the commands to give after a failure, `confirm` the one that makes the run again
    where nobody has. `control`: it is a red control of a night,
    which found its known bug, missed it, or found another. `arm_of` is the session that the run is
    an arm of; `same_as` the run whose simulation it made again, so that the two are one sample.
    """

    path: Path
    kind: Literal["run", "session", "other"]
    state: State | None
    shown: str = ""
    reason: str
    exit: int
    rule: str = ""
    why_not_better: tuple[str, ...] = ()
    run: RunSummary | None = None
    session: SessionVerdict | None = None
    command: str = ""
    case: str = ""
    of: str = ""
    load_s: float | None = None
    steps: tuple[str, ...] = ()
    confirm: str = ""
    control: Literal["", "found", "missed", "other-bug"] = ""
    arm_of: Path | None = None
    same_as: Path | None = None

    @property
    def green(self) -> bool:
        """A pass, that the judge gave and the files still give, of what was asked for; or a red
        control that found its known bug."""
        if self.control:
            return self.control == "found"
        return self.state is not None and self.state.passed and self.exit == Exit.PASS

    @property
    def test(self) -> str:
        """System and workload; empty where nobody can say."""
        if self.run is None:
            return self.of
        return "-".join(filter(None, [self.run.test.system, self.run.test.workload]))

    @property
    def word(self) -> str:
        """The verdict, or what stands in its place."""
        if self.state is None:
            return NOT_BELIEVED
        if self.kind == "run" and self.state.passed and not (self.green or self.control):
            return ENDED_EARLY
        return self.state.value

    @property
    def told(self) -> str:
        """`word` as people are told it."""
        return self.shown or self.word

    @property
    def red(self) -> Kind:
        """As an element of JUnit."""
        if self.green:
            return None
        if self.control:
            return "failure"
        return "failure" if self.state is not None and self.state.failed else "error"

    @property
    def headline(self) -> str:
        """What the database did wrong, or the reason of the verdict."""
        return (self.run.headline if self.run is not None else "") or self.reason

    @property
    def sentence(self) -> str:
        """What happened, in a sentence."""
        if self.run is not None and self.run.headline and not self.control:
            again = f"It is {self.same_as} made again." if self.same_as is not None else ""
            return " ".join(filter(None, (self.run.headline, self.run.exactly, again)))
        return self.reason


def passed_text(results: Sequence[Result]) -> str:
    """How many passed, in words; a simulation that was made again counts once, and what a red
    control found is told."""
    samples = [one for one in results if one.same_as is None]
    said = f"{sum(one.green for one in samples)} of {len(samples)} passed"
    if found := sum(one.control == "found" for one in samples):
        said += f", {found} by finding a known bug"
    more = len(results) - len(samples)
    if more:
        said += f"; {more} more {'is' if more == 1 else 'are'} a simulation made again"
    return said


_CONTROL: Final = {
    "": "",
    "found": ", found its known bug",
    "missed": ", missed its known bug",
    "other-bug": ", found another bug than its known one",
}
_TOLD_MAX: Final = 5
"""Violations of a run that are told."""


def _row(result: Result) -> str:
    run = result.run
    cells = [
        "✅" if result.green else "❌",
        f"{result.told}{_CONTROL[result.control]}",
        md(shown_path(result.path)),
        "" if run is None else md(run.test.versioned),
        "" if run is None else md(run.test.nemesis),
        "" if run is None else str(run.test.seed),
        "" if run is None else f"{run.faults_landed} of {run.faults_planned}",
        "" if run is None else f"{run.requests:,}",
    ]
    return f"| {' | '.join(cells)} |"


def _detail(result: Result) -> Iterator[str]:
    yield f"### {md(result.told)}: {md(shown_path(result.path))}"
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
    if result.run is not None and result.steps:
        yield "What next: is it reproducible, who is to blame, what does it take?"
        yield ""
        yield fenced("\n".join(result.steps))
        yield ""


def render_summary(results: Sequence[Result]) -> str:
    """Markdown below 1 MiB; what does not fit is counted. Those that are not green come first."""
    ordered = sorted(results, key=lambda one: (one.green, one.red != "failure"))
    lines = [
        f"## dstest: {passed_text(results)}",
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


_SHOWN_MAX: Final = 10
"""GitHub shows that many errors of a step, and drops the others without a word."""


def annotation_lines(results: Sequence[Result]) -> Iterator[str]:
    """A line for each result that is not green, and one that says how many were left out."""
    red = sorted((one for one in results if not one.green), key=lambda one: one.red != "failure")
    kept = red if len(red) <= _SHOWN_MAX else red[: _SHOWN_MAX - 1]
    for result in kept:
        again = f"\nagain: {result.command}" if result.command else ""
        path = shown_path(result.path)
        yield command("error", f"{result.told} {path}", f"{result.sentence}{again}", file=path)
    if len(kept) < len(red):
        more = f"{len(red) - len(kept)} more of {len(results)} are not a pass; the log names them"
        yield command("error", "dstest", more)


def _properties(result: Result) -> Mapping[str, Any]:
    """Those of its run or session, and where it lies."""
    row: dict[str, Any] = {"verdict": result.word, "path": shown_path(result.path)}
    if result.control:
        row["control"] = "red"
    if (session := result.session) is not None:
        row |= {"tier": session.tier_met, "tier_wanted": session.tier_wanted}
        row["seeds"] = ", ".join(dict.fromkeys(str(arm.seed) for arm in session.arms))
        row["sizes"] = ", ".join(map(str, session.sizes))
    if (run := result.run) is not None:
        row |= _of_run(result, run).rows
    elif result.command:
        row["command"] = result.command
    return row


def _of_run(result: Result, run: RunSummary) -> RunProperties:
    return RunProperties(
        run=run.run,
        verdict=result.word,
        rule=result.rule,
        tier=run.tier_met,
        tier_wanted=run.tier_wanted,
        seed=run.test.seed,
        nodes=run.test.nodes,
        faults_landed=run.faults_landed,
        faults_planned=run.faults_planned,
        operations=run.requests,
        system=run.test.system,
        system_version=run.test.version,
        nemesis=run.test.nemesis,
        dstest=run.dstest,
        fingerprints=", ".join(run.fingerprints),
        command=result.command,
    )


_CASES_SHOWN_MAX: Final = 12
"""Violations of a run told in its case; the report has all."""


def _text(result: Result) -> str:
    if (run := result.run) is not None:
        shown = run.violations[:_CASES_SHOWN_MAX]
        said = [f"{one.checker}: {one.type}: {one.explanation}" for one in shown]
        if (more := run.anomalies - len(shown)) > 0:
            said.append(f"{more} more in {shown_path(result.path / 'report.html')}")
        return "\n".join([result.reason, *said, *result.why_not_better, *result.steps])
    if (session := result.session) is not None:
        return "\n".join(f"{arm.id}: {arm.state.value}: {arm.reason}" for arm in session.arms)
    return result.reason


def _case(result: Result) -> Case:
    return Case(
        classname=result.test or f"dstest.{result.kind}",
        name=result.case or shown_path(result.path),
        kind=result.red,
        message=f"{result.shown}: {result.sentence}" if result.shown else result.sentence,
        type=result.word,
        text=_text(result),
        said=f"{result.told}: {result.reason}\nreport: {shown_path(result.path / 'report.html')}",
        time_s=result.load_s if result.run is None else result.run.load_s,
        properties=_properties(result),
    )


def render_junit(results: Sequence[Result]) -> str:
    """The XML document as text. Only a pass is green; there are no skipped cases. The second run
    of the same test is `... (2)`: names are the same in the next night."""
    return render_suite("dstest", numbered(map(_case, results)))
