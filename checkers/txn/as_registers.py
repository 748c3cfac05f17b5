"""A list-append history as one of registers, for what decides models of registers.

A read of a list is a read of its last element that the transaction itself had not appended: that
element is the version it saw. What the lists say besides are pairs of transactions: whose element
stands before whose, and that an append which no read shows comes after the longest one.

It says what the lists say only where these agree and every element has a writer, so where the
analysis of the lists has found nothing.
"""

from __future__ import annotations

import numpy as np

from checkers.txn.columns import I64, NIL, NULL_READ, OK, READ, WRITE, TxnColumns
from checkers.txn.decided import Known

__all__ = ["registers_of"]


class _Writers:
    """The transaction that appended a value to a key, -1 where nobody did."""

    def __init__(self, c: TxnColumns, txn_of: I64) -> None:
        appends = np.flatnonzero(c.mop_kind == WRITE)
        names = self.name(c.mop_key[appends], c.mop_value[appends])
        order = np.argsort(names, kind="stable")
        self._names = names[order]
        self._txns = txn_of[appends][order]

    @staticmethod
    def name(key: np.ndarray, value: np.ndarray) -> I64:
        names: I64 = key.astype(np.int64) << 32 | value.astype(np.int64)
        return names

    def of(self, key: np.ndarray, value: np.ndarray) -> I64:
        if not len(self._names):
            return np.full(len(key), -1, np.int64)
        names = self.name(key, value)
        at = np.minimum(np.searchsorted(self._names, names), len(self._names) - 1)
        found: I64 = np.where(self._names[at] == names, self._txns[at], -1)
        return found


def _last_of_others(c: TxnColumns, reads: I64, txn: I64, writers: _Writers) -> I64:
    """Per read the element that it ends with, besides those that its transaction appended; -1 where
    there is none."""
    at = c.elem_start[reads + 1] - 1
    while True:
        here = np.flatnonzero(at >= c.elem_start[reads])
        own = writers.of(c.mop_key[reads[here]], c.elem[at[here]]) == txn[here]
        if not own.any():
            break
        at[here[own]] -= 1
    return np.where(at >= c.elem_start[reads], at, -1)


def _order_of_versions(c: TxnColumns, reads: I64, txn_of: I64, writers: _Writers) -> Known:
    """Neighbours in the longest read of each key; its last one and each append that it lacks."""
    lengths = c.elem_start[reads + 1] - c.elem_start[reads]
    order = np.lexsort((lengths, c.mop_key[reads]))
    last_of_key = np.append(c.mop_key[reads[order]][1:] != c.mop_key[reads[order]][:-1], True)
    longest = reads[order[last_of_key]] if len(reads) else reads
    longest = longest[c.elem_start[longest + 1] > c.elem_start[longest]]
    sizes = c.elem_start[longest + 1] - c.elem_start[longest]
    starts = np.repeat(c.elem_start[longest] - np.append(0, np.cumsum(sizes)[:-1]), sizes)
    at = starts + np.arange(int(sizes.sum()))
    key = np.repeat(c.mop_key[longest], sizes)
    writer = writers.of(key, c.elem[at])
    same = key[1:] == key[:-1]
    first, then = writer[:-1][same], writer[1:][same]
    # appends that the longest read of their key lacks
    ends = np.full(len(c.key_names), -1, np.int64)
    ends[c.mop_key[longest]] = writer[np.cumsum(sizes) - 1] if len(longest) else -1
    shown = np.sort(writers.name(key, c.elem[at]))
    appends = np.flatnonzero((c.mop_kind == WRITE) & (c.outcome[txn_of] == OK))
    names = writers.name(c.mop_key[appends], c.mop_value[appends])
    place = np.searchsorted(shown, names)
    there = np.zeros(len(names), np.bool_)
    if len(shown):
        there = shown[np.minimum(place, len(shown) - 1)] == names
    unseen = appends[~there & (ends[c.mop_key[appends]] >= 0)]
    first = np.concatenate([first, ends[c.mop_key[unseen]]])
    then = np.concatenate([then, txn_of[unseen]])
    sure = (first != then) & (first >= 0) & (then >= 0)
    pairs = np.unique(np.stack([first, then], axis=1)[sure], axis=0)
    return pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.int32)


def registers_of(c: TxnColumns) -> tuple[TxnColumns, Known]:
    """The columns of registers, transactions as they are, and what is known of their versions. A
    transaction's reads come before its writes: each tells what others had left."""
    txn_of = np.repeat(np.arange(c.txns), np.diff(c.mop_start))
    writers = _Writers(c, txn_of)
    known_read = (c.mop_kind == READ) & (c.mop_known != 0) & (c.outcome[txn_of] == OK)
    reads = np.flatnonzero(known_read)
    last = _last_of_others(c, reads, txn_of[reads], writers)
    value = c.mop_value.copy()
    value[reads] = np.where(last >= 0, c.elem[np.maximum(last, 0)] if len(c.elem) else NIL, NIL)
    told = c.mop_known.copy()
    told[reads] = np.where(last >= 0, 1, NULL_READ)
    order = np.lexsort((np.arange(len(value)), c.mop_kind == WRITE, txn_of))
    columns = TxnColumns(
        outcome=c.outcome,
        process=c.process,
        invoke_pos=c.invoke_pos,
        complete_pos=c.complete_pos,
        op_index=c.op_index,
        mop_start=c.mop_start,
        mop_kind=c.mop_kind[order],
        mop_key=c.mop_key[order],
        mop_value=value[order].astype(np.int32),
        mop_known=told[order],
        elem_start=np.zeros(len(value) + 1, np.int64),
        elem=np.empty(0, np.int32),
        key_names=c.key_names,
        value_names=c.value_names,
    )
    return columns, _order_of_versions(c, reads, txn_of, writers)
