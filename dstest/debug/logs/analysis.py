"""All log checks, in the order of their groups, an analysis of logs by them, and its result as text
and as an object. Every line is given to every check once, in the order of its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.clock import wall_ns
from dstest.core.errors import ConfigError, Exit, HistoryError
from dstest.core.log_lines import wall_time_ns
from dstest.core.near import meant
from dstest.core.op import Op
from dstest.core.protocols import LogReader, LogRecord
from dstest.core.protocols.systems import Topic
from dstest.core.words import one_line
from dstest.debug.logs.files import shown_skipped
from dstest.debug.logs.formats import plain_record
from dstest.debug.logs.lines import MATCHED_MAX, Source, about, each_line
from dstest.debug.logs.messages import DIVERGENCE, DUPLICATES, ORDERING, REJECTIONS, SILENT_NODES
from dstest.debug.logs.rates import CONNECTIONS, ERROR_RATES, LATENCIES
from dstest.debug.logs.scene import (
    END,
    SEVERITIES,
    START,
    CheckOutcome,
    Clocks,
    Finding,
    Line,
    Rule,
    Scene,
    Severity,
    Tally,
    Watch,
    Windows,
)
from dstest.debug.logs.tenants import TENANT_VALUES

FIRST_LINES: Final = 200
"""Of each log, in which its server says who it is."""

HALF_YEAR_NS: Final = 183 * 86_400_000_000_000
"""Where nobody knows when a log was written, a stamp without a year is of the year in which it is
nearest to the stamp before it."""

FINDINGS_MAX: Final = 40
"""Findings told at length to people; `--json` has all."""

PAIRS_MAX: Final = 12


class _Words(Watch):
    """A line of the topic is a finding by node, peer and window."""

    topic: Topic
    severity: Severity
    said: str
    todo: str
    pairs = False
    alarm = ""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._tally = Tally()
        self._lines = 0

    def line(self, line: Line) -> None:
        self._lines += 1
        if self.topic not in line.topics:
            return
        peer = self._peer(line) if self.pairs else ""
        self._tally.add((line.node, peer), self.scene.explain(line, peer, self.alarm), line.row)

    def _peer(self, line: Line) -> str:
        record = line.record
        return self.scene.member(record.peer) or self.scene.peer_in(record.message, line.node)

    def end(self) -> CheckOutcome:
        if not self._lines:
            return CheckOutcome(not_evaluated="no line was read")
        return CheckOutcome(
            findings=self._tally.findings(self.severity, self.said, self.todo),
            looked=f"the words of {self._lines:,} lines",
            notes=self._tally.notes,
        )


class _ConsensusTimeouts(_Words):
    topic, severity = "consensus-timeout", "high"
    said = "consensus timed out"
    todo = "who leads, who votes, and whether messages between them arrive, in these seconds"


class _Conflicts(_Words):
    topic, severity = "conflict", "medium"
    said = "a conflict is told of"
    todo = "which of the two stands on every node afterwards, and who was told otherwise"


class _Partitions(_Words):
    topic, severity, pairs = "cut-off", "critical", True
    said = "a member does not see another one"
    todo = "compare with the faults that stood; where none did, the network or a silent process"


class _OutOfMemory(_Words):
    topic, severity, alarm = "oom", "critical", "oom"
    said = "memory ran out"
    todo = "what grew: state, queues or connections; and which process the kernel chose"


CONSENSUS_TIMEOUTS: Final = Rule(
    "consensus_timeout",
    "decisions that came too late",
    _Words.end,
    "consensus",
    _ConsensusTimeouts,
)
CONFLICTS: Final = Rule("state_conflicts", "writes at odds", _Words.end, "state-sync", _Conflicts)
PARTITIONS: Final = Rule(
    "network_partition_detected",
    "members that do not see one another",
    _Words.end,
    "network-partition",
    _Partitions,
)
OUT_OF_MEMORY: Final = Rule(
    "out_of_memory", "lack of memory", _Words.end, "performance", _OutOfMemory
)


CHECKS: Final[tuple[Rule, ...]] = (
    *(CONSENSUS_TIMEOUTS, SILENT_NODES, REJECTIONS, ORDERING, DUPLICATES, DIVERGENCE),
    *(CONFLICTS, PARTITIONS, CONNECTIONS, LATENCIES, OUT_OF_MEMORY, ERROR_RATES),
    TENANT_VALUES,
)


def checks_named(names: Iterable[str]) -> list[Rule]:
    """The checks of these names or groups, all for none. Raises ConfigError for a name that is
    neither."""
    asked = list(names)
    known = {*(check.id for check in CHECKS), *(check.group for check in CHECKS)}
    for name in asked:
        if name not in known:
            raise ConfigError(f"--check {name} is no check", remedy=meant(name, sorted(known)))
    return [c for c in CHECKS if not asked or c.id in asked or c.group in asked]


class Options(NamedTuple):
    """`nodes` alone are looked at, all where there are none, and what lies between `since_ns` and
    `until_ns` of the clock of all."""

    checks: Sequence[Rule] = CHECKS
    nodes: frozenset[str] = frozenset()
    since_ns: int | None = None
    until_ns: int | None = None

    def wants(self, node: str, time_ns: int | None) -> bool:
        """Is a line of this node and time asked for? What has no time is."""
        if self.nodes and node not in self.nodes:
            return False
        if time_ns is None:
            return True
        after = self.since_ns is None or time_ns >= self.since_ns
        return after and (self.until_ns is None or time_ns <= self.until_ns)


class Extra(NamedTuple):
    """What a run tells beside its logs: lines, of these `files`, and its operations."""

    files: Sequence[str] = ()
    lines: Iterable[Line] = ()
    ops: Iterable[tuple[int, Op]] = ()


class LogAnalysis(msgspec.Struct, kw_only=True):
    """What came of it. `forms` counts lines by how they were read, `files` all that were."""

    outcomes: list[CheckOutcome]
    forms: dict[str, int]
    files: int
    lines: int
    stampless: int
    unbounded: int = 0
    """Lines without a time, where a time was asked for."""
    unread: list[str] = []
    """Files that were not read, or not to their end, and why."""
    strange: int = 0
    """Lines of no run that are of no format, and have no time and no level."""

    @property
    def partly(self) -> bool:
        """Was so much not read, or not understood, that finding nothing says nothing?"""
        return bool(self.unread) or 2 * self.strange > sum(self.forms.values())

    @property
    def findings(self) -> list[Finding]:
        """The worst first: what nothing explains before what a fault does."""
        every = [one for outcome in self.outcomes for one in outcome.findings]
        return sorted(every, key=lambda f: (f.expected, SEVERITIES.index(f.severity)))

    @property
    def evaluated(self) -> list[CheckOutcome]:
        """The checks that had something to look at."""
        return [outcome for outcome in self.outcomes if not outcome.not_evaluated]

    @property
    def bad(self) -> list[Finding]:
        """What speaks against the system."""
        return [one for one in self.findings if one.bad]


class _Reading:
    def __init__(self, scene: Scene, clocks: Clocks, reader: LogReader | None) -> None:
        self._scene, self._clocks, self._reader = scene, clocks, reader
        self.forms: Counter[str] = Counter()
        self.stampless = self.strange = 0
        self.unread: list[str] = []
        self._near = not scene.windows.known
        self._now_ns = clocks.origin_ns or wall_ns()
        if self._near and clocks.origin_ns is not None:
            self._now_ns += HALF_YEAR_NS

    def record(self, text: str) -> tuple[LogRecord, bool]:
        """What a line says, and is that by the system's own reader?"""
        if self._reader is not None and (told := self._reader.record_of(text)) is not None:
            self.forms[self._reader.form] += 1
            if len(told.message) > MATCHED_MAX:
                told = msgspec.structs.replace(told, message=told.message[:MATCHED_MAX])
            return told, True
        record, form = plain_record(text)
        self.forms[form] += 1
        return record, form == "json"

    def introduced(self, source: Source) -> None:
        """Who is who, by the first lines of a log: others name ids before it is read."""
        if self._reader is None:
            return
        for _, text in islice(self._each(source), FIRST_LINES):
            record = self._reader.record_of(text)
            if record is not None and record.aliases:
                self._scene.learn(record, source.node)

    def _each(self, source: Source) -> Iterator[tuple[int, str]]:
        """As far as the file can be read."""
        try:
            yield from each_line(source)
        except HistoryError as error:
            if error.message not in self.unread:
                self.unread.append(error.message)

    def lines(self, source: Source) -> Iterator[Line]:
        """What follows a line, such as a traceback, is of its time; a line that is one of its own
        and has no stamp may be of any."""
        time: tuple[int, int] | None = None
        now_ns = self._now_ns
        for number, text in self._each(source):
            plain = self.forms["plain"]
            record, whole = self.record(text)
            if record.aliases:
                self._scene.learn(record, source.node)
            node = self._scene.member(record.node) or source.node
            stamp_ns = wall_time_ns(text[:400], now_ns)
            if stamp_ns is not None:
                now_ns = stamp_ns + HALF_YEAR_NS if self._near else now_ns
                time = self._clocks.aligned(node, stamp_ns)
            elif whole:
                time = None
            self.stampless += time is None
            if self._near and time is None and not record.level:
                self.strange += self.forms["plain"] - plain
            at, doubt = time or (None, 0)
            topics = about(record, self._scene.harmless)
            yield Line(node, f"{source.shown}:{number}", at, doubt, record, topics)


