"""Registers, and what is one in other words, straight from a table (`reduction.py` says which)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt

from checkers._columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    I64,
    READ,
    WRITE,
    WRITE_UNKNOWN,
    Columns,
)
from checkers.lin.told import by_key
from checkers.ops.table import FAIL, OK, UNKNOWN, OpTable
from checkers.ops.values import Values

Mask = npt.NDArray[np.bool_]
_TRUE: Final = 1
"""The value of an element that is in a set; 0 where it is not."""


@dataclass
class _Rows:
    """Per operation: what it is to a register. A `kind` that is negative is none of a register's,
    and then the table is left to whoever reads operations one by one."""

    kind: npt.NDArray[np.int64]
    a: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64]
    key: npt.NDArray[Any]
    values: Sequence[Any]
    keys: Callable[[npt.NDArray[Any]], Sequence[Any]]


class _Elements(Sequence[Any]):
    """`[key, element]` of the registers of sets, made when one is asked for."""

    def __init__(self, pairs: I64, values: Values) -> None:
        self._pairs, self._values = pairs, values

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        key, element = divmod(int(self._pairs[index]), len(self._values))
        return [self._values[key], self._values[element]]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


class _Scalars(Sequence[Any]):
    """A table's values, and further ones."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._more: dict[tuple[type, Any], int] = {}

    def __len__(self) -> int:
        return len(self._values) + len(self._more)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        here = len(self._values)
        return self._values[index] if index < here else list(self._more)[index - here][1]

    def id_of(self, value: Any) -> int:
        """The number of a scalar, made on first sight; -1 for what is none."""
        found = -1 if isinstance(value, list) else self._values.id_of(value)
        if found >= 0 or isinstance(value, list | dict):
            return found
        plain = int(value) if isinstance(value, float) and value.is_integer() else value
        return self._more.setdefault((type(plain), plain), len(self))


def _boolean(table: OpTable, rows: Mask) -> tuple[Mask, Mask] | None:
    """Which of these rows have the output true, and false; None where one has another output."""
    true = rows & (table.output == table.values.id_of(True))
    false = rows & (table.output == table.values.id_of(False))
    return (true, false) if bool((true | false)[rows].all()) else None


def _swaps(table: OpTable, rows: _Rows, scalars: _Scalars, cas: Mask) -> bool:
    """Fills in compare-and-set operations; False where one is malformed."""
    answered = _boolean(table, cas & (table.outcome == OK))
    inputs = np.unique(table.input[cas])
    pairs = np.zeros((len(inputs), 2), np.int64)
    for row, number in enumerate(inputs.tolist()):
        pair = table.values[number]
        if not isinstance(pair, list) or len(pair) != 2:
            return False
        pairs[row] = [scalars.id_of(value) for value in pair]
    if answered is None or (pairs < 0).any():
        return False
    at = np.searchsorted(inputs, table.input[cas])
    rows.a[cas], rows.b[cas] = pairs[at, 0], pairs[at, 1]
    true, false = answered
    rows.kind[true], rows.kind[false] = CAS_TRUE, CAS_FALSE
    rows.kind[cas & (table.outcome == UNKNOWN)] = CAS_UNKNOWN
    return True


def _named(table: OpTable, reads: str, writes: str, clears: str | None) -> _Rows | None:
    """Registers whose operations are called so."""
    read, cas = table.is_type(reads), table.is_type("cas")
    clear = table.is_type(clears) if clears else np.zeros(len(table), np.bool_)
    write = table.is_type(writes) | clear
    scalars = _Scalars(table.values)
    rows = _Rows(
        kind=np.full(len(table), -1),
        a=np.where(read, table.output, np.where(clear, 0, table.input)).astype(np.int64),
        b=np.zeros(len(table), np.int64),
        key=table.key,
        values=scalars,
        keys=lambda keys: [table.values[k] for k in keys.tolist()],
    )
    rows.kind[read] = READ
    rows.kind[write] = np.where(table.outcome == UNKNOWN, WRITE_UNKNOWN, WRITE)[write]
    asked = cas & (table.outcome != FAIL)
    rows.kind[cas] = CAS_FALSE
    return rows if not asked.any() or _swaps(table, rows, scalars, asked) else None


def _elements(table: OpTable) -> _Rows | None:
    """Elements of sets, each a register: true where it is there."""
    adds, removes = table.is_type("add"), table.is_type("remove")
    looks = table.is_type("contains")
    told = table.output != 0
    answered = _boolean(table, told)
    silent = looks & (table.outcome == OK) & ~told
    if answered is None or silent.any() or not table.input.all():
        return None
    true, false = answered
    rows = _Rows(
        kind=np.full(len(table), -1),
        a=np.where(adds, _TRUE, 0),
        b=np.zeros(len(table), np.int64),
        key=table.key.astype(np.int64) * len(table.values) + table.input,
        values=[None, True],
        keys=lambda pairs: _Elements(pairs, table.values),
    )
    changes = adds | removes
    rows.kind[changes] = np.where(table.outcome == UNKNOWN, WRITE_UNKNOWN, WRITE)[changes]
    rows.kind[changes & true] = CAS_TRUE
    swapped = changes & true
    rows.a[swapped], rows.b[swapped] = np.where(adds, 0, _TRUE)[swapped], rows.a[swapped]
    rows.kind[(changes & false) | looks] = READ
    rows.a[looks] = np.where(true, _TRUE, 0)[looks]
    return rows


_READERS: Final[dict[str, Callable[[OpTable], _Rows | None]]] = {
    "register": lambda table: _named(table, "read", "write", None),
    "cas-register": lambda table: _named(table, "read", "write", None),
    "multi-register": lambda table: _named(table, "read", "write", None),
    "kv-map": lambda table: _named(table, "get", "put", "delete"),
    "set": _elements,
}


def columns_of(model: str, table: OpTable) -> Columns | None:
    """The columns of a table under a model; None where it has to be read otherwise."""
    reader = _READERS.get(model)
    rows = None if reader is None else reader(table)
    swaps = (CAS_TRUE, CAS_FALSE, CAS_UNKNOWN)
    if rows is None or (rows.kind < 0).any():
        return None
    if model == "register" and np.isin(rows.kind, swaps).any():
        return None
    failed = table.outcome == FAIL
    looks = (rows.kind == READ) & (table.outcome == UNKNOWN)
    kept, offsets, keys = by_key(rows.key, ~failed & ~looks)
    excluded = {"fail": int(failed.sum()), "unknown-read": int(looks.sum())}
    return Columns(
        kind=rows.kind[kept].astype(np.uint8),
        a=rows.a[kept].astype(np.int32),
        b=rows.b[kept].astype(np.int32),
        invoke=table.invoke[kept],
        complete=table.complete[kept],
        position=kept,
        offsets=offsets,
        keys=rows.keys(keys),
        values=rows.values,
        excluded={why: n for why, n in excluded.items() if n},
        blocked={},
    )
