"""Grow-only elements and the reads that saw them, for set, visibility and fork checks.

    add 7 [10, 20]        7 takes effect once in [10, 20]; attempts may be repeated
    read -> [7, 9]        all that was visible at one instant of the read

Reads of a set become rows of small integers, each id once. Unknown adds may have taken effect at
any time after their invocation, or never; failed ones had no effect.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers._findings import Findings, ids_of
from checkers.columns import NEVER, Interner
from dstest.core.op import Op, Outcome
from dstest.core.words import quoted

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Read:
    """One ok read: its operation and the elements it saw, as ids in rising order."""

    op: Op
    row: I32


@dataclass(slots=True)
class Visibility:
    """Elements by id. `invoke_ns` is the earliest attempt, `known_ns` the first time after which
    every read must see the element: an acknowledgement or the end of a read that saw it."""

    values: Interner
    invoke_ns: I64
    acked_ns: I64
    known_ns: I64
    attempt: dict[int, Op]
    acked: dict[int, Op]
    witness: dict[int, list[Op]]
    failed: dict[int, Op]
    reads: list[Read]
    repeated: list[tuple[Op, int]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        adds: Sequence[tuple[Op, Any]],
        failed: Sequence[tuple[Op, Any]],
        reads: Sequence[tuple[Op, Sequence[Any]]],
        findings: Findings,
    ) -> Visibility:
        """From (operation, element) and (operation, elements) pairs."""
        values = Interner()
        attempt: dict[int, Op] = {}
        acked: dict[int, Op] = {}
        for op, value in adds:
            at = values.id_of(value)
            if at not in attempt or op.invoke_ts < attempt[at].invoke_ts:
                attempt[at] = op
            if op.outcome is Outcome.OK and (at not in acked or _end(op) < _end(acked[at])):
                acked[at] = op
        refused = {values.id_of(value): op for op, value in failed}
        rows: list[Read] = []
        repeated: list[tuple[Op, int]] = []
        for op, items in reads:
            findings.tick()
            row = np.sort(np.array(ids_of(values, items), dtype=np.int32))
            twice = row[1:] == row[:-1]
            if twice.any():
                repeated += [(op, int(at)) for at in np.unique(row[1:][twice])]
                row = np.unique(row)
            rows.append(Read(op, row))
        n = len(values.values)
        invoke, done = np.full(n, NEVER, np.int64), np.full(n, NEVER, np.int64)
        for at, op in attempt.items():
            invoke[at] = op.invoke_ts
        for at, op in acked.items():
            done[at] = _end(op)
        self = cls(values, invoke, done, done.copy(), attempt, acked, {}, refused, rows, repeated)
        self._learn()
        return self

    def _learn(self) -> None:
        """`known_ns` and who knew: the add or the first read that ended having seen it."""
        first = np.full(len(self.known_ns), -1, np.int64)
        for number, read in enumerate(self.reads):
            sooner = read.row[self.known_ns[read.row] > _end(read.op)]
            self.known_ns[sooner] = _end(read.op)
            first[sooner] = number
        for at in np.flatnonzero(first >= 0).tolist():
            self.witness[at] = [self.reads[first[at]].op]

    def why_known(self, at: int) -> list[Op]:
        """The operations that show that the element was there at `known_ns`."""
        if at in self.witness:
            return ([self.attempt[at]] if at in self.attempt else []) + self.witness[at]
        return [self.acked[at]] if at in self.acked else []

    def said_known(self, at: int) -> str:
        """`why_known` in words."""
        if at in self.witness:
            return f"read (op {self.witness[at][0].op_id}) had returned it"
        return f"{self.acked[at].op_type} (op {self.acked[at].op_id}) had been acknowledged"

    def told_known(self, at: int, before_ns: int) -> str:
        """The element, and what was known of it before then, first that it was acknowledged."""
        acked, said = self.acked.get(at), []
        if acked is not None and _end(acked) < before_ns:
            said.append(f"acknowledged ({acked.op_type} op {acked.op_id})")
        if at in self.witness:
            said.append(f"returned by read (op {self.witness[at][0].op_id})")
        return f"element {quoted(self.value(at))} was {' and '.join(said)}"

    def value(self, at: int) -> Any:
        """The element with this id."""
        return self.values.values[at]


def _end(op: Op) -> int:
    assert op.complete_ts is not None
    return op.complete_ts


def report_strangers(v: Visibility, key: Any, findings: Findings) -> npt.NDArray[np.bool_]:
    """Elements that no read may hold: nobody added them, or only in vain, or not yet; and those
    returned twice by one read. Returns which elements are real."""
    real = v.invoke_ns < NEVER
    told: set[int] = set()
    for read in v.reads:
        for at in read.row[v.invoke_ns[read.row] > _end(read.op)].tolist():
            if at in told:
                continue
            told.add(at)
            value = v.value(at)
            if at in v.attempt:
                message = (
                    f"read (op {read.op.op_id}) returned {quoted(value)} before anybody had "
                    f"tried to add it"
                )
                findings.anomaly(
                    "future-read", key, [v.attempt[at], read.op], message, element=value
                )
            elif at in v.failed:
                message = (
                    f"{quoted(value)} was refused definitely, "
                    f"yet read (op {read.op.op_id}) returned it"
                )
                findings.anomaly(
                    "failed-but-applied", key, [v.failed[at], read.op], message, element=value
                )
            else:
                what = f"{quoted(value)}, which nobody ever added"
                message = f"read (op {read.op.op_id}) returned {what}"
                findings.anomaly("phantom", key, [read.op], message, element=value)
    twice: set[int] = set()
    for op, at in v.repeated:
        if at not in twice:
            twice.add(at)
            message = f"read (op {op.op_id}) returned {quoted(v.value(at))} more than once"
            ops = [*([v.attempt[at]] if at in v.attempt else []), op]
            findings.anomaly("duplicated", key, ops, message, element=v.value(at))
    return real


def report_forks(v: Visibility, key: Any, findings: Findings, ignore: npt.NDArray[np.bool_]) -> int:
    """Two reads of which each misses an element of the other: they saw different orders.

    Sets of elements that only grow are nested in some order; reads sorted by size are nested if
    and only if each is part of the next. Returns how many pairs were compared.
    """
    rows = [(r.op, r.row[~ignore[r.row]]) for r in v.reads]
    rows.sort(key=lambda r: len(r[1]))
    mark = np.zeros(len(v.known_ns), np.bool_)
    compared = 0
    for (small_op, small), (big_op, big) in itertools.pairwise(rows):
        findings.tick()
        compared += 1
        mark[big] = True
        alone = small[~mark[small]]
        mark[big] = False
        if not len(alone):
            continue
        mark[small] = True
        other = big[~mark[big]]
        mark[small] = False
        a, b = int(alone[0]), int(other[0])
        message = (
            f"read (op {small_op.op_id}) saw {quoted(v.value(a))} and not {quoted(v.value(b))}, "
            f"read (op {big_op.op_id}) saw {quoted(v.value(b))} and not {quoted(v.value(a))}: no "
            f"order explains both"
        )
        writers = [v.attempt[at] for at in (a, b) if at in v.attempt]
        findings.anomaly("long-fork", key, [*writers, small_op, big_op], message)
    return compared


def _missing(v: Visibility, read: Read, before_ns: int, real: Any) -> npt.NDArray[np.int64]:
    """Ids that were known before `before_ns` and are not in the read."""
    absent = (v.known_ns < before_ns) & real
    absent[read.row] = False
    return np.flatnonzero(absent)


def report_missing(
    v: Visibility, key: Any, findings: Findings, real: npt.NDArray[np.bool_], *, late: bool = False
) -> npt.NDArray[np.bool_]:
    """Lost and stale elements, and those whose order of visibility was reversed; lost ones alone
    where they may be `late`. Returns which."""
    ordered = np.sort(v.known_ns[real])
    last_seen = np.full(len(v.known_ns), -1, np.int64)
    for read in v.reads:
        last_seen[read.row] = np.maximum(last_seen[read.row], read.op.invoke_ts)
    told = np.zeros(len(v.known_ns), np.bool_)
    stale_until = np.full(len(v.known_ns), -1, np.int64)
    for read in v.reads:
        findings.tick()
        begin = read.op.invoke_ts
        row = read.row[real[read.row]]
        newest = v.invoke_ns[row].max(initial=-1)
        bound = max(begin, int(newest))
        if np.searchsorted(ordered, bound) == np.count_nonzero(v.known_ns[row] < bound):
            continue
        for at in _missing(v, read, begin, real).tolist():
            stale_until[at] = max(stale_until[at], begin)
            if not told[at] and not (late and last_seen[at] > begin):
                told[at] = True
                _say_missing(v, key, findings, at, read, int(last_seen[at]))
        newer = int(row[np.argmax(v.invoke_ns[row])]) if len(row) else -1
        for at in [] if late else _missing(v, read, bound, real & ~told).tolist():
            told[at] = True
            message = (
                f"{v.said_known(at)} before {quoted(v.value(newer))} was first added, yet read "
                f"(op {read.op.op_id}) saw {quoted(v.value(newer))} and not {quoted(v.value(at))}"
            )
            ops = [*v.why_known(at), v.attempt[newer], read.op]
            findings.anomaly("causal-reverse", key, ops, message, element=v.value(at))
    _latencies(v, findings, stale_until)
    return told


def _say_missing(
    v: Visibility, key: Any, findings: Findings, at: int, read: Read, last_seen_ns: int
) -> None:
    stale = last_seen_ns > read.op.invoke_ts
    kind, after = (
        ("stale", "and was read again later") if stale else ("lost", "and all that follow")
    )
    message = (
        f"{v.told_known(at, read.op.invoke_ts)} before read (op {read.op.op_id}) began, yet it is "
        f"missing from that read {after}"
    )
    findings.anomaly(kind, key, [*v.why_known(at), read.op], message, element=v.value(at))


def _latencies(v: Visibility, findings: Findings, stale_until: npt.NDArray[np.int64]) -> None:
    """How long after they were known elements were still missing from reads, ms."""
    late = stale_until >= 0
    if late.any():
        worst_ms = round(float((stale_until[late] - v.known_ns[late]).max()) / 1e6, 3)
        name = "stale_latency_ms_max"
        findings.stats[name] = max(worst_ms, findings.stats.get(name, 0.0))
