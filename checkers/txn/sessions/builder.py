"""Columns of sessions whose transactions have no times.

Positions of events are needed all the same. They are made up: the sessions are merged so that each
advances evenly. They are in the order of each session, so that whatever counts sessions is right;
between sessions they say nothing, so that no model of real time may be asked of these columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkers._findings import Start
from checkers.txn.columns import FAIL, NIL, NULL_READ, OK, READ, WRITE, TxnColumns, start_at_null
from dstest.core.errors import HistoryError

I64 = NDArray[np.int64]

NO_SESSION: Final = -1

INITIAL_TXN: Final = "initial transaction"
"""Why a transaction that only writes what the keys start with is left out."""


def dense(values: Any) -> tuple[I64, list[Any]]:
    """Numbers for values from 0 on, and the values by number."""
    if isinstance(values, np.ndarray):
        names, numbers = np.unique(values, return_inverse=True)
        return numbers.astype(np.int64).reshape(-1), names.tolist()
    ids: dict[Any, int] = {}
    rows = np.fromiter((ids.setdefault(v, len(ids)) for v in values), np.int64, len(values))
    return rows, list(ids)


def require_once(names: Any) -> None:
    """Raises HistoryError where a name stands for two transactions."""
    named = np.sort(names)
    twice = np.flatnonzero(named[1:] == named[:-1])
    if len(twice):
        raise HistoryError(
            f"transaction {named[twice[0]]} stands twice", remedy="record the history again"
        )


@dataclass
class Sessions:
    """What a file holds. `txn` is the transaction of each operation, `null` which operations read
    the initial state without a value. Of each transaction `session` is a number (NO_SESSION where
    its place is not known), `outcome` OK, FAIL or INFO, `name` what the file or its place in the
    file calls it; those of a session are in its order."""

    kind: Any
    key: Any
    value: Any
    txn: Any
    session: Any
    outcome: Any
    name: Any
    null: Any = None
    skipped: dict[str, int] = field(default_factory=dict)
    weak: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind = np.asarray(self.kind, np.uint8)
        self.txn = np.asarray(self.txn, np.int64)
        self.session = np.asarray(self.session, np.int64)
        self.outcome = np.asarray(self.outcome, np.uint8)
        self.name = np.asarray(self.name, np.int64)
        empty = np.zeros(len(self.kind), np.bool_)
        self.null = empty if self.null is None else np.asarray(self.null, np.bool_)

    def _places(self) -> I64:
        """The transactions in an order that holds that of each session."""
        count = len(self.session)
        order = np.argsort(self.session, kind="stable")
        session = self.session[order]
        first = np.flatnonzero(np.append(True, session[1:] != session[:-1])[:count])
        sizes = np.diff(np.append(first, count))
        rank = np.arange(count) - np.repeat(first, sizes)
        share = (rank + 0.5) / np.repeat(sizes, sizes)
        return order[np.lexsort((session, share))]

    def without_initial(self, value: Any) -> None:
        """Leaves out the transaction that tells the initial state: in a session of its own it only
        writes `value`, and it is the first of all. Another one may have been a write like any."""
        if not len(self.kind):
            return
        first = (
            np.fromiter((v == value for v in self.value), np.bool_, len(self.value))
            if (isinstance(self.value, list))
            else self.value == value
        )
        writes = (self.kind == WRITE) & first
        whole = np.ones(len(self.session), np.bool_)
        whole[self.txn[~writes]] = False
        there = np.zeros(len(self.session), np.bool_)
        there[self.txn] = True
        sizes = np.bincount(self.session[self.session >= 0], minlength=1)
        alone = (self.session >= 0) & (sizes[np.maximum(self.session, 0)] == 1)
        gone = whole & there & alone & (self.outcome == OK)
        if gone.sum() != 1 or not gone[0]:
            return
        self.skipped[INITIAL_TXN] = int(gone.sum())
        keep = ~gone[self.txn]
        number = np.cumsum(~gone) - 1
        self.kind, self.txn, self.null = self.kind[keep], number[self.txn[keep]], self.null[keep]
        for name in ("key", "value"):
            held = getattr(self, name)
            some = (
                held[keep]
                if isinstance(held, np.ndarray)
                else [v for v, stays in zip(held, keep.tolist(), strict=True) if stays]
            )
            setattr(self, name, some)
        for name in ("session", "outcome", "name"):
            setattr(self, name, getattr(self, name)[~gone])

    def columns(self, start: Start | None) -> TxnColumns:
        """The columns; keys start with what `start` says. Raises HistoryError where a name stands
        for two transactions, ConfigError and HistoryError for a start that cannot be."""
        require_once(self.name)
        places = self._places()
        number = np.empty(len(places), np.int64)
        number[places] = np.arange(len(places))
        txn = number[self.txn]
        order = np.argsort(txn, kind="stable")
        keys, key_names = dense(self.key)
        values, value_names = dense(self.value)
        kind, outcome = self.kind[order], self.outcome[places]
        value = np.where(self.null, NIL, values)[order]
        known = np.where(kind == WRITE, 1, outcome[txn[order]] == OK)
        first = (kind == READ) & (known == 1) & self.null[order]
        known = np.where(first, 0, known)
        value = np.where((kind == READ) & (known == 0), NIL, value)
        at = 2 * np.arange(len(places), dtype=np.int64)
        sessions = np.where(outcome == FAIL, NO_SESSION, self.session[places])
        made = TxnColumns(
            outcome=outcome,
            process=np.ascontiguousarray(sessions),
            invoke_pos=at,
            complete_pos=at + 1,
            op_index=np.ascontiguousarray(self.name[places]),
            mop_start=np.searchsorted(txn[order], np.arange(len(places) + 1)).astype(np.int64),
            mop_kind=np.ascontiguousarray(kind),
            mop_key=keys[order].astype(np.int32),
            mop_value=value.astype(np.int32),
            mop_known=known.astype(np.uint8),
            elem_start=np.zeros(len(kind) + 1, np.int64),
            elem=np.empty(0, np.int32),
            key_names=key_names,
            value_names=value_names,
            skipped=self.skipped,
            weak=self.weak,
        )
        if start is not None:
            made = start_at_null(made, "rw-register", start)
        # What names no value is a read of the start, whatever that is.
        return replace(made, mop_known=np.where(first, NULL_READ, made.mop_known).astype(np.uint8))
