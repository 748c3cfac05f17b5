"""How long operations take and how many fail: of the run's own history where there is one, else of
what logs tell of each operation."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, Final

from dstest.core.op import Op
from dstest.core.op import Outcome as Came
from dstest.logs.findings import Finding, Outcome, Row, row_of
from dstest.logs.scene import Check, Line, Scene
from dstest.logs.windows import Expected

P95: Final = 0.95
SLOW_MS: Final = 1000.0
ERRORS_MOST: Final = 0.05
"""Source of all three: discipline 7.2 (a)."""

TIMES_BASELINE: Final = 1.5
"""Source: discipline 7.2 (d)."""

LEAST: Final = 20
"""With fewer durations p95 is a guess about the tail: below it says so."""

KEPT_MAX: Final = 50_000
"""Durations that are kept of one group; of more, a sample that each is as likely to be in."""

IDS_MAX: Final = 500_000
ROWS_MAX: Final = 5


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

    def __init__(self, said: Expected) -> None:
        self.said = said
        self.values: list[float] = []
        self.count = 0
        self.worst: list[tuple[float, Row]] = []
        self._dice = random.Random(0)

    def add(self, value: float, row: Row) -> None:
        self.count += 1
        if len(self.values) < KEPT_MAX:
            self.values.append(value)
        elif (at := self._dice.randrange(self.count)) < KEPT_MAX:
            self.values[at] = value
        if len(self.worst) < ROWS_MAX or value > self.worst[-1][0]:
            self.worst = sorted([*self.worst, (value, row)], key=lambda one: -one[0])[:ROWS_MAX]


def _row(op: Op, number: int) -> Row:
    ms = None if op.complete_ts is None else (op.complete_ts - op.invoke_ts) / 1e6
    took = "never answered" if ms is None else f"{ms:.1f} ms"
    said = f"op {op.op_id} {op.op_type} on {op.node_seen}: {op.error or 'answered'}, {took}"
    return row_of(f"history.jsonl:{number}", op.invoke_ts, said)


def _judged(scene: Scene, op: Op) -> Expected:
    """An operation meets what stands at any moment between its ends."""
    end_ns = op.invoke_ts if op.complete_ts is None else op.complete_ts
    said = scene.windows.judged(op.invoke_ts, 0, ())
    if not said.expected:
        for window in scene.windows.beginning(op.invoke_ts, end_ns):
            if window.start_ns is not None and window.landed:
                return scene.windows.judged(window.start_ns, 0, ())
    return said


class Latencies(Check):
    """p95 by operation and window, in milliseconds, against 1000 ms and against a baseline: the
    time before the first fault, or another run."""

    name, group = "high_latency", "performance"
    asks = f"p95 above {SLOW_MS:.0f} ms, or {TIMES_BASELINE:g} times that of the baseline"

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._groups: dict[tuple[str, str, bool], _Sample] = {}
        self._before: dict[str, list[float]] = {}
        self.given: dict[str, float] = {}
        """p95 by operation of a baseline that was given."""

        starts = [w.start_ns for w in scene.windows.every if w.nemesis and w.start_ns is not None]
        self._first_ns = min(starts, default=None)

    def line(self, line: Line) -> None:
        took = line.record.duration_ms
        if took is not None:
            said = self.scene.judged(line)
            self._add(line.record.operation or "all", took, said, line.row, line.time_ns)

    def op(self, op: Op, number: int) -> None:
        """An operation of the history, which is on a line of it."""
        if op.complete_ts is not None:
            took = (op.complete_ts - op.invoke_ts) / 1e6
            self._add(op.op_type, took, _judged(self.scene, op), _row(op, number), op.complete_ts)

    def _add(self, what: str, took: float, said: Expected, row: Row, end: int | None) -> None:
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
        if what in self.given:
            return self.given[what]
        early = self._before.get(what, [])
        return percentile(early, P95) if len(early) >= LEAST else None

    def end(self) -> Outcome:
        if not self._groups:
            return Outcome(check=self.name, not_evaluated="nothing tells how long operations took")
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
        outcome = Outcome(check=self.name, findings=found, notes=notes)
        outcome.looked, outcome.facts = f"{total:,} durations", {"p95": rows}
        return outcome

    @staticmethod
    def _finding(what: str, sample: _Sample, p95: float, base: float | None) -> Finding | None:
        slow = p95 > SLOW_MS
        grown = base is not None and p95 > TIMES_BASELINE * base and sample.count >= LEAST
        if not slow and not grown:
            return None
        against = "no baseline" if base is None else f"the baseline is {base:.1f} ms"
        return Finding(
            check=Latencies.name,
            severity="high" if slow else "medium",
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


class _Ended:
    def __init__(self, said: Expected) -> None:
        self.said = said
        self.count = self.failed = 0
        self.rows: list[Row] = []


class ErrorRates(Check):
    """Operations that failed, of all operations of a type, by window: never by lines, which a
    single failure may fill."""

    name, group = "high_error_rate", "performance"
    asks = f"more than {ERRORS_MOST:.0%} of the operations of a type fail"

    def __init__(self, scene: Scene, served: Iterable[str] = ()) -> None:
        super().__init__(scene)
        self._groups: dict[tuple[str, str, bool], _Ended] = {}
        self._served = frozenset(served)
        self._ids: dict[tuple[str, str], tuple[_Ended, bool]] = {}
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
        group = self._add(what, record.failed, self.scene.judged(line), line.row)
        if id_:
            if len(self._ids) >= IDS_MAX:
                self._ids.pop(next(iter(self._ids)))
                self._lost += 1
            self._ids[what, id_] = (group, record.failed)

    def op(self, op: Op, number: int) -> None:
        """An operation of the history."""
        failed = op.outcome is not Came.OK
        if failed and op.error is not None and op.error.partition(":")[0] in self._served:
            failed = False  # what a healthy server refuses because it raced was served
        self._add(op.op_type, failed, _judged(self.scene, op), _row(op, number))

    def _add(self, what: str, failed: bool, said: Expected, row: Row) -> _Ended:
        group = self._groups.setdefault((what, said.window, said.expected), _Ended(said))
        group.count += 1
        if failed:
            group.failed += 1
            self._shown(group, row)
        return group

    @staticmethod
    def _shown(group: _Ended, row: Row) -> None:
        if len(group.rows) < ROWS_MAX:
            group.rows.append(row)

    def end(self) -> Outcome:
        if not self._groups:
            return Outcome(
                check=self.name, not_evaluated="no line tells what became of an operation"
            )
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
        outcome = Outcome(check=self.name, findings=found, notes=notes)
        outcome.looked, outcome.facts = f"{total:,} operations", {"errors": rows}
        return outcome

    def _finding(self, what: str, group: _Ended) -> Finding:
        share = group.failed / group.count
        return Finding(
            check=self.name,
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
