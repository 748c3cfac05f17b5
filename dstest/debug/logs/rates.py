"""Log checks of rates: latencies and errors, of the run's history where there is one, else of what
logs tell of each operation; and connections that fail, by minute and pair of nodes.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from dstest.core.op import Op
from dstest.core.op import Outcome as Came
from dstest.debug.logs.scene import (
    END,
    CheckOutcome,
    Explanation,
    Finding,
    Line,
    LogRow,
    Rule,
    Scene,
    Watch,
    row_of,
)
from dstest.judge.facts import SECOND_NS

P95: Final = 0.95
SLOW_MS: Final = 1000.0
ERRORS_MOST: Final = 0.05
TIMES_BASELINE: Final = 1.5

ANY: Final = "all"
"""The operation of lines that name none: whatever took its time."""

LEAST: Final = 20
"""With fewer durations p95 is a guess about the tail: below it says so."""

KEPT_MAX: Final = 50_000
"""Durations that are kept of one group; of more, a sample that each is as likely to be in."""

IDS_MAX: Final = 500_000
ROWS_MAX: Final = 5

RATE_MOST: Final = 10
"""Failures between two nodes within one minute; more are a finding."""

MINUTE_S: Final = 60
PAIRS_MAX: Final = 4000


def percentile(values: Sequence[float], share: float) -> float:
    """Interpolated between the two nearest of the sorted values, as Hyndman and Fan's type 7
    ("Sample Quantiles in Statistical Packages", 1996). ValueError for no values."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


class _Sample:
    """Algorithm R of Vitter, "Random Sampling with a Reservoir" (1985)."""

    def __init__(self, said: Explanation) -> None:
        self.said = said
        self.values: list[float] = []
        self.count = 0
        self.worst: list[tuple[float, LogRow]] = []
        self._dice = random.Random(0)

    def add(self, value: float, row: LogRow) -> None:
        self.count += 1
        if len(self.values) < KEPT_MAX:
            self.values.append(value)
        elif (at := self._dice.randrange(self.count)) < KEPT_MAX:
            self.values[at] = value
        if len(self.worst) < ROWS_MAX or value > self.worst[-1][0]:
            self.worst = sorted([*self.worst, (value, row)], key=lambda one: -one[0])[:ROWS_MAX]


def _row(op: Op, number: int) -> LogRow:
    ms = None if op.complete_ts is None else (op.complete_ts - op.invoke_ts) / 1e6
    took = "never answered" if ms is None else f"{ms:.1f} ms"
    said = f"op {op.op_id} {op.op_type} on {op.node_seen}: {op.error or 'answered'}, {took}"
    return row_of(f"history.jsonl:{number}", op.invoke_ts, said)


def _explanation(scene: Scene, op: Op) -> Explanation:
    """An operation meets what stands at any moment between its ends."""
    said = scene.windows.explain(op.invoke_ts, 0, ())
    if not said.expected:
        for window in scene.windows.beginning(op.invoke_ts, op.last_ns):
            if window.landed == "yes":
                return scene.windows.explain(window.start_ns, 0, ())
        over = scene.windows.explain(op.last_ns, 0, ())
        if over.window == END:
            return over
    return said


