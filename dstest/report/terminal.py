"""What a run prints when it is over: the verdict, why, whose fault a violation is and what kind of
bug it shows, what stands in its way, where to look."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dstest.core.evidence import BlameProbe, Evidence
from dstest.core.run_words import with_lab
from dstest.core.verdict import NOT_RERUN, Bug, State
from dstest.core.words import printable_line, shell_word
from dstest.judge.blame import PROBES, PROBES_FILE, aside_of, blame, results
from dstest.judge.decide import share
from dstest.judge.symptom import UNCLASSIFIED
from dstest.report.model import CUT_SHORT, FaultView, RunReport, SignalView
from dstest.report.moments import Moment, headline, kinds, moments, others, tallies
from dstest.report.remedies import Remedy, of_run
from dstest.report.service import ErrorRow
from dstest.report.settings import documented, settings, ways_out

PROBE_COLUMNS = ("Probe", "Against", "Asks", "Result", "Seen")

_NO_SYMPTOM = f"{UNCLASSIFIED}nothing is known of how the violation showed"

_WIDTH: Final = 96

LINES_MAX: Final = 15
"""Of a failure at the first look: what does not fit is told by -v and by the report."""

_CODES: Final = {"PASS": "32", "FAIL": "31"}
_SHOWN_MAX: Final = 12

_TOLD_MAX: Final = 3
"""Anomalies that are told: a terminal is for the first look."""

_ORDER: Final = re.compile(r"^(\s*)::")


def probe_word(probe: BlameProbe) -> str:
    """`fired`, `not fired` or `no result`."""
    return {True: "fired", False: "not fired", None: "no result"}[probe.fired]


def probe_rows(
    evidence: Evidence, more: Mapping[str, BlameProbe] | None
) -> list[tuple[str, str, str, str, str]]:
    """All probes, each with what it asks and what it came to: rows of `PROBE_COLUMNS`."""
    return [
        (name, PROBES[name].who, PROBES[name].asks, probe_word(probe), probe.said)
        for name, probe in results(evidence, more).items()
    ]


def bug_of(bug: Bug | None) -> Bug:
    """What is known of the kind of bug, if only that nothing is."""
    return bug or Bug(type=_NO_SYMPTOM, severity=_NO_SYMPTOM)


def short_lines(
    evidence: Evidence, bug: Bug | None, more: Mapping[str, BlameProbe] | None = None
) -> list[str]:
    """For a terminal: whose fault, and what kind of bug; nothing where neither is known of."""
    whose = blame(evidence, more)
    lines = [] if whose is None else [f"blame       {whose}"]
    if bug is not None:
        tags = f" ({', '.join(bug.tags)})" if bug.tags else ""
        lines.append(f"bug         {bug.type}{tags}, severity {bug.severity}")
    return lines


def colored(state: State, color: bool, shown: str = "") -> str:
    """The state's name, or what is `shown` for it, in its colour where the terminal has any."""
    code = _CODES.get(state.value.split("-")[0], "33")
    said = shown or state.value
    return f"\x1b[1;{code}m{said}\x1b[0m" if color else said


