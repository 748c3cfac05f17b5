"""A look at logs: every line is given to every check, once, in the order of its file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.clock import wall_ns
from dstest.core.log_stamps import wall_time_ns
from dstest.core.op import Op
from dstest.core.protocols import LogReader, LogRecord
from dstest.logs.catalogue import CHECKS
from dstest.logs.clocks import Clocks
from dstest.logs.findings import SEVERITIES, Finding, Outcome
from dstest.logs.lines import plain_record
from dstest.logs.rates import ErrorRates, Latencies
from dstest.logs.scene import Check, Line, Scene
from dstest.logs.sources import Source, each_line
from dstest.logs.topics import about

FIRST_LINES: Final = 200
"""Of each log, in which its server says who it is."""


class Asked(NamedTuple):
    """`nodes` alone are looked at, all where there are none, and what lies between `since_ns` and
    `until_ns` of the clock of all. `served` are errors of a healthy system."""

    checks: Sequence[type[Check]] = CHECKS
    nodes: frozenset[str] = frozenset()
    since_ns: int | None = None
    until_ns: int | None = None
    served: frozenset[str] = frozenset()
    baseline: dict[str, float] = {}

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


class Look(msgspec.Struct, kw_only=True):
    """What came of it. `forms` counts lines by how they were read, `files` all that were."""

    outcomes: list[Outcome]
    forms: dict[str, int]
    files: int
    lines: int
    stampless: int
    unbounded: int = 0
    """Lines without a time, where a time was asked for."""

    @property
    def findings(self) -> list[Finding]:
        """The worst first: what nothing explains before what a fault does."""
        every = [one for outcome in self.outcomes for one in outcome.findings]
        return sorted(every, key=lambda f: (f.expected, SEVERITIES.index(f.severity)))

    @property
    def evaluated(self) -> list[Outcome]:
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
        self.stampless = 0
        self._now_ns = clocks.origin_ns or wall_ns()

    def record(self, text: str) -> tuple[LogRecord, bool]:
        """What a line says, and is that by the system's own reader?"""
        if self._reader is not None and (told := self._reader.record_of(text)) is not None:
            self.forms[self._reader.form] += 1
            return told, True
        record, form = plain_record(text)
        self.forms[form] += 1
        return record, form == "json"

    def introduced(self, source: Source) -> None:
        """Who is who, by the first lines of a log: others name ids before it is read."""
        if self._reader is None:
            return
        for _, text in islice(each_line(source), FIRST_LINES):
            record = self._reader.record_of(text)
            if record is not None and record.aliases:
                self._scene.learn(record, source.node)

    def lines(self, source: Source) -> Iterator[Line]:
        """What follows a line, such as a traceback, is of its time; a line that is one of its own
        and has no stamp may be of any."""
        time: tuple[int, int] | None = None
        for number, text in each_line(source):
            record, whole = self.record(text)
            if record.aliases:
                self._scene.learn(record, source.node)
            node = self._scene.member(record.node) or source.node
            stamp_ns = wall_time_ns(text[:400], self._now_ns)
            if stamp_ns is not None:
                time = self._clocks.aligned(node, stamp_ns)
            elif whole:
                time = None
            self.stampless += time is None
            at, doubt = time or (None, 0)
            topics = about(record, self._scene.harmless)
            yield Line(node, f"{source.shown}:{number}", at, doubt, record, topics)


def look(
    sources: Sequence[Source],
    scene: Scene,
    clocks: Clocks,
    reader: LogReader | None,
    asked: Asked,
    extra: Extra,
) -> Look:
    """All of it, line by line: what is kept does not grow with the files. Raises HistoryError where
    one of them cannot be read."""
    checks = [_made(check, scene, asked) for check in asked.checks]
    reading = _Reading(scene, clocks, reader)
    count = 0

    def given(lines: Iterable[Line]) -> None:
        nonlocal count
        for line in lines:
            if asked.wants(line.node, line.time_ns):
                count += 1
                for check in checks:
                    check.line(line)

    for source in sources:
        reading.introduced(source)
    for source in sources:
        if not asked.nodes or source.node in asked.nodes or source.node not in scene.declared:
            given(reading.lines(source))
    given(_counted(extra.lines, reading.forms))
    _operations(checks, asked, extra)
    return Look(
        outcomes=[check.end() for check in checks],
        forms=dict(reading.forms),
        files=len(sources) + len(extra.files),
        lines=count,
        stampless=reading.stampless,
        unbounded=0 if asked.since_ns is None and asked.until_ns is None else reading.stampless,
    )


def _counted(lines: Iterable[Line], forms: Counter[str]) -> Iterator[Line]:
    """By the files that they are of."""
    for line in lines:
        forms[f"of {line.place.partition(':')[0].rpartition('/')[2]}"] += 1
        yield line


def _made(kind: type[Check], scene: Scene, asked: Asked) -> Check:
    if kind is ErrorRates:
        return ErrorRates(scene, asked.served)
    made = kind(scene)
    if isinstance(made, Latencies):
        made.given = dict(asked.baseline)
    return made


def _operations(checks: Sequence[Check], asked: Asked, extra: Extra) -> None:
    takers: list[Any] = [c for c in checks if isinstance(c, Latencies | ErrorRates)]
    if not takers:
        return
    for number, op in extra.ops:
        if asked.wants(op.node_seen or "", op.invoke_ts):
            for check in takers:
                check.op(op, number)
