"""Lines of the servers' logs around a moment, of every node, and who leads: as the faults have
recorded it, and as the logs speak of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.evidence import LandingRecord, LeadDetails
from dstest.core.log_lines import kept_name, run_time_ns
from dstest.core.protocols import System
from dstest.core.run_record import RunMeta
from dstest.debug.logs.lines import SPEAKS
from dstest.history.layout import opened_log
from dstest.judge.audit_rows import kind_of

LINES_MAX: Final = 10
"""Lines of one log beside one moment."""

ALL_LINES_MAX: Final = 120
"""Lines of all logs beside one moment: with many nodes each has fewer, one at least."""

_BEFORE: Final = 2

_AFTER: Final = 4
"""Lines shown of a log that says nothing at a moment: the last ones before it, and the next."""

SPOKEN_MAX: Final = 60
WIDTH_MAX: Final = 280

_COLORS: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Sequences by which a terminal is told colours."""

_NUMBERS: Final = re.compile(r"[0-9a-fA-F]*\d[0-9a-fA-F]*")
"""What differs in lines that say the same: times, counts, addresses, ids."""

MARGIN_NS: Final = 2_000_000_000
"""Before a moment and after it."""


class LeaderChange(NamedTuple):
    """Somebody leads since `time_ns` at the latest; `said` names it: `n1 → n3, term 4`."""

    time_ns: int
    said: str
    fault: str


def _named(before: Any, after: Any, term: Any, group: str) -> str:
    said = f"{before or 'nobody'} → {after or 'nobody known'}"
    said += f", term {term}" if term is not None else ""
    return f"{group}: {said}" if group else said


def recorded_changes(records: Sequence[LandingRecord]) -> list[LeaderChange]:
    """What faults have seen of it, by time. A fault sees a change when it looks."""
    found = []
    for record in records:
        at = record.landed_at if record.landed_at is not None else record.healed_at
        if at is None:
            continue
        lead = LeadDetails.of(record)
        if lead.moved and isinstance(lead.new_leader, str | None):
            said = _named(lead.leader_before, lead.new_leader, lead.new_term, str(lead.group))
            found.append(LeaderChange(at, said, record.fault_id))
        found += _of_steps(record)
    return sorted(found)


def _of_steps(record: LandingRecord) -> list[LeaderChange]:
    """Of a fault that goes from node to node: its steps carry no times, so each was at the end of
    the fault at the latest."""
    steps = LeadDetails.of(record).steps
    if not isinstance(steps, list) or record.injected_at is None:
        return []
    end = record.healed_at or record.landed_at or record.injected_at
    return [
        LeaderChange(
            end,
            _named(row.get("leader"), row.get("new_leader"), row.get("new_term"), "")
            + f", step {n} of {len(steps)}",
            record.fault_id,
        )
        for n, row in enumerate(steps, 1)
        if isinstance(row, dict) and row.get("moved")
    ]


class LogLine(NamedTuple):
    """A line of a log; `alarm` is its kind, empty where it is none."""

    time_ns: int
    text: str
    alarm: str = ""

    @property
    def seconds(self) -> str:
        return f"{self.time_ns / 1e9:.3f}"


class NodeLog(NamedTuple):
    """One log of one node: its lines that have a stamp, by time; `stampless` have none. `own` are
    texts of alarms, `harmless` of lines that only look like one."""

    node: str
    name: str
    lines: list[LogLine]
    stampless: int
    own: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


class LogLines(NamedTuple):
    """What one log says around a moment. `left_out` more lines lie there; `why` says why there is
    nothing to show."""

    node: str
    name: str
    lines: list[LogLine]
    left_out: int
    why: str = ""