def wrap(text: str, first: str, rest: str) -> list[str]:
    """Lines of at most 96 columns, without control characters. None begins as an order to a CI
    server does (`::error::`)."""
    lines = textwrap.wrap(
        printable_line(text), _WIDTH, initial_indent=first, subsequent_indent=rest,
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
    if fault.window is None:
        return f"{after}, never injected"
    if fault.window.healed_ns is None:
        return f"{after}, from {fault.injected_s} s on, no heal was recorded"
    return f"{after}, {fault.injected_s} s to {fault.healed_s} s"


def _fault(fault: FaultView) -> list[str]:
    kind = f" ({fault.kind})" if fault.kind else ""
    heal = "heal proven" if fault.heal_verified else "HEAL NOT PROVEN"
    if fault.window is None and fault.heal_verified:
        heal = "nothing to heal"
    lines = [
        (
            f"  {fault.id} {fault.nemesis}{kind} on {fault.targets}: landed {fault.landed}"
            f"{_when(fault)}, {heal}"
        )
    ]
    lines += [f"     {s.role}: {_range(s)}" for s in fault.signals if s.role != "control"]
    return [printable_line(line) for line in lines]


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
            lines.append(f"    try: {printable_line(command)}")
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
    said = [f"{k.when}." for k in together if k.type == first.anomaly.type and k.when]
    if more := others([one for one in found if one.twin_of is None], together):
        said.append(f"Found as well: {', '.join(f'{many} × {name}' for name, many in more)}.")
    return [first.where, " ".join(said)]


def _anomaly_lines(found: Sequence[Moment]) -> list[str]:
    """The first anomalies, and how many more have a witness: of all that were counted, few may."""
    told = [moment for moment in found if moment.twin_of is None]
    lines: list[str] = []
    for moment in told[:_TOLD_MAX]:
        message = f"{moment.checker}: {moment.title}. {moment.anomaly.explanation}"
        lines += ["", *wrap(message, "  ", "  ")]
    if (more := len(told) - _TOLD_MAX) > 0:
        lines += ["", f"  {more:,} more with a witness, in report.html and --json"]
    return lines


def _remedies(report: RunReport) -> list[Remedy]:
    """What stands between the verdict and a better one, or what to do about a failure: that it is
    one needs no saying."""
    failed = report.state.failed
    rows = [r for r in report.remedies if not (failed and r.obstacle.startswith("A violation"))]
    if (report.meta.ended_by or "").startswith(CUT_SHORT) and not failed:
        # All else that is lacking comes of that.
        rows = [row for row in rows if row.command][:1] or rows[:1]
    given = {remedy.command for remedy in rows}
    # Not in the files of the run, which are summed up: it is asked afterwards.
    asked = (aside_of(Path(report.path)) / PROBES_FILE).is_file()
    steps = [*ways_out(report), *report.steps(asked=asked)]
    return rows + [Remedy(one.asks, one.command) for one in steps if one.command not in given]


def _load_lines(report: RunReport) -> list[str]:
    """How much was done, and what judged it."""
    outcomes, load, checker = report.outcomes, report.load, report.evidence.checker
    beyond = len(report.history.ops) - load.asked
    after = f" and {beyond:,} after that" if beyond else ""
    return [
        (
            f"operations  {load.asked:,} in {load.lasted_s:.1f} s ({load.per_s:,.0f}/s){after}:"
            f" {outcomes['ok']:,} ok, {outcomes['fail']:,} failed,"
            f" {outcomes['unknown']:,} unknown"
        ),
        (
            f"judged      {share(checker)} operations"
            f" ({printable_line(', '.join(checker.ran)) or 'no checker'}):"
            f" {printable_line(checker.result)};"
            f" {report.canary.killed} of {report.canary.total} broken copies rejected"
        ),
    ]


def _faults(report: RunReport, faults: Sequence[FaultView]) -> list[str]:
    """How many landed, and each of these: with its counters where the run came to its end."""
    lines = [f"faults      {report.landed} of {report.evidence.faults_planned} landed"]
    for fault in faults[:_SHOWN_MAX]:
        lines += _fault(fault)[: 1 if report.meta.ended_by else None]
    if len(faults) > _SHOWN_MAX:
        lines.append(f"  {len(faults) - _SHOWN_MAX} more in the report")
    return lines


def _verdict_lines(report: RunReport, found: Sequence[Moment], *, brief: bool = False) -> list[str]:
    """Why the verdict is what it is; of a failure what was found, first. Of what a headline says of
    its setting already nothing more is in a `brief` text."""
    if not report.state.failed:
        return []
    known = documented(report)
    said = [headline(report, found)[0], *_where(report, found)]
    if not (brief and any(one.model for one in known)):
        said.append(settings(report))
    said += [one.says for one in known if not (brief and one.model)]
    return [line for one in said for line in wrap(one, "  ", "  ")]


def _commands(report: RunReport) -> list[str]:
    """What to type next: of a failure what explains it, and what makes it certain."""
    if not report.steps():
        commands = {"next": next((row.command for row in _remedies(report) if row.command), "")}
    else:
        spec = with_lab(report.meta.spec, report.meta.lab_id)
        again = report.evidence.rerun.reproduced
        commands = {
            "try": next((step.command for step in ways_out(report)), ""),
            "why": f"dstest explain {shell_word(report.path)}",
            "next": of_run("shrink" if again else "confirm", spec, report.path),
        }
    return [
        f"{word:<11} {printable_line(command)}" for word, command in commands.items() if command
    ]


def brief_text(report: RunReport, *, color: bool = False) -> str:
    """What a person needs first, a pass in 8 lines and a failure in 15 where all faults landed: the
    verdict, what was found and when, how much was done, what to do next, where the rest is."""
    failed, cut = report.state.failed, report.meta.ended_by
    once = report.shown == NOT_RERUN
    lines = ["", colored(report.state, color, report.shown)]
    found = moments(report, ()) if failed else []
    lines += _verdict_lines(report, found, brief=True)
    # That a first failure is one needs no saying.
    reasons = [*report.notices, *([] if once else [report.verdict.reason])]
    for said in reasons if cut else reversed(reasons):
        lines += wrap(said, "  ", "  ")
    lines += _load_lines(report)
    stands = [f for f in report.faults if f.window is not None and not f.heal_verified]
    missed = [f for f in report.faults if f.landed != "yes" and f not in stands]
    lines += _faults(report, stands if cut else [*missed, *stands])
    if failed:
        for line in tallies(report.results):
            shown = wrap(line, "counted     ", "            ")
            lines += shown[:2] if len(shown) < 3 else [shown[0], f"{shown[1]} .."]
    if found and len(lines) < LINES_MAX - 4:
        lines += wrap(found[0].anomaly.explanation, "for example ", "            ")[:2]
    lines += _commands(report)
    lines.append(printable_line(f"report      {report.path}/report.html"))
    return "\n".join(lines)


def summary_text(
    report: RunReport, *, color: bool = False, more: Mapping[str, BlameProbe] | None = None
) -> str:
    """The summary, one newline-separated text. `color` adds ANSI codes around the state, `more` are
    results of probes that were run apart."""
    lines = ["", colored(report.state, color, report.shown)]
    found = moments(report, ()) if report.state.failed else []
    lines += _verdict_lines(report, found)
    told = [report.verdict.reason, *report.notices]
    if report.meta.ended_by:  # all else that is lacking comes of that
        told = [*report.notices, report.verdict.reason]
    for said in told:
        lines += wrap(said, "  ", "  ")
    operations, judged = _load_lines(report)
    lines += ["", operations, judged, *_errors(report.errors), *_faults(report, report.faults)]
    for line in tallies(report.results):
        lines += wrap(line, "counted     ", "            ")
    lines += _anomaly_lines(found)
    bug = report.verdict.bug if report.state.failed else None
    if told := short_lines(report.evidence, bug, more):
        lines += ["", *(row for line in told for row in wrap(line, "", "            "))]
    if rows := _remedies(report):
        title = "what next" if report.state.failed else "why not better"
        lines += ["", title, *obstacles(rows)]
    lines += ["", printable_line(f"report      {report.path}/report.html")]
    if report.command:
        lines.append(f"again       {printable_line(report.command)}")
    return "\n".join(lines)
