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

from checkers._columns import NEVER
from checkers._witness import phrase
from checkers.lin.encode import Coded
from dstest.core.op import Op

__all__ = ["LogFinding", "decide_log"]


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
    """One key. `owner` = the row of each offset's append, -1 = a gap; `seen` = value and the row
    that tells it."""

    def __init__(self, coded: Coded, key: int) -> None:
        self.coded = coded
        self.owner: dict[int, int] = {}
        self.seen: dict[int, tuple[Any, int]] = {}
        self.loose: dict[Any, list[int]] = defaultdict(list)
        self.without_offset: set[int] = set()
        self.reads: list[int] = []
        where = coded.of_key(key)
        self.rows = range(where.start, where.stop)

    def call(self, row: int) -> Any:
        return self.coded.calls[self.coded.classes[row]]

    def shown_by(self, offset: int) -> set[int]:
        """The append of an offset, and the read that showed it where the append did not."""
        row = self.owner[offset]
        by = self.seen.get(offset, (None, row))[1]
        return {row} if self.call(row).output is not None else {row, by}

    def appends(self) -> LogFinding | None:
        for row in self.rows:
            call = self.call(row)
            if call.op_type == "read":
                self.reads.append(row)
            elif not call.known or call.output is None:
                self.loose[call.input].append(row)
                if call.known:
                    self.without_offset.add(row)
            else:
                other = self.owner.setdefault(call.output, row)
                if other != row:
                    return LogFinding(False, [other, row], "two appends got the same offset")
                self.seen[call.output] = (call.input, row)
        return None

    def values(self) -> LogFinding | None:
        """What reads show, against each other and against the appends."""
        for row in self.reads:
            call = self.call(row)
            first = call.input
            for place, (offset, value) in enumerate(call.output):
                first = offset if first is None else first
                if offset != first + place:
                    return LogFinding(False, [row], "the read skips or repeats an offset")
                shown_by, by = self.seen.setdefault(offset, (value, row))
                if shown_by != value:
                    return LogFinding(
                        False, sorted((by, row)), f"they tell different values of offset {offset}"
                    )
        for offset, (value, row) in self.seen.items():
            if offset in self.owner:
                continue
            rows = self.loose.get(value, [])
            if not rows:
                return LogFinding(False, [row], f"nobody appended what it shows at offset {offset}")
            if len(rows) > 1:
                return UNFIT
            self.owner[offset] = rows[0]
        return None

    def gaps(self) -> LogFinding | None:
        used = set(self.owner.values())
        if len(used) < len(self.owner) or self.without_offset - used:
            return UNFIT  # one append at two offsets, or one whose offset nobody knows
        last = max(self.owner, default=-1)
        loose = [r for rows in self.loose.values() for r in rows if r not in used]
        free = sorted((int(self.coded.invoke[r]), r) for r in loose)
        empty = [o for o in range(last + 1) if o not in self.owner]
        if len(empty) > len(free):
            why = f"nobody appended at offset {empty[0]}, yet offset {last} was reached"
            return LogFinding(False, sorted(self.shown_by(last)), why)
        self.owner |= {o: r for o, (_, r) in zip(empty, free, strict=False)}
        return None

    def times(self) -> LogFinding:
        invoke, complete = self.coded.invoke.tolist(), self.coded.complete.tolist()
        count = len(self.owner)
        owner = [self.owner[o] for o in range(count)]
        earliest = [(invoke[r], r) for r in owner]
        latest = [(complete[r], r) for r in owner]
        for row in self.reads:
            call = self.call(row)
            if call.output:
                last = call.output[-1][0]
                latest[last] = min(latest[last], (complete[row], row))
            elif call.input is not None and call.input < count:
                earliest[call.input] = max(earliest[call.input], (invoke[row], row))
        most, place = (-NEVER, -1), -1
        for offset in range(count):
            if earliest[offset][0] > most[0]:
                most, place = earliest[offset], offset
            if most[0] > latest[offset][0]:
                rows = self.shown_by(place) | self.shown_by(offset) | {most[1], latest[offset][1]}
                why = (
                    f"offset {place} was still free at {most[0]}, yet offset {offset} was taken "
                    f"by {latest[offset][0]}"
                )
                return LogFinding(False, sorted(rows), why)
        return LogFinding(True)


def decide_log(coded: Coded, key: int) -> LogFinding:
    """Decides one key of a log."""
    log = _Log(coded, key)
    return log.appends() or log.values() or log.gaps() or log.times()
