"""Logs: offsets force the order, so a history is decided by comparing times.

The append of offset o comes right after that of o - 1. With r(o) the earliest and d(o) the latest
instant that append o can have, a log is linearizable if and only if no r(p) is after d(o) for any
p <= o. An append is held by its own interval; a read that showed offset o ended after append o; a
read that found nothing at o or later began before append o. An append of unknown outcome took
place if its value was seen; else it may fill an offset that nobody saw, and those invoked first
fill the lowest.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkers._columns import I64, NEVER
from checkers._witness import phrase
from checkers.lin.encode import Coded
from dstest.core.op import Op


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
    """Decides one key of a log."""
    log = _Log(coded, key)
    return log.appends() or log.values() or log.gaps() or log.times()
