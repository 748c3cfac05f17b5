"""Did the reads of a transactional history put anything to the test?

A read tests something when another transaction writes its key: it could have been wrong. One that
returned what another wrote is enough; of reads that returned nothing it takes those of two
transactions, because a single one is right wherever it is put in the order.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from checkers.txn.columns import FAIL, NIL, OK, READ, WRITE, TxnColumns

VACUOUS: Final = "nothing was tested: no transaction read what another one wrote"

_FIRST_TXNS: Final = 4096
"""Nearly every history shows it in its first transactions."""


def reads_test(c: TxnColumns) -> bool:
    """Could any read of a committed transaction have been refuted?"""
    return _in_first(c, min(c.txns, _FIRST_TXNS)) or (c.txns > _FIRST_TXNS and _in_first(c, c.txns))


def _in_first(c: TxnColumns, txns: int) -> bool:
    mops = int(c.mop_start[txns]) if txns else 0
    kind, key = c.mop_kind[:mops], c.mop_key[:mops]
    txn = np.repeat(np.arange(txns), np.diff(c.mop_start[: txns + 1]))
    writes = np.flatnonzero((kind == WRITE) & (c.outcome[txn] != FAIL))
    first = np.full(len(c.key_names), np.iinfo(np.int64).max)
    last = np.full(len(c.key_names), -1)
    np.minimum.at(first, key[writes], txn[writes])
    np.maximum.at(last, key[writes], txn[writes])
    reads = np.flatnonzero((kind == READ) & (c.outcome[txn] == OK) & (c.mop_known[:mops] != 0))
    who, what = txn[reads], key[reads]
    reads = reads[(last[what] >= 0) & ((first[what] != who) | (last[what] != who))]
    if not len(reads):
        return False
    told = (c.elem_start[reads + 1] > c.elem_start[reads]) | (c.mop_value[reads] != NIL)
    return bool(told.any()) or len(np.unique(txn[reads])) > 1
