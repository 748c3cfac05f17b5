"""A problem with some looks pinned to one version each, as registers for the exact engine.

What a key begins with is null there; every write is a value of its own, so that rows that are gone
are told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from checkers.predicates.mops import ABSENT
from checkers.predicates.versions import BEGINNING, Problem
from checkers.txn.columns import INFO, NIL, NULL_READ, OK, READ, WRITE, TxnColumns
from dstest.core.op import Outcome


class Base:
    """The columns of a problem, but for its reads. `value_names` say what a version holds."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        txns = problem.txns
        self._outcome = np.array([OK if t.outcome is Outcome.OK else INFO for t in txns], np.uint8)
        self._process = np.array([t.process for t in txns], np.int64)
        self._invoke = np.array([t.invoke_pos for t in txns], np.int64)
        self._complete = np.array([t.complete_pos for t in txns], np.int64)
        self._index = np.array([t.at for t in txns], np.int64)
        self.value_of: dict[tuple[int, int], int] = {}
        self._value_names: list[Any] = []
        for at, writes in enumerate(problem.writes):
            for key, state in writes.items():
                self.value_of[key, at] = len(self._value_names)
                self._value_names.append("nothing (deleted)" if state is ABSENT else state)
        several = len({group for group, _ in problem.names}) > 1
        self._key_names = [(group, key) if several else key for group, key in problem.names]
        self._writes = [
            [(WRITE, key, self.value_of[key, at], 1) for key in writes]
            for at, writes in enumerate(problem.writes)
        ]

    def columns(self, pinned: Mapping[int, int]) -> TxnColumns:
        """With these looks (by number) at the versions of these writers."""
        reads: dict[int, list[tuple[int, int, int, int]]] = {}
        for number in sorted(pinned):
            look, writer = self.problem.looks[number], pinned[number]
            row = (READ, look.key, NIL, NULL_READ)
            if writer != BEGINNING:
                row = (READ, look.key, self.value_of[look.key, writer], 1)
            reads.setdefault(look.txn, []).append(row)
        rows: list[tuple[int, int, int, int]] = []
        start = [0]
        for at, writes in enumerate(self._writes):
            rows += reads.get(at, [])
            rows += writes
            start.append(len(rows))
        kind, key, value, known = np.array(rows, np.int64).reshape(-1, 4).T
        return TxnColumns(
            outcome=self._outcome,
            process=self._process,
            invoke_pos=self._invoke,
            complete_pos=self._complete,
            op_index=self._index,
            mop_start=np.array(start, np.int64),
            mop_kind=kind.astype(np.uint8),
            mop_key=key.astype(np.int32),
            mop_value=value.astype(np.int32),
            mop_known=known.astype(np.uint8),
            elem_start=np.zeros(len(rows) + 1, np.int64),
            elem=np.empty(0, np.int32),
            key_names=self._key_names,
            value_names=self._value_names,
        )
