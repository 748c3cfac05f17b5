"""Any model: the monitor where values are unique, logs by comparing times, else the search of
csrc/aut/."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from checkers._witness import phrase
from checkers.columns import I64, ILLEGAL, NEVER, OK, STEPS, UNDECIDED, Limits
from checkers.lin import monitor, witness
from checkers.lin.model import (
    ANOMALIES_MAX,
    FIRST_STEPS,
    WITNESS_LEAST_NS,
    WITNESS_TIME_NS,
    WITNESSES_TIME_NS,
    Model,
    MultiRegister,
    micro_ops,
)
from checkers.lin.search import Coded, Judgement, SearchResult, anomaly_of, encode, only, search
from checkers.lin.tables import coded_of
from checkers.ops.table import OpTable
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.op import Op

BREAK_OPS_MAX: Final = 5_000
"""Of a key that a monitor rejected, which is searched for where it breaks."""

STEPS_PER_OP: Final = 64
"""Beside the first steps of each key, for each operation of the longest."""

EXPLAINED_LEAST_NS: Final = 500_000_000
"""Of a witness that was found as the time ended."""

CHECK_STEPS_LEAST: Final = 50_000
"""What is left after leaving something out may cost so much, or a few times what the key cost."""


@dataclass(frozen=True, slots=True)
class LogFinding:
    """`legal` is None where the search must decide. `rows` contradict each other, for `why`."""

    legal: bool | None
    rows: list[int] = field(default_factory=list)
    why: str = ""

    def explain(self, ops: list[Op]) -> str:
        """The contradiction in sentences, in the words of these operations."""
        count = f"{len(ops)} operation{'s' if len(ops) != 1 else ''}"
        return (
            f"No order explains the {count} of the witness: {self.why}. Each append takes effect "
            f"after all of lower offsets. They are: {'; '.join(map(phrase, ops))}."
        )


UNFIT = LogFinding(None)


class _Log:
    """One key. `offsets`, in their order, have the append at `owners`; `shown` = the value that
    reads tell of an offset, and the first that does. Appends without an offset are `loose`."""

    def __init__(self, coded: Coded, key: int) -> None:
        self.coded = coded
        where = coded.of_key(key)
        rows = np.arange(where.start, where.stop)
        is_read, offset = _columns(coded, rows)
        self.reads: list[int] = rows[is_read].tolist()
        self.loose: list[int] = rows[~is_read & (offset < 0)].tolist()
        placed = rows[offset >= 0]
        order = np.argsort(offset[offset >= 0], kind="stable")
        self.offsets: I64 = offset[offset >= 0][order]
        self.owners: I64 = placed[order]
        self.shown: dict[int, tuple[Any, int]] = {}

    def call(self, row: int) -> Any:
        return self.coded.calls[self.coded.classes[row]]

    def owner(self, offset: int) -> int:
        """The row of an offset's append, -1 = unknown."""
        at = int(np.searchsorted(self.offsets, offset))
        return int(self.owners[at]) if at < len(self.offsets) and self.offsets[at] == offset else -1

    def shown_by(self, offset: int) -> set[int]:
        """The append of an offset, and the read that showed it where the append did not."""
        row = self.owner(offset)
        by = self.shown.get(offset, (None, row))[1]
        return {row} if self.call(row).output is not None else {row, by}

    def appends(self) -> LogFinding | None:
        same = np.flatnonzero(self.offsets[1:] == self.offsets[:-1])
        if not len(same):
            return None
        first = same[np.argmin(self.owners[same + 1])]
        rows = [int(self.owners[first]), int(self.owners[first + 1])]
        return LogFinding(False, rows, "two appends got the same offset")

    def values(self) -> LogFinding | None:
        """What reads show, against each other and against the appends."""
        for row in self.reads:
            call = self.call(row)
            first = call.input
            for place, (offset, value) in enumerate(call.output):
                first = offset if first is None else first
                if offset != first + place:
                    return LogFinding(False, [row], "the read skips or repeats an offset")
                by = self.owner(offset)
                known = self.shown.get(offset) if by < 0 else (self.call(by).input, by)
                if known is None:
                    self.shown[offset] = (value, row)
                elif known[0] != value:
                    why = f"they tell different values of offset {offset}"
                    return LogFinding(False, sorted((known[1], row)), why)
        return self._loose_values() if self.shown else None

    def _loose_values(self) -> LogFinding | None:
        """Gives the offsets that only reads show to appends that were told none."""
        by_value: dict[Any, list[int]] = defaultdict(list)
        for row in self.loose:
            by_value[self.call(row).input].append(row)
        found: dict[int, int] = {}
        for offset, (value, row) in self.shown.items():
            rows = by_value.get(value, [])
            if not rows:
                return LogFinding(False, [row], f"nobody appended what it shows at offset {offset}")
            if len(rows) > 1:
                return UNFIT
            found[offset] = rows[0]
        if len(set(found.values())) < len(found):
            return UNFIT  # one append at two offsets
        self._place(found)
        return None

    def _place(self, found: dict[int, int]) -> None:
        """Appends whose offsets are known now."""
        offsets = np.concatenate([self.offsets, np.array(list(found), np.int64)])
        owners = np.concatenate([self.owners, np.array(list(found.values()), np.int64)])
        order = np.argsort(offsets, kind="stable")
        self.offsets, self.owners = offsets[order], owners[order]
        used = set(found.values())
        self.loose = [row for row in self.loose if row not in used]

    def gaps(self) -> LogFinding | None:
        if any(self.coded.complete[row] != NEVER for row in self.loose):
            return UNFIT  # it took effect, and nobody knows where
        last = int(self.offsets[-1]) if len(self.offsets) else -1
        missing = last + 1 - len(self.offsets)
        if missing > len(self.loose):
            off = np.flatnonzero(self.offsets != np.arange(len(self.offsets)))
            why = f"nobody appended at offset {int(off[0])}, yet offset {last} was reached"
            return LogFinding(False, sorted(self.shown_by(last)), why)
        if missing:
            free = sorted((int(self.coded.invoke[r]), r) for r in self.loose)
            empty = np.setdiff1d(np.arange(last + 1), self.offsets).tolist()
            self._place({o: r for o, (_, r) in zip(empty, free, strict=False)})
        return None

    def times(self) -> LogFinding:
        invoke, complete = self.coded.invoke, self.coded.complete
        count = len(self.owners)
        earliest, latest = invoke[self.owners], complete[self.owners]
        first, last = self.owners.copy(), self.owners.copy()
        for row in self.reads:
            call = self.call(row)
            if call.output:
                at = call.output[-1][0]
                if (complete[row], row) < (latest[at], last[at]):
                    latest[at], last[at] = complete[row], row
            elif call.input is not None and call.input < count:
                at = call.input
                if (invoke[row], row) > (earliest[at], first[at]):
                    earliest[at], first[at] = invoke[row], row
        late = np.flatnonzero(np.maximum.accumulate(earliest) > latest)
        if not len(late):
            return LogFinding(True)
        offset = int(late[0])
        place = int(np.argmax(earliest[: offset + 1]))
        rows = self.shown_by(place) | self.shown_by(offset) | {int(first[place]), int(last[offset])}
        why = (
            f"offset {place} was still free at {int(earliest[place])}, yet offset {offset} was "
            f"taken by {int(latest[offset])}"
        )
        return LogFinding(False, sorted(rows), why)