class Latencies(Watch):
    """p95 by operation and window, in milliseconds, against 1000 ms and against a baseline: the
    time before the first fault, or another run."""

    takes_operations = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._groups: dict[tuple[str, str, bool], _Sample] = {}
        self._before: dict[str, list[float]] = {}
        starts = [w.start_ns for w in scene.windows.faults]
        self._first_ns = min(starts, default=None)

    def line(self, line: Line) -> None:
        took = line.record.duration_ms
        if took is not None:
            said = self.scene.explain(line)
            self._add(line.record.operation or ANY, took, said, line.row, line.time_ns)

    def op(self, op: Op, number: int) -> None:
        if op.complete_ts is not None:
            took = (op.complete_ts - op.invoke_ts) / 1e6
            self._add(
                op.op_type, took, _explanation(self.scene, op), _row(op, number), op.complete_ts
            )

    def _add(self, what: str, took: float, said: Explanation, row: LogRow, end: int | None) -> None:
        key = (what, said.window, said.expected)
        sample = self._groups.get(key)
        if sample is None:
            sample = self._groups[key] = _Sample(said)
        sample.add(took, row)
        if self._first_ns is not None and end is not None and 0 <= end < self._first_ns:
            early = self._before.setdefault(what, [])
            if len(early) < KEPT_MAX:
                early.append(took)

    def p95(self) -> dict[str, float]:
        """By operation, of what nothing explains: what another run is held against."""
        return {
            what: percentile(sample.values, P95)
            for (what, _, expected), sample in self._groups.items()
            if not expected and sample.count >= LEAST
        }

    def _baseline(self, what: str) -> float | None:
        if what in self.scene.usual:
            return self.scene.usual[what]
        early = self._before.get(what, [])
        return percentile(early, P95) if len(early) >= LEAST else None

    def end(self) -> CheckOutcome:
        if not self._groups:
            return CheckOutcome(not_evaluated="nothing tells how long operations took")
        found, rows, notes = [], [], []
        for (what, window, expected), sample in self._groups.items():
            p95, base = percentile(sample.values, P95), self._baseline(what)
            rows.append(_figures(what, window, expected, sample, p95, base))
            if one := self._finding(what, sample, p95, base):
                found.append(one)
            if sample.count < LEAST:
                notes.append(f"{what} in {window}: p95 of {sample.count} durations is a guess")
            if sample.count > KEPT_MAX:
                notes.append(f"{what} in {window}: p95 is of a sample of {KEPT_MAX:,}")
        if not any(row["baseline_ms"] is not None for row in rows):
            notes.append("no baseline: no --baseline and no time before a fault; 1000 ms alone")
        total = sum(sample.count for sample in self._groups.values())
        outcome = CheckOutcome(findings=found, notes=notes)
        outcome.looked, outcome.facts = f"{total:,} durations", {"p95": rows}
        return outcome

    @staticmethod
    def _finding(what: str, sample: _Sample, p95: float, base: float | None) -> Finding | None:
        slow = p95 > SLOW_MS
        grown = base is not None and p95 > TIMES_BASELINE * base and sample.count >= LEAST
        if not slow and not grown:
            return None
        few = what == ANY and sample.count < LEAST
        against = "no baseline" if base is None else f"the baseline is {base:.1f} ms"
        return Finding(
            severity="high" if slow and not few else "medium",
            nodes=[],
            window=sample.said.window,
            expected=sample.said.expected,
            why=sample.said.why,
            said=f"{what}: p95 is {p95:.1f} ms of {sample.count:,}, {against}",
            count=sample.count,
            rows=[row for _, row in sample.worst],
            todo="what do the slowest wait for? `dstest trace` shows it where spans were written",
        )


def _figures(
    what: str, window: str, expected: bool, sample: _Sample, p95: float, base: float | None
) -> dict[str, Any]:
    return {
        "operation": what,
        "window": window,
        "expected": expected,
        "count": sample.count,
        "p95_ms": round(p95, 3),
        "baseline_ms": None if base is None else round(base, 3),
    }


class _Durations:
    def __init__(self, said: Explanation) -> None:
        self.said = said
        self.count = self.failed = 0
        self.rows: list[LogRow] = []


class ErrorRates(Watch):
    """Operations that failed, of all operations of a type, by window: never by lines, which a
    single failure may fill."""

    takes_operations = True

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._groups: dict[tuple[str, str, bool], _Durations] = {}
        self._ids: dict[tuple[str, str], tuple[_Durations, bool]] = {}
        self._lost = 0

    def line(self, line: Line) -> None:
        record = line.record
        if record.failed is None:
            return
        what, id_ = record.operation, record.operation_id
        known = self._ids.get((what, id_)) if id_ else None
        if known is not None:  # a second line of the same operation
            group, failed = known
            if record.failed and not failed:
                group.failed += 1
                self._shown(group, line.row)
                self._ids[what, id_] = (group, True)
            return
        group = self._add(what, record.failed, self.scene.explain(line), line.row)
        if id_:
            if len(self._ids) >= IDS_MAX:
                self._ids.pop(next(iter(self._ids)))
                self._lost += 1
            self._ids[what, id_] = (group, record.failed)

    def op(self, op: Op, number: int) -> None:
        failed = op.outcome is not Came.OK
        if failed and op.error is not None and op.error.partition(":")[0] in self.scene.served:
            failed = False  # what a healthy server refuses because it raced was served
        self._add(op.op_type, failed, _explanation(self.scene, op), _row(op, number))

    def _add(self, what: str, failed: bool, said: Explanation, row: LogRow) -> _Durations:
        group = self._groups.setdefault((what, said.window, said.expected), _Durations(said))
        group.count += 1
        if failed:
            group.failed += 1
            self._shown(group, row)
        return group

    @staticmethod
    def _shown(group: _Durations, row: LogRow) -> None:
        if len(group.rows) < ROWS_MAX:
            group.rows.append(row)

    def end(self) -> CheckOutcome:
        if not self._groups:
            return CheckOutcome(not_evaluated="no line tells what became of an operation")
        found = [
            self._finding(what, group)
            for (what, _, _), group in self._groups.items()
            if group.failed > ERRORS_MOST * group.count
        ]
        rows = [
            {
                "operation": what,
                "window": window,
                "expected": expected,
                "count": group.count,
                "failed": group.failed,
            }
            for (what, window, expected), group in self._groups.items()
        ]
        notes = [f"{self._lost:,} operations may count twice"] if self._lost else []
        total = sum(group.count for group in self._groups.values())
        outcome = CheckOutcome(findings=found, notes=notes)
        outcome.looked, outcome.facts = f"{total:,} operations", {"errors": rows}
        return outcome

    def _finding(self, what: str, group: _Durations) -> Finding:
        share = group.failed / group.count
        return Finding(
            severity="high",
            nodes=[],
            window=group.said.window,
            expected=group.said.expected,
            why=group.said.why,
            said=f"{what}: {share:.1%} of {group.count:,} operations failed",
            count=group.failed,
            rows=group.rows,
            todo="which error is it, and does it come from one node?",
        )


