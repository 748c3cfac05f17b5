"""The smallest part of a history that still shows what the whole shows.

A part is some transactions with some of their micro-ops. A read whose writer is left out goes as
well: that only takes demands away, so that what a part violates the whole does. First transactions
are taken out, in halves, then single ones, then micro-ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from checkers.txn._values import pairs_of
from checkers.txn.columns import I64, NIL, READ, WRITE, TxnColumns
from dstest.core.clock import monotonic_ns

Shows = Callable[[TxnColumns], bool]

CHECKS_MAX: Final = 4000
"""Parts that are tried."""


def mops_of(c: TxnColumns, txns: Sequence[int]) -> I64:
    """All micro-ops of these transactions."""
    spans = [np.arange(c.mop_start[t], c.mop_start[t + 1]) for t in txns]
    return np.concatenate([np.empty(0, np.int64), *spans])


def _dense(names: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.where(values == NIL, NIL, np.searchsorted(names, values))


def part_of(c: TxnColumns, mops: I64) -> TxnColumns:
    """The columns of some micro-ops (in ascending order) and their transactions. Their keys and
    values get ids of their own; `op_index` says which transactions of `c` they are."""
    of = np.searchsorted(c.mop_start, mops, side="right") - 1
    txns, counts = np.unique(of, return_counts=True)
    key, value, kind = c.mop_key[mops], c.mop_value[mops], c.mop_kind[mops]
    keys, values = np.unique(key), np.unique(value[value != NIL])
    return TxnColumns(
        outcome=c.outcome[txns],
        process=c.process[txns],
        invoke_pos=c.invoke_pos[txns],
        complete_pos=c.complete_pos[txns],
        op_index=txns.astype(np.int64),
        mop_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        mop_kind=kind,
        mop_key=_dense(keys, key).astype(np.int32),
        mop_value=_dense(values, value).astype(np.int32),
        mop_known=c.mop_known[mops],
        elem_start=np.zeros(len(mops) + 1, np.int64),
        elem=np.empty(0, np.int32),
        key_names=[c.key_names[k] for k in keys],
        value_names=[c.value_names[v] for v in values],
    )


class Writers:
    """Who wrote which value of which key."""

    def __init__(self, c: TxnColumns) -> None:
        self._c = c
        writes = np.flatnonzero(c.mop_kind == WRITE)
        names = _names(c, writes)
        order = np.argsort(names)
        self._names, self._mops = names[order], writes[order]

    def of(self, mops: I64) -> I64:
        """The transactions that wrote what these micro-ops read."""
        c = self._c
        reads = mops[(c.mop_kind[mops] == READ) & (c.mop_value[mops] != NIL)]
        if not len(self._names):
            return np.empty(0, np.int64)
        wanted = _names(c, reads)
        at = np.minimum(np.searchsorted(self._names, wanted), len(self._names) - 1)
        found = self._mops[at[self._names[at] == wanted]]
        of: I64 = np.searchsorted(c.mop_start, found, side="right") - 1
        return of

    def wrote(self, names: I64) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of these were written at all."""
        at = np.minimum(np.searchsorted(self._names, names), max(0, len(self._names) - 1))
        return self._names[at] == names if len(self._names) else np.zeros(len(names), np.bool_)


def _names(c: TxnColumns, mops: I64) -> I64:
    return pairs_of(c.mop_key[mops], c.mop_value[mops])


def neighbourhood(c: TxnColumns, writers: Writers, txns: Iterable[int], radius: int) -> I64:
    """The micro-ops of transactions invoked within `radius` of these, and of those that wrote what
    these read. Reads of others go."""
    near: set[int] = set()
    for txn in txns:
        near.update(range(max(0, txn - radius), min(c.txns, txn + radius + 1)))
    near.update(writers.of(mops_of(c, sorted(near))).tolist())
    mops = mops_of(c, sorted(near))
    return _closed(c, mops, writers)


def _closed(c: TxnColumns, mops: I64, writers: Writers) -> I64:
    """Without the reads of what was written, but not in this part."""
    told = (c.mop_kind[mops] == READ) & (c.mop_value[mops] != NIL)
    names = _names(c, mops)
    here = np.isin(names, names[c.mop_kind[mops] == WRITE])
    kept: I64 = mops[~told | here | ~writers.wrote(names)]
    return kept


class _Parts:
    """Tries parts of one history."""

    def __init__(self, c: TxnColumns, shows: Shows, deadline_ns: int) -> None:
        self._c, self._shows, self._deadline_ns = c, shows, deadline_ns
        self.over = False
        self._left = CHECKS_MAX
        self._writers = Writers(c)

    def closed(self, mops: I64) -> I64:
        return _closed(self._c, np.sort(mops), self._writers)

    def show(self, mops: I64) -> bool:
        self._left -= 1
        self.over = self.over or self._left < 0 or monotonic_ns() > self._deadline_ns
        return not self.over and len(mops) > 0 and self._shows(part_of(self._c, mops))

    def fewer(self, groups: Sequence[I64]) -> list[I64]:
        """As few of these as may be."""
        kept, step = list(groups), max(1, len(groups) // 2)
        while step and not self.over:
            at = 0
            while at < len(kept) and not self.over:
                rest = kept[:at] + kept[at + step :]
                if rest and self.show(self.closed(np.concatenate(rest))):
                    kept = rest
                else:
                    at += step
            step //= 2
        return kept


class Shrunk(NamedTuple):
    """Micro-ops of which no single one can go, where that is `minimal`; else time was over."""

    mops: I64
    minimal: bool


def shrink(c: TxnColumns, txns: Iterable[int], shows: Shows, deadline_ns: int) -> Shrunk | None:
    """A part of these transactions that `shows` accepts, as small as time allows; None where it
    does not accept them all together."""
    parts = _Parts(c, shows, deadline_ns)
    chosen = sorted(set(txns))
    if not parts.show(parts.closed(mops_of(c, chosen))):
        return None
    groups = parts.fewer([mops_of(c, [t]) for t in chosen])
    mops = parts.closed(np.concatenate(groups))
    left = parts.fewer([mops[i : i + 1] for i in range(len(mops))])
    return Shrunk(parts.closed(np.concatenate(left)), not parts.over)
