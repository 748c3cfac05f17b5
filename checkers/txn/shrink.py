"""The smallest part of a history that still shows what the whole shows.

A part is some transactions with some of their micro-ops. A read whose writer is left out goes as
well: that only takes demands away, so that what a part violates the whole does. First transactions
are taken out, in halves, then single ones, then micro-ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np

from checkers.txn.columns import I64, NIL, READ, WRITE, TxnColumns

__all__ = ["mops_of", "part_of", "shrink"]

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


class _Parts:
    """Tries parts of one history."""

    def __init__(self, c: TxnColumns, shows: Shows) -> None:
        self._c, self._shows = c, shows
        self._left = CHECKS_MAX
        where = np.flatnonzero(c.mop_kind == WRITE)
        self._written = self._name(where)

    def _name(self, mops: I64) -> I64:
        return self._c.mop_key[mops].astype(np.int64) << 32 | self._c.mop_value[mops]

    def closed(self, mops: I64) -> I64:
        """Without the reads of what was written, but not in this part."""
        c, mops = self._c, np.sort(mops)
        told = (c.mop_kind[mops] == READ) & (c.mop_value[mops] != NIL)
        names = self._name(mops)
        here = np.isin(names, names[c.mop_kind[mops] == WRITE])
        kept: I64 = mops[~told | here | ~np.isin(names, self._written)]
        return kept

    def show(self, mops: I64) -> bool:
        self._left -= 1
        return self._left >= 0 and len(mops) > 0 and self._shows(part_of(self._c, mops))

    def fewer(self, groups: Sequence[I64]) -> list[I64]:
        """As few of these as may be."""
        kept, step = list(groups), max(1, len(groups) // 2)
        while step:
            at = 0
            while at < len(kept):
                rest = kept[:at] + kept[at + step :]
                if rest and self.show(self.closed(np.concatenate(rest))):
                    kept = rest
                else:
                    at += step
            step //= 2
        return kept


def shrink(c: TxnColumns, txns: Iterable[int], shows: Shows) -> I64 | None:
    """The micro-ops of a part of these transactions that `shows` accepts and of which no single
    one can go; None where it does not accept them all together."""
    parts = _Parts(c, shows)
    chosen = sorted(set(txns))
    if not parts.show(parts.closed(mops_of(c, chosen))):
        return None
    groups = parts.fewer([mops_of(c, [t]) for t in chosen])
    mops = parts.closed(np.concatenate(groups))
    left = parts.fewer([mops[i : i + 1] for i in range(len(mops))])
    return parts.closed(np.concatenate(left))
