"""Values behind the ids of columns, and how sentences show them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from checkers.txn.columns import I64, NIL, TxnColumns
from checkers.txn.workloads import KINDS

_LIST_SHOWN_MAX: Final = 12
"""Elements of a list that a sentence shows, from its end."""


def shown(value: Any) -> str:
    """A value in a sentence; long lists by their end."""
    if isinstance(value, list):
        dots = "... " if len(value) > _LIST_SHOWN_MAX else ""
        return "[" + dots + " ".join(shown(v) for v in value[-_LIST_SHOWN_MAX:]) + "]"
    return "nil" if value is None else value if isinstance(value, str) else repr(value)


def pairs_of(key: np.ndarray, value: np.ndarray) -> I64:
    """A number for each key with its value, the same for the same two; NIL is a value like any."""
    pairs: I64 = key.astype(np.int64) << 32 | (value.astype(np.int64) + 1)
    return pairs


def name_of(c: TxnColumns, value: int) -> Any:
    """The scalar behind a value id."""
    return None if value == NIL else c.value_names[value]


def read_value(c: TxnColumns, workload: str, i: int) -> Any:
    """What micro-op i read: a list of scalars, a scalar, or None."""
    if not c.mop_known[i]:
        return None
    if not KINDS[workload].lists:
        return name_of(c, int(c.mop_value[i]))
    if c.mop_known[i] == 2:
        return None
    return [name_of(c, int(v)) for v in c.elem[c.elem_start[i] : c.elem_start[i + 1]]]
