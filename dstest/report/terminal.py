"""What a run prints when it is over: the verdict, why, what stands in its way, where to look."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dstest.core.evidence import BlameProbe
from dstest.core.printable import printable
from dstest.core.verdict import State
from dstest.judge.blame_file import PROBES_FILE, aside_of
from dstest.judge.judged import share
from dstest.report.blame import short_lines
from dstest.report.errors import ErrorRow
from dstest.report.kinds import kinds, others
from dstest.report.model import CUT_SHORT, FaultView, RunReport, SignalView
from dstest.report.moments import Moment, headline, moments
from dstest.report.remedies import Remedy
from dstest.report.settings import documented, settings
from dstest.report.tally import tallies

_WIDTH: Final = 96
_CODES: Final = {"PASS": "32", "FAIL": "31"}
_SHOWN_MAX: Final = 12
_TOLD_MAX: Final = 3
"""Anomalies that are told: a terminal is for the first look."""

_ORDER: Final = re.compile(r"^(\s*)::")


def _clean(text: str) -> str:
    """Without control characters: an error string must not drive the terminal."""
    return printable(text).replace("\n", " ")


def colored(state: State, color: bool) -> str:
    """The state's name, in its colour where the terminal has any."""
    code = _CODES.get(state.value.split("-")[0], "33")
    return f"\x1b[1;{code}m{state.value}\x1b[0m" if color else state.value


