"""A scene of files that are of no run: logs, and spans and samples where they are given. There is
no history, so nobody knows what clients saw, and no record of faults, so nothing is expected."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import msgspec

from dstest.core.history import ClockSource, Header
from dstest.core.run_record import RunMeta
from dstest.core.words import shell_word
from dstest.debug.logs.analysis import not_read
from dstest.debug.logs.loose import first_stamp_ns, loose_logs
from dstest.debug.logs.run_logs import RunLogs
from dstest.debug.monitor.exposition import Reading, read_metrics
from dstest.debug.patterns.model import Settings
from dstest.debug.patterns.scene import Scene, Series
from dstest.debug.traces import analysis as traces
from dstest.debug.traces.spans import Message, Span, read_file

NO_HISTORY = (
    "no history: what clients asked and were answered is not known, so nothing is said of stale "
    "reads, lost writes and order but what servers say themselves; no record of faults: nothing "
    "is expected"
)


class FilesScene(Scene):
    """Of logs in a directory `given`, and files of spans and of metrics; the other words are as
    `loose_logs` takes them. Raises ConfigError and HistoryError."""

    def __init__(
        self,
        given: Path,
        *,
        nodes: str = "",
        system: str = "",
        pattern: str = "",
        spans: Sequence[Path] = (),
        metrics: Sequence[Path] = (),
        settings: Settings | None = None,
    ) -> None:
        of = loose_logs([given], nodes, system, pattern)
        self._origin_ns = first_stamp_ns(of.sources)
        of.clocks.origin_ns = self._origin_ns
        super().__init__(given, of, _blank(of), Header(), settings)
        self._span_files, self._metric_files = spans, metrics
        words = [("--logs", [given]), ("--spans", spans), ("--metrics", metrics)]
        told = [f"{flag} {shell_word(str(path))}" for flag, paths in words for path in paths]
        texts = (("--nodes", nodes), ("--system", system), ("--pattern", pattern))
        self._words = " ".join([*told, *(f"{flag} {shell_word(t)}" for flag, t in texts if t)])

    @property
    def shown(self) -> str:
        return self._words

    @property
    def begin_ns(self) -> int:
        return min((first for first, _ in self.told.times.values()), default=0)

    @property
    def end_ns(self) -> int:
        return max((last for _, last in self.told.times.values()), default=0)

    @property
    def known(self) -> list[str]:
        forms = ", ".join(f"{count:,} {form}" for form, count in self.read.forms.items())
        found = [*not_read(self.read), f"lines read as: {forms or 'nothing'}"]
        if self._origin_ns is not None:
            at = datetime.datetime.fromtimestamp(self._origin_ns / 1e9, datetime.UTC)
            found.append(f"times are seconds since {at.isoformat(timespec='milliseconds')}")
        if self.read.stampless:
            found.append(f"{self.read.stampless:,} lines have no time")
        found.append(NO_HISTORY)
        found += [f"no {what}: --{what} FILE" for what, files in self._beside() if not files]
        return found

    def _beside(self) -> list[tuple[str, Sequence[Path]]]:
        return [("spans", self._span_files), ("metrics", self._metric_files)]

    @cached_property
    def traced(self) -> traces.TracesOfRun:
        every = (one for path in self._span_files for one in read_file(path))
        spans = [self._since_origin(one) for one in every]
        why = "" if spans else "no spans were given"
        return traces.TracesOfRun(spans, self.nodes, {}, why, [])

    def _since_origin(self, one: Span | Message) -> Span | Message:
        """By the clock of lines."""
        origin_ns = self._origin_ns or 0
        if isinstance(one, Message):
            at = None if one.time_ns is None else one.time_ns - origin_ns
            return msgspec.structs.replace(one, time_ns=at)
        start, end = one.start_ns - origin_ns, one.end_ns - origin_ns
        return msgspec.structs.replace(one, start_ns=start, end_ns=end)

    @cached_property
    def sampled(self) -> tuple[list[Series], str]:
        rows: dict[tuple[str, str], list[Reading]] = {}
        lost: list[str] = []
        for path in self._metric_files:
            for one in read_metrics(path):
                if one.time_ns is None:
                    lost.append(one.name)
                else:
                    rows.setdefault((one.name, one.node), []).append(one)
        why = f"{len(lost):,} samples have no time, such as {lost[0]}" if lost else ""
        return [self._series(*key, found) for key, found in sorted(rows.items())], why

    def _series(self, name: str, node: str, rows: list[Reading]) -> Series:
        rows.sort(key=lambda one: one.time_ns or 0)
        times = [(one.time_ns or 0) - (self._origin_ns or 0) for one in rows]
        return Series(name, node, times, [one.value for one in rows], rows[0].place)


def _blank(of: RunLogs) -> RunMeta:
    """Of a run that nobody made: it says nothing."""
    return RunMeta(
        spec={},
        model="",
        checkers=[],
        nodes=list(of.scene.declared),
        faults_planned=0,
        clock=ClockSource(),
    )
