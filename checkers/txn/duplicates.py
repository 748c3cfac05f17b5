"""Values that were written to a key twice: nobody can tell which of the two writes a read saw."""

from __future__ import annotations

import numpy as np

from checkers.txn._values import name_of, pairs_of
from checkers.txn.columns import WRITE, TxnColumns

ONCE = "each value may be written to a key only once"


def written_twice(c: TxnColumns) -> str | None:
    """Which transactions write the same value to one key; None where none do."""
    writes = np.flatnonzero(c.mop_kind == WRITE)
    pairs = pairs_of(c.mop_key[writes], c.mop_value[writes])
    order = np.argsort(pairs, kind="stable")
    again = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    if not len(again):
        return None
    at = again[np.argmin(order[again + 1])]
    first, then = int(writes[order[at]]), int(writes[order[at + 1]])
    one, other = (int(np.searchsorted(c.mop_start, i, side="right")) - 1 for i in (first, then))
    key, value = c.key_names[c.mop_key[first]], name_of(c, int(c.mop_value[first]))
    twice = f"transaction {c.op_index[one]} writes {value!r} to key {key!r} twice"
    who = f"transactions {c.op_index[one]} and {c.op_index[other]}"
    return twice if one == other else f"{who} both write {value!r} to key {key!r}"