def analyse(
    sources: Sequence[Source],
    scene: Scene,
    clocks: Clocks,
    reader: LogReader | None,
    asked: Options,
    extra: Extra,
    beside: Sequence[Watch] = (),
    unread: Sequence[str] = (),
) -> LogAnalysis:
    """All of it, line by line: what is kept does not grow with the files. What watches `beside` the
    checks is given the same. What cannot be read is told beside what is `unread` anyway."""
    watches = [check.watch(scene) for check in asked.checks]
    every = (*watches, *beside)
    reading = _Reading(scene, clocks, reader)
    count = 0

    def given(lines: Iterable[Line]) -> None:
        nonlocal count
        for line in lines:
            if asked.wants(line.node, line.time_ns):
                count += 1
                for watch in every:
                    watch.line(line)

    for source in sources:
        reading.introduced(source)
    for source in sources:
        if not asked.nodes or source.node in asked.nodes or source.node not in scene.declared:
            given(reading.lines(source))
    given(_counted(extra.lines, reading.forms))
    _operations([watch for watch in every if watch.takes_operations], asked, extra)
    return LogAnalysis(
        outcomes=[_outcome(*pair) for pair in zip(asked.checks, watches, strict=True)],
        forms=dict(reading.forms),
        files=len(sources) + len(extra.files),
        lines=count,
        stampless=reading.stampless,
        unread=[*unread, *reading.unread],
        strange=reading.strange,
        unbounded=0 if asked.since_ns is None and asked.until_ns is None else reading.stampless,
    )