def _columns(coded: Coded, rows: I64) -> tuple[Any, I64]:
    """Which of these operations are reads, and the offset that each append was told, else -1."""
    if coded.told is not None:
        return coded.told["read"][rows], coded.told["offset"][rows]
    is_read = np.array([call.op_type == "read" for call in coded.calls] or [False])
    told = [
        call.output if call.op_type == "append" and call.known and call.output is not None else -1
        for call in coded.calls
    ]
    classes = coded.classes[rows]
    return is_read[classes], np.array(told or [-1], np.int64)[classes]


def decide_log(coded: Coded, key: int) -> LogFinding:
    """Decides one key of a log.

    Offsets force the order. The append of offset o comes right after that of o - 1. With r(o) the
    earliest and d(o) the latest instant that append o can have, a log is linearizable if and only
    if no r(p) is after d(o) for any p <= o. An append is held by its own interval; a read that
    showed offset o ended after append o; a read that found nothing at o or later began before
    append o. An append of unknown outcome took place if its value was seen; else it may fill an
    offset that nobody saw, and those invoked first fill the lowest.
    """
    log = _Log(coded, key)
    return log.appends() or log.values() or log.gaps() or log.times()


def _search(coded: Coded, undecided: Any, deadline: int, memory_bytes: int) -> SearchResult:
    """Decides the keys that `undecided` marks: all with few steps each, then the hard ones one by
    one with what time is left. The others get the verdict OK."""
    sizes = np.diff(coded.offsets)
    rows = np.flatnonzero(np.repeat(undecided, sizes))
    counts = np.concatenate([[0], np.cumsum(np.where(undecided, sizes, 0))]).astype(np.int64)
    part = replace(only(coded, rows), offsets=counts, keys=coded.keys)
    left = max(0, deadline - monotonic_ns())
    steps = FIRST_STEPS + STEPS_PER_OP * int(sizes.max(initial=0))
    result = search(part, Limits(left, memory_bytes, steps))
    hard = np.flatnonzero(result.verdict == STEPS)
    for done, key in enumerate(hard):
        left = max(0, deadline - monotonic_ns()) // (len(hard) - done)
        own = np.arange(counts[key], counts[key + 1])
        again = search(only(part, own), Limits(left, memory_bytes))
        result.verdict[key] = again.verdict[0]
        result.steps[key] += again.steps[0]
        if again.bad[0] >= 0:
            result.bad[key] = counts[key] + again.bad[0]
    placed = result.bad >= 0
    result.bad[placed] = rows[result.bad[placed]]
    return result


