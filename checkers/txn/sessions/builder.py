"""Columns of sessions whose transactions have no times.

Positions of events are needed all the same. They are made up: the sessions are merged so that each
advances evenly (csrc/sess/sess_place.c). They are in the order of each session, so that whatever
counts sessions is right; between sessions they say nothing, so that no model of real time may be
asked of these columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkers._findings import Start
from checkers.txn.columns import NULL_READ, OK, REGISTERS, WRITE, TxnColumns, start_at_null
from checkers.txn.ingest import MEMORY_MB
from checkers.txn.sessions import native
from dstest.core.errors import HistoryError

I64 = NDArray[np.int64]

NO_SESSION: Final = -1

INITIAL_TXN: Final = "initial transaction"
"""Why a transaction that only writes what the keys start with is left out."""

_CODES: Final = range(-(2**63), 2**63)


def coded(values: I64 | Sequence[Any]) -> tuple[I64, Sequence[Any] | None]:
    """Codes for values, and the values by code; an array of numbers stands for itself."""
    if isinstance(values, np.ndarray):
        return values, None
    ids: dict[Any, int] = {}
    codes = np.fromiter((ids.setdefault(v, len(ids)) for v in values), np.int64, len(values))
    return codes, list(ids)


def named(codes: I64, names: Sequence[Any] | None) -> Sequence[Any]:
    """What the codes stand for."""
    if names is None:
        return array("q", codes.tobytes())
    return [names[code] for code in codes.tolist()]


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
    file calls it, each once; those of a session are in its order. Keys and values are numbers in an
    array, or any in a list; codes of them are kept, see `named`."""

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
        self.txn = np.asarray(self.txn, np.int32)
        self.session = np.asarray(self.session, np.int64)
        self.outcome = np.asarray(self.outcome, np.uint8)
        self.name = np.asarray(self.name, np.int64)
        self.null = None if self.null is None else np.asarray(self.null, np.bool_)
        self.key, self.key_names = coded(self.key)
        self.value, self.value_names = coded(self.value)

    def rows(self) -> Iterator[tuple[int, Any, Any, int, bool]]:
        """Kind, key, value, transaction and null of each operation."""
        null = [False] * len(self.kind) if self.null is None else self.null.tolist()
        keys, values = named(self.key, self.key_names), named(self.value, self.value_names)
        return zip(self.kind.tolist(), keys, values, self.txn.tolist(), null, strict=True)

    def without_initial(self, value: int) -> None:
        """Leaves out the transaction that tells the initial state: in a session of its own it only
        writes `value`, and it is the first of all. Another one may have been a write like any."""
        code = value
        if self.value_names is not None:
            code = self.value_names.index(value) if value in self.value_names else -1
        if not len(self.kind) or not self._tells(code, self.txn == 0):
            return
        others = np.ones(len(self.session), np.bool_)
        others[self.txn[(self.kind != WRITE) | (self.value != code)]] = False
        there = np.zeros(len(self.session), np.bool_)
        there[self.txn] = True
        sizes = np.bincount(self.session[self.session >= 0], minlength=1)
        alone = (self.session >= 0) & (sizes[np.maximum(self.session, 0)] == 1)
        gone = others & there & alone & (self.outcome == OK)
        if gone.sum() != 1 or not gone[0]:
            return
        self.skipped[INITIAL_TXN] = 1
        keep = ~gone[self.txn]
        self.kind, self.key, self.value = self.kind[keep], self.key[keep], self.value[keep]
        self.txn = self.txn[keep] - 1
        self.null = None if self.null is None else self.null[keep]
        for name in ("session", "outcome", "name"):
            setattr(self, name, getattr(self, name)[1:])

    def _tells(self, code: int, mine: NDArray[np.bool_]) -> bool:
        """Are these operations writes of this value, at least one?"""
        kind, value = self.kind[mine], self.value[mine]
        return bool(len(kind) and (kind == WRITE).all() and (value == code).all())

    def _placed(self, start: int | None, memory_bytes: int) -> tuple[TxnColumns, bool]:
        """The columns, keys starting with that number; and whether somebody writes it."""
        rows = (
            *(self.kind, self.null, self.outcome, self.key, self.value),
            *(self.session, self.name, self.txn),
        )
        columns, keys, values, wrote = native.place(rows, start, memory_bytes)
        made = TxnColumns(
            **columns,
            elem=np.empty(0, np.int32),
            key_names=named(keys, self.key_names),
            value_names=named(values, self.value_names),
            skipped=self.skipped,
            weak=self.weak,
        )
        return made, wrote

    def columns(self, start: Start | None, memory_mb: int = MEMORY_MB) -> TxnColumns:
        """The columns; keys start with what `start` says. Raises ConfigError and HistoryError for a
        start that cannot be, MemorySpent where `memory_mb` is not enough."""
        room = memory_mb << 20
        first = None if start is None or start.by_key is not None else start.every
        if type(first) is int and first in _CODES and self.value_names is None:
            made, wrote = self._placed(first, room)
            if not wrote:
                return made
        made, _ = self._placed(None, room)
        if start is None:
            return made
        # What names no value is a read of the start, whatever that is.
        null = made.mop_known == NULL_READ
        known = np.where(null, 0, made.mop_known).astype(np.uint8)
        begun = start_at_null(replace(made, mop_known=known), REGISTERS, start)
        known = np.where(null, NULL_READ, begun.mop_known).astype(np.uint8)
        return replace(begun, mop_known=known)