def _counted(lines: Iterable[Line], forms: Counter[str]) -> Iterator[Line]:
    """By the files that they are of."""
    for line in lines:
        forms[f"of {line.place.partition(':')[0].rpartition('/')[2]}"] += 1
        yield line


def _outcome(check: Rule, watch: Watch) -> CheckOutcome:
    found = check.find(watch)
    found.check = check.id
    for finding in found.findings:
        finding.check = check.id
    return found


def _operations(takers: Sequence[Watch], asked: Options, extra: Extra) -> None:
    for number, op in extra.ops if takers else ():
        if asked.wants(op.node_seen or "", op.invoke_ts):
            for watch in takers:
                watch.op(op, number)


def code_of(look: LogAnalysis) -> Exit:
    """1: something of high or critical severity that nothing explains; 3: nothing was evaluated, or
    nothing was found and much was not read."""
    if look.bad:
        return Exit.FAIL
    return Exit.PASS if look.evaluated and look.lines and not look.partly else Exit.NOT_PROVEN


def _time(time_ns: int | None, *, run: bool) -> str:
    if time_ns is None:
        return ""
    return f" {time_ns / 1e9:+.3f} s" if run else ""


def _shown(finding: Finding, *, run: bool) -> Iterator[str]:
    about = (" -> " if len(finding.nodes) == 2 else ", ").join(finding.nodes) or "all nodes"
    when = finding.window if finding.window.startswith("no ") else f"in {finding.window}"
    times = f", {finding.count:,} times" if finding.count > 1 else ""
    yield f"{finding.severity} {finding.check}: {finding.said}"
    yield f"  {about}, {when}{times}: {finding.why}"
    for row in finding.rows:
        yield f"  {row.place}{_time(row.time_ns, run=run)}  {row.text}"
    if not finding.expected and finding.todo:
        yield f"  to do: {finding.todo}"