def _components(ops: Sequence[Op]) -> list[Any] | None:
    """For transactions on several registers: the registers that one of them ties together, as one
    object. None where nothing is tied, or some operation cannot be read."""
    root: dict[Any, Any] = {}

    def find(key: Any) -> Any:
        while root.setdefault(key, key) != key:
            root[key] = root[root[key]]
            key = root[key]
        return key

    touched: list[list[Any]] = []
    for op in ops:
        rows = micro_ops(op.input) if op.op_type == "txn" else None
        if op.op_type == "txn" and not rows:
            return None
        keys = [op.key] if rows is None else [key for _, key, _ in rows]
        for key in keys:
            root[find(key)] = find(keys[0])
        touched.append(keys)
    members: dict[Any, list[Any]] = {}
    for key in root:
        members.setdefault(find(key), []).append(key)
    name = {k: v[0] if len(v) == 1 else sorted(v, key=repr) for k, v in members.items()}
    return [name[find(keys[0])] for keys in touched]


def _tells(coded: Coded) -> bool:
    """Does some completed operation have a result that could have been another one?"""
    if coded.tells is not None:
        return coded.tells
    return any(c.known and (c.output is not None or coded.model.pure(c)) for c in coded.calls) or (
        isinstance(coded.model, MultiRegister)
        and any(c.known and c.op_type == "txn" and any(m[0] == "r" for m in c.input)
                for c in coded.calls)
    )  # fmt: skip


