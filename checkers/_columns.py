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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers import _core
from dstest.core.history import History
from dstest.core.op import Op

_FAILED, _UNKNOWN_READ, _LEFT = 250, 251, 255
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
        self.ids: dict[Any, int] = {None: 0}
        self.values: list[Any] = [None]

    def id_of(self, value: Any) -> int:
        """The id of `value`, made on first sight."""
        identity = _identity(value)
        found = self.ids.get(identity)
        if found is None:
            found = self.ids[identity] = len(self.values)
            self.values.append(value)
        return found

    def ids_of_plain(self, values: Iterable[Any]) -> list[int] | None:
        """Ids of values that are all `int` or `str`; None where one was not seen before."""
        try:
            return list(map(self.ids.__getitem__, values))
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


def _why_not(op: Op, model: str) -> str:
    """Why an operation that did not fail is no operation of a register."""
    name = f"op {op.op_id} ({op.op_type})"
    if op.op_type not in ("read", "write") and (op.op_type != "cas" or model != "cas-register"):
        return f"{name} is not an operation of model {model}"
    if op.op_type == "cas" and (not isinstance(op.input, list | tuple) or len(op.input) != 2):
        return f"{name} has no [from, to] as its input"
    unknown = op.timeout_marker or op.complete_ts is None
    if op.op_type == "cas" and not unknown and not isinstance(op.output, bool):
        return f"{name} is ok but its output is neither true nor false"
    return f"{name} has impossible times"


def encode(history: History, model: str) -> Columns:
    """Columns of a history under `register` or `cas-register`."""
    values, keys = Interner(), Interner()
    ops = history.ops if isinstance(history.ops, list) else list(history.ops)
    n = len(ops)
    kind = np.empty(n, np.uint8)
    number, a, b = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    invoke, complete = np.empty(n, np.int64), np.empty(n, np.int64)
    _core.encode_registers(
        ops, keys.ids, keys.id_of, values.ids, values.id_of, number, kind, a, b, invoke,
        complete, model == "cas-register",
    )  # fmt: skip
    excluded: dict[str, int] = {}
    blocked: dict[int, str] = {}
    seen = list(range(0 if 0 in number else 1, len(keys.values)))
    if n > 0 and kind.max() >= _FAILED:
        for code, why in ((_FAILED, "fail"), (_UNKNOWN_READ, "unknown-read")):
            if count := int((kind == code).sum()):
                excluded[why] = count
        blocked = _wrong(ops, np.flatnonzero(kind == _LEFT), number, seen, model)
    rows = np.flatnonzero(kind < _FAILED)
    if blocked:
        rows = rows[~np.isin(number[rows], list(blocked))]
    key, begun = number[rows], invoke[rows]
    ahead = key[1:] - key[:-1]
    if not ((ahead > 0) | ((ahead == 0) & (begun[1:] >= begun[:-1]))).all():
        rows = rows[np.lexsort((rows, begun, key))]
    shift = seen[0] if seen else 0
    return Columns(
        kind=kind[rows],
        a=a[rows],
        b=b[rows],
        invoke=invoke[rows],
        complete=complete[rows],
        position=rows,
        offsets=np.searchsorted(number[rows], np.arange(shift, shift + len(seen) + 1)),
        keys=[keys.values[k] for k in seen],
        values=values.values,
        excluded=excluded,
        blocked={k - shift: why for k, why in blocked.items()},
    )


def _wrong(
    ops: Sequence[Op], places: I64, number: I32, seen: list[int], model: str
) -> dict[int, str]:
    """Why the keys of these operations cannot be decided."""
    blocked: dict[int, str] = {}
    foreign: str | None = None
    for place in places.tolist():
        op, key = ops[place], int(number[place])
        why = _why_not(op, model)
        blocked.setdefault(key, why)
        if op.key is None and op.op_type not in ("read", "write", "cas"):
            foreign = why
    if foreign is not None and len(seen) > 1:
        # it names no key, so it may have touched any
        return dict.fromkeys(seen, foreign)
    return blocked