def _explained(findings: Sequence[Finding]) -> Iterator[str]:
    """What faults explain: a line for each check and window."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        if one.expected:
            groups.setdefault((one.check, one.window, one.why), []).append(one)
    for (check, window, why), rows in groups.items():
        count = sum(row.count for row in rows)
        first = next((row.place for one in rows for row in one.rows), "")
        where = f", first {first}" if first else ""
        yield f"expected {check} in {window}: {count:,} times{where}; {why}"


def _matrix(outcome: CheckOutcome) -> Iterator[str]:
    """Who has failed to reach whom."""
    rows = [row for row in outcome.facts.get("reachability", []) if row["to"]]
    if not rows:
        return
    rows.sort(key=lambda row: (row["expected"], -row["failures"]))
    yield "who failed to reach whom (failures, most within a minute):"
    for row in rows[:PAIRS_MAX]:
        mark = "expected" if row["expected"] else "unexpected"
        counts = f"{row['failures']:,}, {row['most_a_minute']:,}"
        yield f"  {row['from']} -> {row['to']}  {row['window']}  {counts}  {mark}"
    if len(rows) > PAIRS_MAX:
        yield f"  and {len(rows) - PAIRS_MAX} more, with --json"


def _by_check(look: LogAnalysis) -> Iterator[str]:
    """What each check came to; those that found nothing stand in one line."""
    clean = []
    for outcome in look.evaluated:
        bad = sum(not one.expected for one in outcome.findings)
        explained = len(outcome.findings) - bad
        if bad:
            told = f", {explained} explained" if explained else ""
            yield f"{bad} unexpected{told}  {outcome.check}: {outcome.looked}"
        else:
            clean.append(outcome.check + (f" ({explained} explained)" if explained else ""))
    if clean:
        yield f"nothing unexpected: {', '.join(clean)}"
    for outcome in look.evaluated:
        yield from (f"  {outcome.check}: {note}" for note in outcome.notes)
    for outcome in look.outcomes:
        if outcome.not_evaluated:
            yield f"not evaluated  {outcome.check}: {outcome.not_evaluated}"


def as_text(
    name: str, look: LogAnalysis, scene: Scene, clocks: Clocks, reader_note: str
) -> Iterator[str]:
    """Lines for people: what was read, what was found, and what each check looked at. Names are
    somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(name, look, scene, clocks, reader_note))


