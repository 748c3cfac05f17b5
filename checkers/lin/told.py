"""Columns of containers and logs straight from a table: what each operation does to which value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from checkers._columns import I32, I64, U8
from checkers.lin.encode import Coded
from checkers.lin.model import Call, Model, whole
from checkers.ops.table import FAIL, OK, OpTable


class Calls(Sequence[Call]):
    """The call of each operation, read when it is asked for."""

    def __init__(self, model: Model, table: OpTable) -> None:
        self._model, self._table = model, table

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> Call: ...
    @overload
    def __getitem__(self, index: slice) -> list[Call]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        op = whole(self._table[index])
        call = self._model.read(op, bool(self._table.outcome[index] == OK))
        assert isinstance(call, Call), call
        return call


def by_key(key: I32, keep: npt.NDArray[np.bool_]) -> tuple[I64, I64, I32]:
    """Rows that are kept, key after key in their order; where each key's begin, with the end; and
    the keys, those without a row included."""
    if not len(key) or bool((key == key[0]).all()):
        rows = np.flatnonzero(keep)
        return rows, np.array([0, len(rows)][: 1 + (len(key) > 0)], np.int64), key[:1]
    order = np.argsort(key, kind="stable")
    grouped = key[order]
    first = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    kept = np.r_[0, np.cumsum(keep[order])]
    offsets = np.r_[kept[first], kept[-1]].astype(np.int64)
    return order[keep[order]], offsets, grouped[first]


def coded_of(model: Model, table: OpTable) -> Coded | None:
    """The columns of a table; None where the model does not read tables, or not this one."""
    told = model.tabled(table)
    if told is None:
        return None
    rows, offsets, keys = by_key(table.key, told.keep)
    pure: U8 = told.pure.astype(np.uint8)
    excluded = {"fail": int((table.outcome == FAIL).sum()), **told.excluded}
    return Coded(
        model=model,
        classes=rows.astype(np.int32),
        invoke=table.invoke[rows],
        complete=table.complete[rows],
        position=rows.astype(np.int64),
        offsets=offsets,
        keys=[table.values[k] for k in keys.tolist()],
        calls=Calls(model, table),
        pure=pure,
        excluded={why: n for why, n in excluded.items() if n},
        blocked={},
        told={name: column[rows] for name, column in told.what.items()},
        tells=told.tells,
    )