LATENCIES: Final = Rule(
    "high_latency",
    f"p95 above {SLOW_MS:.0f} ms, or {TIMES_BASELINE:g} times that of the baseline",
    Latencies.end,
    "performance",
    Latencies,
)

ERROR_RATES: Final = Rule(
    "high_error_rate",
    f"more than {ERRORS_MOST:.0%} of the operations of a type fail",
    ErrorRates.end,
    "performance",
    ErrorRates,
)


class _Pair:
    """`most` failures lay within one minute; those without a stamp count as within one. They are
    counted by seconds, so that what is kept does not grow with them."""

    def __init__(self, said: Explanation) -> None:
        self.said = said
        self.count = self.most = self.stampless = 0
        self.rows: list[LogRow] = []
        self._recent: deque[list[int]] = deque()
        self._within = 0

    def add(self, line: Line) -> None:
        self.count += 1
        if len(self.rows) < ROWS_MAX:
            self.rows.append(line.row)
        if line.time_ns is None:
            self.stampless += 1
            self.most = max(self.most, self.stampless)
            return
        second = line.time_ns // SECOND_NS
        if not self._recent or self._recent[-1][0] != second:
            self._recent.append([second, 0])
        self._recent[-1][1] += 1
        self._within += 1
        while abs(second - self._recent[0][0]) >= MINUTE_S:
            self._within -= self._recent.popleft()[1]
        self.most = max(self.most, self._within)


class Connections(Watch):
    """Refused, reset, timed out, unreachable: by minute and by pair."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._pairs: dict[tuple[str, str, str, bool], _Pair] = {}
        self._lines = self._lost = 0

    def line(self, line: Line) -> None:
        self._lines += 1
        if "connection" not in line.topics:
            return
        record = line.record
        peer = self.scene.member(record.peer) or self.scene.peer_in(record.message, line.node)
        said = self.scene.explain(line, peer)
        key = (line.node, peer, said.window, said.expected)
        pair = self._pairs.get(key)
        if pair is None:
            if len(self._pairs) >= PAIRS_MAX:
                self._lost += 1
                return
            pair = self._pairs[key] = _Pair(said)
        pair.add(line)

    def end(self) -> CheckOutcome:
        if not self._lines:
            return CheckOutcome(not_evaluated="no line was read")
        found = [
            self._finding(node, peer, pair)
            for (node, peer, _, _), pair in self._pairs.items()
            if pair.most > RATE_MOST
        ]
        notes = [f"{self._lost:,} failures of further pairs"] if self._lost else []
        total = sum(pair.count for pair in self._pairs.values())
        outcome = CheckOutcome(
            findings=found,
            looked=f"{total:,} failed connections in {self._lines:,} lines",
            notes=notes,
        )
        outcome.facts = {"reachability": self._matrix()}
        return outcome

    def _matrix(self) -> list[dict[str, Any]]:
        """Every pair of which one has failed to reach the other, with when; the others have not
        said that they failed."""
        return [
            {
                "from": node,
                "to": peer or None,
                "window": window,
                "expected": expected,
                "failures": pair.count,
                "most_a_minute": pair.most,
            }
            for (node, peer, window, expected), pair in sorted(self._pairs.items())
        ]

    def _finding(self, node: str, peer: str, pair: _Pair) -> Finding:
        return Finding(
            severity="high",
            nodes=[node, peer] if peer else [node],
            window=pair.said.window,
            expected=pair.said.expected,
            why=pair.said.why,
            said=f"{pair.most} failed connections within a minute",
            count=pair.count,
            rows=pair.rows,
            todo="is the other end up, and does it listen where this one asks?",
        )


CONNECTIONS: Final = Rule(
    "connection_failures",
    f"more than {RATE_MOST} failed connections a minute between two nodes",
    Connections.end,
    "network-partition",
    Connections,
)