def _lines(
    name: str, look: LogAnalysis, scene: Scene, clocks: Clocks, reader_note: str
) -> Iterator[str]:
    run = scene.windows.known
    forms = ", ".join(f"{count:,} {form}" for form, count in look.forms.items())
    faults = scene.windows.faults
    told = f"faults {len(faults)}" if run else "of no run: no fault is known"
    much = f"lines {look.lines:,}, nodes {len(scene.declared)}, files {look.files}"
    yield f"{name}: {much}, {told}"
    yield f"read as: {forms or 'nothing'}; {reader_note}"
    yield from not_read(look)
    if look.stampless:
        yield f"{look.stampless:,} lines have no time: no fault can explain what they say"
    if look.unbounded:
        yield f"--since and --until left {look.unbounded:,} lines in: they have no time to go by"
    yield "clocks: " + "; ".join(clocks.describe(scene.declared))
    yield ""
    findings = look.findings
    odd = [finding for finding in findings if not finding.expected]
    for finding in odd[:FINDINGS_MAX]:
        yield from _shown(finding, run=run)
    if len(odd) > FINDINGS_MAX:
        yield f"and {len(odd) - FINDINGS_MAX} more findings, with --json"
    yield from _explained(findings)
    for outcome in look.outcomes:
        yield from _matrix(outcome)
    if findings:
        yield ""
    yield from _by_check(look)
    yield ""
    yield _last(look)


def not_read(look: LogAnalysis) -> Iterator[str]:
    """What was not read, and how many lines nobody understood."""
    yield from shown_skipped(look.unread)
    if look.strange:
        yield f"{look.strange:,} lines are of no format, without a time and a level"


def _last(look: LogAnalysis) -> str:
    missing = len(look.outcomes) - len(look.evaluated)
    rest = f"; {missing} of {len(look.outcomes)} checks had nothing to look at" if missing else ""
    if look.bad:
        return f"{len(look.bad)} findings that nothing explains, high or critical{rest}"
    if not look.evaluated or not look.lines:
        return f"nothing was evaluated{rest}"
    if look.partly:
        return f"nothing high or critical in what was read, and much was not{rest}"
    return f"nothing high or critical that nothing explains{rest}"


def _windows(windows: Windows) -> list[dict[str, Any]]:
    rows = [
        {
            "id": one.id,
            "nemesis": one.nemesis,
            "start_ns": one.start_ns,
            "healed_ns": one.healed_ns,
            "until_ns": one.until_ns,
            "nodes": list(one.nodes),
            "explains": sorted(windows.alarms_of(one.nemesis)),
            "landed": one.landed == "yes",
        }
        for one in windows.faults
    ]
    if windows.load_end_ns is None:
        return rows
    edges = ((START, None, -1), (END, windows.load_end_ns + 1, None))
    of_none: dict[str, Any] = {"nemesis": "", "nodes": [], "explains": [], "landed": True}
    return rows + [
        {"id": id_, "start_ns": start, "healed_ns": until and 0, "until_ns": until, **of_none}
        for id_, start, until in edges
    ]


def as_object(
    name: str, look: LogAnalysis, scene: Scene, clocks: Clocks, system: str, notes: Sequence[str]
) -> dict[str, Any]:
    """For `--json`."""
    return {
        "path": name,
        "exit": int(code_of(look)),
        "system": system or None,
        "nodes": scene.declared,
        "lines": look.lines,
        "files": look.files,
        "forms": look.forms,
        "stampless": look.stampless,
        "unbounded": look.unbounded,
        "unread": look.unread,
        "strange": look.strange,
        "notes": list(notes),
        "clocks": {
            "said": clocks.describe(scene.declared),
            "offsets": msgspec.to_builtins(clocks.offsets),
        },
        "windows": _windows(scene.windows),
        "findings": [msgspec.to_builtins(one) for one in look.findings],
        "checks": [
            {
                "check": o.check,
                "evaluated": not o.not_evaluated,
                "why_not": o.not_evaluated or None,
                "looked": o.looked,
                "findings": len(o.findings),
                "unexpected": sum(not one.expected for one in o.findings),
                "notes": o.notes,
                "facts": o.facts,
            }
            for o in look.outcomes
        ],
    }
