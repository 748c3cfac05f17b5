"""Stale reads: reads of registers that returned a value which had surely been overwritten.

A value that one confirmed write alone has written is gone once a write that began after that one's
end has ended as well. Who reads it later reads the past, whatever else happened on that key: write,
write over it and read are a violation by themselves. Of a key that is not linearizable these are
all such reads, where the search stops at the first operation that it cannot place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from checkers.columns import I64, READ, WRITE, WRITE_UNKNOWN, Columns

_FIRST: Final = 0
"""The number of the value that every register has at first."""


class Stale(NamedTuple):
    """Rows of the columns: the read, the write over its value that ended first, and the write of
    its value, -1 where that is what the register had at first. `age_ns` is how long it had been
    overwritten when it was asked."""

    key: int
    read: int
    over: int
    write: int
    age_ns: int

    @property
    def rows(self) -> tuple[int, int, int]:
        return self.write, self.over, self.read


def stale_reads(columns: Columns, keys: Iterable[int]) -> list[Stale]:
    """All of these keys, in order of keys and of invocation; none of a key with compare-and-set,
    whose values depend on what was there."""
    found: list[Stale] = []
    for key in keys:
        where = columns.of_key(key)
        if np.isin(columns.kind[where], (READ, WRITE, WRITE_UNKNOWN)).all():
            found += _of_key(columns, key, where.start)
    return found


def _of_key(columns: Columns, key: int, start: int) -> list[Stale]:
    where = columns.of_key(key)
    kind, value = columns.kind[where], columns.a[where]
    invoke, complete = columns.invoke[where], columns.complete[where]
    writes = np.flatnonzero(kind == WRITE)
    if not len(writes):
        return []
    writes = writes[np.argsort(invoke[writes], kind="stable")]
    begins, ends = invoke[writes], complete[writes]
    least = _first_to_end(ends)
    number, many = np.unique(value[kind != READ], return_counts=True)
    once = set(number[many == 1].tolist())
    written = set(number.tolist())
    row_of = {int(value[at]): int(at) for at in writes.tolist()}
    found = []
    for read in np.flatnonzero(kind == READ).tolist():
        shown = int(value[read])
        if shown in once and shown in row_of:
            write = row_of[shown]
            first = int(np.searchsorted(begins, complete[write], side="right"))
        elif shown == _FIRST and shown not in written:
            write, first = -1, 0
        else:
            continue
        if first == len(writes) or (age_ns := int(invoke[read] - ends[least[first]])) <= 0:
            continue
        over = start + int(writes[least[first]])
        found.append(Stale(key, start + read, over, write if write < 0 else start + write, age_ns))
    return found


def _first_to_end(ends: I64) -> list[int]:
    """Of each place which one from there on ended first."""
    least: list[int] = []
    for at in range(len(ends) - 1, -1, -1):
        least.append(least[-1] if least and ends[least[-1]] < ends[at] else at)
    return least[::-1]
