"""Registers that do not start with null: what they start with becomes null in the columns.

The analyses know one initial state, null. So a read of the value that its key starts with is a read
of null, and what was null before is a value that nobody has written, unless somebody wrote null.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import numpy as np

from checkers._start import USUAL, Start
from checkers.txn.columns import NIL, NULL_READ, READ, WRITE, TxnColumns
from checkers.txn.workloads import KINDS
from dstest.core.errors import ConfigError, HistoryError

_AS_USUAL: Final = -2
"""Stands for the first value of a key that starts with null."""

_UNSEEN: Final = -3
"""Stands for a first value that occurs nowhere."""

_SCALARS: Final = (int, float, str, bool)


def _first(c: TxnColumns, start: Start) -> Any:
    """By key, the id of its first value."""
    ids: dict[tuple[type, Any], int] = {
        (type(value), value): i for i, value in enumerate(c.value_names)
    }
    found = []
    for key in c.key_names:
        value = start.of(key)
        if value is USUAL or value is None:
            found.append(_AS_USUAL)
            continue
        if not isinstance(value, _SCALARS):
            raise ConfigError(
                f"the initial value {str(value)[:40]!r} of key {key!r} is no scalar",
                remedy="--initial 0, or a scalar by key",
            )
        found.append(ids.get((type(value), value), _UNSEEN))
    return np.array(found, np.int64)


def begun(c: TxnColumns, workload: str, start: Start) -> TxnColumns:
    """The columns, their keys starting with null instead of what they start with.

    Raises ConfigError for what no key can start with, HistoryError where a key's first value is
    written to it.
    """
    kind = KINDS[workload]
    if not kind.starts:
        values = [start.every] if start.by_key is None else list(start.by_key.values())
        if any(value not in (None, json.loads(kind.first)) for value in values):
            raise ConfigError(
                f"{workload} has no initial state but {kind.first}",
                remedy="leave --initial out, and let a first transaction append what was there",
            )
        return c
    start.require_named(c.key_names)
    first = _first(c, start)[c.mop_key] if len(c.mop_key) else np.empty(0, np.int64)
    value = c.mop_value.astype(np.int64)
    reads = (c.mop_kind == READ) & (c.mop_known != 0)
    same = (value == first) & (value >= 0)
    written = np.flatnonzero(same & (c.mop_kind == WRITE))
    if len(written):
        at = int(written[0])
        what, where = c.value_names[value[at]], c.key_names[int(c.mop_key[at])]
        txn = int(np.searchsorted(c.mop_start, at, side="right")) - 1
        raise HistoryError(
            f"operation {c.op_index[txn]} writes {what!r} to key {where!r}, which starts with it: "
            "a read does not tell which it saw",
            remedy="--initial is a value that nobody writes",
        )
    null = (value == NIL) & (first != _AS_USUAL) & (reads | (c.mop_kind == WRITE))
    from_start = same & reads
    known = np.where(from_start, NULL_READ, np.where(null & reads, 1, c.mop_known))
    value = np.where(null, len(c.value_names), np.where(from_start, NIL, value))
    return replace(
        c,
        mop_value=value.astype(np.int32),
        mop_known=known.astype(np.uint8),
        value_names=[*c.value_names, None] if null.any() else c.value_names,
    )
