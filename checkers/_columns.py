"""A register history as integer columns, grouped by key, for the C core.

    write 5 on "x" by process 1, [100, 200]   ->  kind 1, a 1, b 0, invoke 100, complete 200

Values get small integers in order of appearance; 0 is None, the value of a fresh register. Numbers
are equal as numbers (1 and 1.0), `true` is not 1, and lists and objects are equal when their
canonical JSON is. Operations that a sound rule leaves out are counted by reason: `fail` (provably
no effect) and `unknown-read` (told nobody anything). A key that holds an operation which cannot be
read as a register operation is blocked with a reason: leaving out just that operation could hide
the write that explains a later read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dstest.core.history import History
from dstest.core.op import Op

__all__ = [
    "CAS_FALSE",
    "CAS_TRUE",
    "CAS_UNKNOWN",
    "NEVER",
    "READ",
    "WRITE",
    "WRITE_UNKNOWN",
    "Columns",
    "Interner",
    "encode",
]

READ, WRITE, CAS_TRUE, CAS_FALSE, WRITE_UNKNOWN, CAS_UNKNOWN = range(6)
NEVER = 2**63 - 1

I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]


def _plain(value: Any) -> Any:
    """`value` with whole floats as integers, all the way down."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return value


def _identity(value: Any) -> Any:
    """A hashable that is equal for equal JSON values only."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is float and value.is_integer():
        return int(value)
    return (kind.__name__, json.dumps(_plain(value), sort_keys=True, default=repr))


class Interner:
    """Small integers for JSON values: `values[ids(v)]` is `v` or its equal."""

    def __init__(self) -> None:
        self._ids: dict[Any, int] = {None: 0}
        self.values: list[Any] = [None]

    def id_of(self, value: Any) -> int:
        """The id of `value`, made on first sight."""
        identity = _identity(value)
        found = self._ids.get(identity)
        if found is None:
            found = self._ids[identity] = len(self.values)
            self.values.append(value)
        return found

    def ids_of_plain(self, values: Iterable[Any]) -> list[int] | None:
        """Ids of values that are all `int` or `str`; None where one was not seen before."""
        try:
            return list(map(self._ids.__getitem__, values))
        except KeyError:
            return None


@dataclass(frozen=True, slots=True)
class Columns:
    """Operations of all keys, key after key, in order of invocation within a key.

    `offsets` has one element more than `keys`; `position` points into `History.ops`. `blocked`
    maps a key's number to the reason why it cannot be decided; its operations are left out.
    """

    kind: U8
    a: I32
    b: I32
    invoke: I64
    complete: I64
    position: I64
    offsets: I64
    keys: Sequence[Any]
    values: Sequence[Any]
    excluded: dict[str, int]
    blocked: dict[int, str]

    def of_key(self, key: int) -> slice:
        """Where the operations of the key with this number are."""
        return slice(int(self.offsets[key]), int(self.offsets[key + 1]))


def _name(op: Op) -> str:
    return f"op {op.op_id} ({op.op_type})"


def _read(op: Op, unknown: bool, model: str, values: Interner) -> tuple[int, int, int] | str:
    """(kind, a, b) of an operation that did not fail, or why it is not a register operation."""
    if op.op_type == "read":
        return READ, values.id_of(op.output), 0
    if op.op_type == "write":
        return (WRITE_UNKNOWN if unknown else WRITE), values.id_of(op.input), 0
    if op.op_type != "cas" or model != "cas-register":
        return f"{_name(op)} is not an operation of model {model}"
    if not isinstance(op.input, list | tuple) or len(op.input) != 2:
        return f"{_name(op)} has no [from, to] as its input"
    if unknown:
        kind = CAS_UNKNOWN
    elif isinstance(op.output, bool):
        kind = CAS_TRUE if op.output else CAS_FALSE
    else:
        return f"{_name(op)} is ok but its output is neither true nor false"
    return kind, values.id_of(op.input[0]), values.id_of(op.input[1])


def encode(history: History, model: str) -> Columns:
    """Columns of a history under `register` or `cas-register`."""
    values, keys = Interner(), Interner()
    excluded: Counter[str] = Counter()
    blocked: dict[int, str] = {}
    foreign: str | None = None
    rows: list[tuple[int, int, int, int, int, int, int]] = []
    for position, op in enumerate(history.ops):
        key = keys.id_of(op.key)
        complete = op.complete_ts
        unknown = op.timeout_marker or complete is None
        known_type = op.op_type in ("read", "write", "cas")
        if known_type and not unknown and op.error is not None:
            excluded["fail"] += 1
            continue
        if unknown and op.op_type == "read":
            excluded["unknown-read"] += 1
            continue
        row = _read(op, unknown, model, values)
        end = NEVER if unknown or complete is None else complete
        if isinstance(row, str):
            blocked.setdefault(key, row)
            if op.key is None and not known_type:
                foreign = row
        elif not -NEVER <= op.invoke_ts <= end or (end >= NEVER and not unknown):
            blocked.setdefault(key, f"{_name(op)} has impossible times")
        else:
            rows.append((key, op.invoke_ts, position, row[0], row[1], row[2], end))
    seen = _keys_seen(history, keys)
    if foreign is not None and len(seen) > 1:
        # it names no key, so it may have touched any
        blocked = dict.fromkeys(seen, foreign)
    return _arrange(rows, keys.values, values.values, dict(excluded), blocked, seen)


def _keys_seen(history: History, keys: Interner) -> list[int]:
    """Numbers of the keys that occur; None has number 0 even where no operation names it."""
    first = 0 if any(op.key is None for op in history.ops) else 1
    return list(range(first, len(keys.values)))


def _arrange(
    rows: list[tuple[int, int, int, int, int, int, int]],
    keys: list[Any],
    values: list[Any],
    excluded: dict[str, int],
    blocked: dict[int, str],
    seen: list[int],
) -> Columns:
    """Rows (key, invoke, position, kind, a, b, complete) as columns, sorted by key and time."""
    table = np.array(rows, dtype=np.int64).reshape(-1, 7)
    if blocked:
        table = table[~np.isin(table[:, 0], list(blocked))]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    shift = seen[0] if seen else 0
    number = table[:, 0] - shift
    return Columns(
        kind=table[:, 3].astype(np.uint8),
        a=table[:, 4].astype(np.int32),
        b=table[:, 5].astype(np.int32),
        invoke=np.ascontiguousarray(table[:, 1]),
        complete=np.ascontiguousarray(table[:, 6]),
        position=np.ascontiguousarray(table[:, 2]),
        offsets=np.searchsorted(number, np.arange(len(seen) + 1)).astype(np.int64),
        keys=[keys[k] for k in seen],
        values=values,
        excluded=excluded,
        blocked={k - shift: why for k, why in blocked.items()},
    )