def _files(run: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted((run / "nodes").glob("*/*")):
        if path.is_file() and not path.is_symlink():
            yield path.parent.name, path


def read_logs(run: Path, meta: RunMeta, system: str | None = None) -> list[NodeLog]:
    """All logs that were kept of the nodes; nothing where there is no such folder. What is an alarm
    is what it is to the judge: `system` says what its own alarms are, and what only looks so."""
    theirs: System = registry.known("systems", system)
    texts = theirs.logs.alarms, theirs.logs.harmless
    found = []
    for node, path in _files(run):
        if path.name in theirs.journals.names:
            continue
        lines, stampless = [], 0
        try:
            with opened_log(path) as file:
                for line in file:
                    line = _COLORS.sub("", line).rstrip()
                    if not line:
                        continue
                    time_ns = run_time_ns(line, meta)
                    if time_ns is None:
                        stampless += 1
                    else:
                        lines.append(LogLine(time_ns, line))
        except OSError:
            continue
        lines.sort(key=lambda line: line.time_ns)
        found.append(NodeLog(node, kept_name(path.name), lines, stampless, *texts))
    return found


def spoken(logs: Sequence[NodeLog]) -> list[tuple[int, str, str]]:
    """(time, node, line) wherever a log speaks of who leads, by time; the first of them."""
    found = [
        (line.time_ns, log.node, _cut(line.text))
        for log in logs
        for line in log.lines
        if line.time_ns >= 0 and SPEAKS.search(line.text)
    ]
    return sorted(found)[:SPOKEN_MAX]


_WORTH: Final = re.compile(
    r"\b(?:warn|warning|err|error|fatal|crit|critical|severe|panic)\b(?!=)|^[WEF]\d{4}\b|\d # ",
    re.IGNORECASE,
)
"""Words and marks of weight, those of klog and Redis among them."""

_CLOSE_NS: Final = 500_000_000
"""Lines that say nothing special count so near to the moment alone."""

_PLAIN: Final = frozenset({"level", "lvl", "msg", "message", "ts", "time", "caller", "timestamp"})


def _reduced(text: str) -> str:
    """A line of JSON as its level and message, with what else it says in one word each."""
    if not text.startswith("{"):
        return text
    try:
        said = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return text
    what = said.get("msg", said.get("message")) if isinstance(said, dict) else None
    if not isinstance(what, str):
        return text
    more = [
        f"{name}={value}"
        for name, value in said.items()
        if name not in _PLAIN and isinstance(value, str | int | float)
    ]
    level = said.get("level", said.get("lvl", ""))
    return " ".join([*([f"{level}:"] if level else []), what, *more])


def _cut(text: str) -> str:
    text = _reduced(text)
    return text if len(text) <= WIDTH_MAX else text[: WIDTH_MAX - 1] + "…"


def _with_alarm(line: LogLine, log: NodeLog) -> LogLine:
    alarm = kind_of(line.text, log.own, log.harmless)
    return LogLine(line.time_ns, _cut(line.text), alarm[0] if alarm else "")


def _tells(line: LogLine, start_ns: int, end_ns: int) -> bool:
    """Is it an alarm, a warning, about who leads, or very near?"""
    close = start_ns - _CLOSE_NS <= line.time_ns <= end_ns + _CLOSE_NS
    return bool(close or line.alarm or _WORTH.search(line.text) or SPEAKS.search(line.text))


def _around(log: NodeLog, start_ns: int, end_ns: int, most: int) -> LogLines:
    if not log.lines:
        why = "no line has a time stamp" if log.stampless else "it is empty"
        return LogLines(log.node, log.name, [], 0, why)
    low, high = start_ns - MARGIN_NS, end_ns + MARGIN_NS
    every = [_with_alarm(line, log) for line in log.lines if low <= line.time_ns <= high]
    near = [line for line in every if _tells(line, start_ns, end_ns)]
    if not every:
        before = [line for line in log.lines if line.time_ns < low][-_BEFORE:]
        after = [line for line in log.lines if line.time_ns > high][:_AFTER]
        sides = ["last lines before"] * bool(before) + ["next ones"] * bool(after)
        shown = f"; its {' and the '.join(sides)} are shown" if sides else ""
        lines = [_with_alarm(line, log) for line in (*before, *after)]
        return LogLines(log.node, log.name, lines, 0, f"it says nothing then{shown}")

    kept = sorted(_ranked(near, end_ns)[:most], key=lambda line: line.time_ns)
    return LogLines(log.node, log.name, kept, len(every) - len(kept))


def _ranked(lines: Sequence[LogLine], end_ns: int) -> list[LogLine]:
    """Alarms first, then what speaks of who leads, then all others by how near they are to the end;
    what is said again, with other numbers, comes after all that is not."""
    by_time = sorted(lines, key=lambda line: abs(line.time_ns - end_ns))
    seen: set[str] = set()
    ranked = []
    for line in by_time:
        said = _NUMBERS.sub("#", line.text)
        ranked.append((not line.alarm, said in seen, not SPEAKS.search(line.text), line))
        seen.add(said)
    return [line for *_, line in sorted(ranked, key=lambda row: row[:3])]


def around(logs: Sequence[NodeLog], start_ns: int, end_ns: int) -> list[LogLines]:
    """What each log says from two seconds before to two seconds after; the first of
    `_ranked`."""
    most = max(1, min(LINES_MAX, ALL_LINES_MAX // max(1, len(logs))))
    return [_around(log, start_ns, end_ns, most) for log in logs]