class _Engine:
    """One history under one model."""

    def __init__(self, model: Model, history: History, budget: Budget) -> None:
        keys = _components(history.ops) if isinstance(model, MultiRegister) else None
        self.history, self.objects = history, keys
        self.memory_bytes = budget.memory_mb * 2**20
        self.deadline = monotonic_ns() + int(budget.time_s * 1e9)
        self.logs: dict[int, LogFinding] = {}
        self.steps = np.zeros(0, np.int64)
        self.model = model
        self._encode(tabled=True)

    def _encode(self, *, tabled: bool) -> None:
        """Columns of the operations; the search needs those that were read one by one."""
        ops = self.history.ops
        usual = self.model.fresh
        coded = coded_of(self.model, ops) if tabled and usual and isinstance(ops, OpTable) else None
        self.coded = encode(self.model, ops, self.objects) if coded is None else coded
        self.parts = monitor.parts_of(self.coded) if usual else None

    def decide(self) -> tuple[Any, Any]:
        """Verdict and stuck row per key; -1 = the monitor's verdict."""
        n_keys = len(self.coded.keys)
        verdict = np.full(n_keys, monitor.UNFIT, np.uint8)
        bad = np.full(n_keys, -1, np.int64)
        if self.parts is not None:
            verdict = monitor.verdicts(self.coded, self.parts, self.memory_bytes)
        elif self.coded.model.exact_shape == "log" and self.coded.model.fresh:
            words = {True: OK, False: ILLEGAL, None: monitor.UNFIT}
            self.logs = {key: decide_log(self.coded, key) for key in range(n_keys)}
            verdict[:] = [words[finding.legal] for finding in self.logs.values()]
        undecided = (verdict != OK) & (verdict != ILLEGAL)
        if undecided.any() and self.coded.told is not None:
            self._encode(tabled=False)
            return self.decide()
        if undecided.any():
            searched = _search(self.coded, undecided, self.deadline, self.memory_bytes)
            self.steps = searched.steps
            verdict = np.where(undecided, searched.verdict, verdict)
            bad = np.where(undecided, searched.bad, bad)
        return verdict, bad

    def anomaly(self, key: int, bad: int, deadline: int) -> Anomaly | None:
        """The anomaly of an illegal key; None where monitor and search disagree about it."""
        coded, name, history = self.coded, self.coded.keys[key], self.history
        if key in self.logs and bad < 0:
            rows = self.logs[key].rows
            ops = [history.ops[int(p)] for p in coded.position[rows]]
            return anomaly_of(name, ops, history, True, self.logs[key].explain(ops))
        made: witness.Witness | None = None
        if bad < 0:
            assert self.parts is not None
            made = witness.of_values(coded, self.parts, key, deadline, self.memory_bytes)
            if made is None:
                return None
            if made.crowded and made.named.sum() > witness.SMALL:
                made = self._smaller(key, deadline) or made
        elif coded.model.exact_shape == "lock":
            made = witness.of_holds(coded, key, bad, history.ops, deadline, self.memory_bytes)
        if made is None:
            most = max(CHECK_STEPS_LEAST, 4 * int(self.steps[key]))
            made = witness.of_failure(coded, key, bad, deadline, self.memory_bytes, most)
        ops = [history.ops[int(p)] for p in witness.ops_of(made)]
        left_ns = max(deadline - monotonic_ns(), EXPLAINED_LEAST_NS)
        told = witness.explain(made, history, self.memory_bytes, left_ns)
        return anomaly_of(name, ops, history, made.minimal, *told)

    def _smaller(self, key: int, deadline: int) -> witness.Witness | None:
        """A small witness beside loosened operations, of what takes of unknown outcome do not
        suffice for; None where there is none."""
        assert self.parts is not None
        row = monitor.first_break(self.coded, self.parts, key, self.memory_bytes)
        if row < 0:
            return None
        made = witness.of_failure(
            self.coded, key, row, deadline, self.memory_bytes, CHECK_STEPS_LEAST
        )
        return made if made.minimal and made.named.sum() <= witness.SMALL else None

    def breaks(self, illegal: list[int], bad: Any) -> Iterator[tuple[Any, Op | None]]:
        """Each illegal key with the operation that cannot be placed. Of what a monitor rejected it
        is asked first, then the search, where the key is small; where there is no time it is not
        known."""
        last = min(monotonic_ns() + WITNESSES_TIME_NS, self.deadline)
        for key in illegal:
            at, where = int(bad[key]), self.coded.of_key(key)
            if at < 0 and self.parts is not None and monotonic_ns() <= last:
                at = monitor.first_break(self.coded, self.parts, key, self.memory_bytes)
            places = self.coded.position[where].tolist()
            if at >= 0:
                yield self.coded.keys[key], self.history.ops[int(self.coded.position[at])]
            elif key in self.logs or len(places) > BREAK_OPS_MAX or monotonic_ns() > last:
                yield self.coded.keys[key], None
            else:
                ops = [self.history.ops[place] for place in places]
                alone = encode(self.model, ops, [None] * len(ops))
                found = search(alone, Limits(last - monotonic_ns(), self.memory_bytes, FIRST_STEPS))
                row = int(found.bad[0]) if len(found.bad) == 1 else -1
                yield self.coded.keys[key], None if row < 0 else ops[int(alone.position[row])]

    def anomalies(self, illegal: list[int], bad: Any, undecided: dict[int, str]) -> list[Anomaly]:
        """One anomaly for each of the first illegal keys."""
        now = monotonic_ns()
        last = max(now + WITNESS_LEAST_NS, min(now + WITNESSES_TIME_NS, self.deadline))
        anomalies = []
        for key in illegal[:ANOMALIES_MAX]:
            deadline = min(last, monotonic_ns() + WITNESS_TIME_NS)
            one = self.anomaly(key, int(bad[key]), deadline)
            if one is None:
                undecided[key] = "monitor and search disagree: please report this"
            else:
                anomalies.append(one)
        return anomalies


def judge(model: Model, history: History, budget: Budget) -> Judgement:
    """Judges a history of objects of one model."""
    engine = _Engine(model, history, budget)
    verdict, bad = engine.decide()
    coded = engine.coded
    undecided = dict(coded.blocked)
    for key in np.flatnonzero((verdict != OK) & (verdict != ILLEGAL)).tolist():
        if key not in undecided:
            undecided[key] = UNDECIDED[int(verdict[key])]
    illegal = [k for k in np.flatnonzero(verdict == ILLEGAL).tolist() if k not in undecided]
    anomalies = engine.anomalies(illegal, bad, undecided)
    sizes = np.diff(coded.offsets)
    illegal = [k for k in illegal if k not in undecided]
    return Judgement(
        keys=coded.keys,
        undecided=undecided,
        illegal=len(illegal),
        breaks=[*engine.breaks(illegal, bad)],
        anomalies=anomalies,
        consumed=int(sizes.sum() - sum(sizes[k] for k in undecided)),
        excluded=coded.excluded,
        tested=_tells(coded),
    )
