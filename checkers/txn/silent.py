"""Transactions that took effect, and of which the history has no invocation."""

from __future__ import annotations

import numpy as np

from checkers.txn._values import pairs_of
from checkers.txn.columns import I64, INFO, OK, READ, WRITE, TxnColumns


def silent(c: TxnColumns) -> I64:
    """Such transactions: acknowledged, or of unknown end where a read shows what they wrote."""
    begun = c.invoke_pos >= 0
    acknowledged = np.flatnonzero(~begun & (c.outcome == OK))
    unknown = np.flatnonzero(~begun & (c.outcome == INFO))
    if not len(unknown):
        return acknowledged
    return np.sort(np.concatenate([acknowledged, _shown(c, unknown)]))


def _shown(c: TxnColumns, txns: I64) -> I64:
    """Those of which an acknowledged transaction read a value."""
    txn_of = np.repeat(np.arange(c.txns), np.diff(c.mop_start))
    writes = np.flatnonzero((c.mop_kind == WRITE) & np.isin(txn_of, txns))
    reads = np.flatnonzero((c.mop_kind == READ) & (c.outcome[txn_of] == OK))
    sizes = c.elem_start[reads + 1] - c.elem_start[reads]
    at = np.repeat(c.elem_start[reads] - np.append(0, np.cumsum(sizes)[:-1]), sizes)
    at += np.arange(len(at))
    seen = np.concatenate(
        [
            pairs_of(c.mop_key[reads], c.mop_value[reads]),
            pairs_of(np.repeat(c.mop_key[reads], sizes), c.elem[at]),
        ]
    )
    there = np.isin(pairs_of(c.mop_key[writes], c.mop_value[writes]), seen)
    return np.unique(txn_of[writes[there]])
