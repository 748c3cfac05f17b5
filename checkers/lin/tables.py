"""Registers, and what is one in other words, operation by operation or straight from a table.

    set             a register per element: add v = write true, or cas [null, true] where it told
                    that it changed the set; contains = read. Not with reads of the whole set
    kv-map          a register per key: get = read, put = write, delete = write null. Not append
    multi-register  a register per key. Not with txn

An add that changed nothing found the element there, and so on: nothing is lost either way. A
history with an operation that is no register's is left to the search of csrc/aut/, for which the
columns of containers and logs are read from the table as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from checkers._witness import REGISTER, Words
from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    I32,
    I64,
    READ,
    U8,
    WRITE,
    WRITE_UNKNOWN,
    Columns,
)
from checkers.lin.model import Call, Model, whole
from checkers.lin.search import Coded
from checkers.ops.table import FAIL, OK, UNKNOWN, OpTable, Values
from dstest.core.history import History
from dstest.core.op import Op

Mask = npt.NDArray[np.bool_]
_TRUE: Final = 1
"""The value of an element that is in a set; 0 where it is not."""

WORDS = {
    "set": Words("the set", "", "not hold the element", "hold the element"),
    "kv-map": Words("the key", "hold"),
    "multi-register": REGISTER,
}


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


def _swap(op: Op, old: Any, new: Any) -> Op:
    """A cas; what was not told succeeded."""
    known = not op.timeout_marker and op.complete_ts is not None and op.error is None
    output = True if known and op.output is None else op.output
    return replace(op, op_type="cas", input=[old, new], output=output)


def _element(op: Op) -> Op | None:
    key = [op.key, op.input]
    known = not op.timeout_marker and op.complete_ts is not None and op.error is None
    told = op.output if known else None
    if op.input is None or not (told is None or isinstance(told, bool)):
        return None
    if op.op_type == "contains":
        if known and told is None:
            return None
        return replace(op, op_type="read", key=key, input=None, output=True if told else None)
    if op.op_type not in ("add", "remove"):
        return None
    old, new = (None, True) if op.op_type == "add" else (True, None)
    if told is None:
        return replace(op, op_type="write", key=key, input=new, output=None)
    if told:
        return replace(_swap(op, old, new), key=key)
    return replace(op, op_type="read", key=key, input=None, output=new)


def _kv(op: Op) -> Op | None:
    if op.op_type == "get":
        return replace(op, op_type="read", input=None)
    if op.op_type in ("put", "delete"):
        value = op.input if op.op_type == "put" else None
        return replace(op, op_type="write", input=value, output=None)
    return op if op.op_type == "cas" else None


def _same(op: Op) -> Op | None:
    return op if op.op_type in ("read", "write", "cas") else None


_REDUCED_READERS = {"set": _element, "kv-map": _kv, "multi-register": _same}


def to_register(model: str, history: History) -> History | None:
    """The same history of registers, one operation for each; None where some operation is none of
    a register's, or malformed."""
    reader = _REDUCED_READERS.get(model)
    if reader is None:
        return None
    ops = [reader(op) for op in history.ops]
    return replace(history, ops=ops) if all(op is not None for op in ops) else None