def wrap(text: str, first: str, rest: str) -> list[str]:
    """Lines of at most 96 columns, without control characters. None begins as an order to a CI
    server does (`::error::`)."""
    lines = textwrap.wrap(
        _clean(text), _WIDTH, initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [_ORDER.sub(r"\1\\::", line) for line in lines]


def _range(signal: SignalView) -> str:
    """`n1->n2 0 -> 12` for each path, the first three."""
    shown = [f"{path} {before} → {during}" for path, before, during, _ in signal.rows[:3]]
    more = len(signal.rows) - len(shown)
    return ", ".join(shown) + (f", {more} more" if more > 0 else "")


def _when(fault: FaultView) -> str:
    """What is known of its times: a run that died recorded no heal, one that failed no landing."""
    after = "" if fault.landed_after_ms == "-" else f" after {fault.landed_after_ms} ms"
    if fault.start_ns is None:
        return f"{after}, never injected"
    if fault.end_ns is None:
        return f"{after}, from {fault.injected_s} s on, no heal was recorded"
    return f"{after}, {fault.injected_s} s to {fault.healed_s} s"


def _fault(fault: FaultView) -> list[str]:
    kind = f" ({fault.kind})" if fault.kind else ""
    heal = "heal proven" if fault.heal_verified else "HEAL NOT PROVEN"
    if fault.start_ns is None and fault.heal_verified:
        heal = "nothing to heal"
    lines = [
        (
            f"  {fault.id} {fault.nemesis}{kind} on {fault.targets}: landed {fault.landed}"
            f"{_when(fault)}, {heal}"
        )
    ]
    lines += [f"     {s.role}: {_range(s)}" for s in fault.signals if s.role != "control"]
    return [_clean(line) for line in lines]


def obstacles(remedies: Sequence[Remedy]) -> list[str]:
    """What stands in the way; under those that one command supplies, that command."""
    lines: list[str] = []
    groups: dict[str, list[str]] = {}
    for remedy in remedies[:_SHOWN_MAX]:
        groups.setdefault(remedy.command, []).append(remedy.obstacle)
    for command, group in groups.items():
        for obstacle in group:
            lines += wrap(obstacle, "  - ", "    ")
        if command:
            lines.append(f"    try: {_clean(command)}")
    return lines


def _errors(rows: Sequence[ErrorRow]) -> list[str]:
    """`errors`, with what each type of operation that went wrong was told."""
    lines: list[str] = []
    for row in rows:
        lines += wrap(f"{row.op_type}: {row.message}", "errors      ", "  ")
        for told in row.texts:
            lines += wrap(f"{told.count:,} {told.outcome}: {told.text}", "     ", "       ")
    return lines


def _where(report: RunReport, found: Sequence[Moment]) -> list[str]:
    """Where the first anomaly lies among the faults, and how many there are."""
    if not found:
        return []
    first, together = found[0], kinds(report, found)
    said = [
        f"It is one of {k.many} of this kind." for k in together if k.type == first.anomaly.type
    ]
    if more := others([one for one in found if one.twin_of is None], together):
        said.append(f"Found as well: {', '.join(f'{many} × {name}' for name, many in more)}.")
    return [first.where, " ".join(said)]


def _told(found: Sequence[Moment]) -> list[str]:
    """The first anomalies, and how many more have a witness: of all that were counted, few may."""
    told = [moment for moment in found if moment.twin_of is None]
    lines: list[str] = []
    for moment in told[:_TOLD_MAX]:
        message = f"{moment.checker}: {moment.title}. {moment.anomaly.explanation}"
        lines += ["", *wrap(message, "  ", "  ")]
    if (more := len(told) - _TOLD_MAX) > 0:
        lines += ["", f"  {more:,} more with a witness, in report.html and --json"]
    return lines


def _next(report: RunReport) -> list[str]:
    """What stands between the verdict and a better one, or what to do about a failure: that it is
    one needs no saying."""
    failed = report.state.failed
    rows = [r for r in report.remedies if not (failed and r.obstacle.startswith("A violation"))]
    if (report.meta.ended_by or "").startswith(CUT_SHORT) and not failed:
        rows = rows[:1]  # all else that is lacking comes of that
    given = {remedy.command for remedy in rows}
    # Not in the files of the run, which are summed up: it is asked afterwards.
    asked = (aside_of(Path(report.path)) / PROBES_FILE).is_file()
    steps = report.steps(asked=asked)
    rows += [Remedy(one.asks, one.command) for one in steps if one.command not in given]
    return ["", "what next" if failed else "why not better", *obstacles(rows)] if rows else []


def summary_text(
    report: RunReport, *, color: bool = False, more: Mapping[str, BlameProbe] | None = None
) -> str:
    """The summary, one newline-separated text. `color` adds ANSI codes around the state, `more` are
    results of probes that were run apart."""
    lines = ["", colored(report.state, color)]
    found = moments(report, ()) if report.state.failed else []
    if report.state.failed:
        said_first = (headline(report, found)[0], *_where(report, found), settings(report))
        for said in (*said_first, *documented(report)):
            lines += wrap(said, "  ", "  ")
    told = [report.verdict.reason, *report.notices]
    if report.meta.ended_by:  # all else that is lacking comes of that
        told = [*report.notices, report.verdict.reason]
    for said in told:
        lines += wrap(said, "  ", "  ")
    outcomes, load = report.outcomes, report.load
    beyond = len(report.history.ops) - load.asked
    after = f" and {beyond:,} after that" if beyond else ""
    checker = report.evidence.checker
    lines += [
        "",
        (
            f"operations  {load.asked:,} in {load.lasted_s:.1f} s ({load.per_s:,.0f}/s){after}:"
            f" {outcomes['ok']:,} ok, {outcomes['fail']:,} failed,"
            f" {outcomes['unknown']:,} unknown"
        ),
        (
            f"judged      {share(checker)} operations"
            f" ({_clean(', '.join(checker.ran)) or 'no checker'}): {_clean(checker.result)};"
            f" {report.canary.killed} of {report.canary.total} broken copies rejected"
        ),
        *_errors(report.errors),
        f"faults      {report.landed} of {report.evidence.faults_planned} landed",
    ]
    for fault in report.faults[:_SHOWN_MAX]:
        lines += _fault(fault)[: 1 if report.meta.ended_by else None]
    if len(report.faults) > _SHOWN_MAX:
        lines.append(f"  {len(report.faults) - _SHOWN_MAX} more in the report")
    for line in tallies(report.results):
        lines += wrap(line, "counted     ", "            ")
    lines += _told(found)
    bug = report.verdict.bug if report.state.failed else None
    if told := short_lines(report.evidence, bug, more):
        lines += ["", *(row for line in told for row in wrap(line, "", "            "))]
    lines += _next(report)
    lines += ["", _clean(f"report      {report.path}/report.html")]
    if report.command:
        lines.append(f"again       {_clean(report.command)}")
    return "\n".join(lines)
