"""Values: register, map of registers, registers changed together, counter.

    register, cas-register   read; write v; cas [from, to] -> true, or false where it found another
    kv-map           get -> value or null; put v; delete; append v (strings: adds at the end of the
                     value, null counts as ""); cas [from, to] -> true or false
    multi-register   read, write and cas of the register `key`; txn [[f, register, value], ...]
                     with f one of r, read, w, write -> the same with what was read, all at once
    counter          inc d, dec d (null = 1) -> null or the value afterwards; read -> value

Registers start with null, counters with 0.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Final

from checkers.lin.model import Affine, Call, Model, Value, freeze
from dstest.core.op import Op

_UNTOLD: Final = ("untold",)
"""Not what `freeze` makes of any value."""

_BIG: Final = 2**40
_ALL: Final = (-(2**63), 2**63 - 1)


def _cas(op: Op, known: bool) -> Call | str:
    if not isinstance(op.input, list | tuple) or len(op.input) != 2:
        return "it has no [from, to] as its input"
    if known and not isinstance(op.output, bool):
        return "it is ok but its output is neither true nor false"
    return Call(
        "cas", (freeze(op.input[0]), freeze(op.input[1])), op.output if known else None, known
    )


def _cas_step(state: Value, call: Call) -> Iterable[Value]:
    old, new = call.input
    if call.known and call.output is False:
        return (state,) if state != old else ()
    return (new,) if state == old else ()


class Register(Model):
    """State = the value."""

    name = "cas-register"
    op_types: tuple[str, ...] = ("read", "write", "cas")
    starts = "a value"

    def state_of(self, value: Any) -> Any:
        return freeze(value)

    def read(self, op: Op, known: bool) -> Call | str:
        return _cas(op, known) if op.op_type == "cas" else super().read(op, known)

    def pure(self, call: Call) -> bool:
        return call.op_type == "read" or (call.op_type == "cas" and call.output is False)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        if call.op_type == "cas":
            return _cas_step(state, call)
        if call.op_type == "write":
            return (call.input,)
        return (state,) if not call.known or call.output == state else ()


class KvMap(Model):
    """One key of a map; state = its value."""

    name = "kv-map"
    op_types = ("get", "put", "delete", "append", "cas")
    starts = "a value"

    def state_of(self, value: Any) -> Any:
        return freeze(value)

    def __init__(self) -> None:
        self._told: list[str] | None = None

    def among(self, calls: Sequence[Call]) -> Model:
        told = [call.output for call in calls if call.op_type == "get" and call.known]
        told += [call.input[0] for call in calls if call.op_type == "cas"]
        model = copy(self)
        model._told = sorted({value for value in told if isinstance(value, str)})
        return model

    def _grown(self, value: str) -> Value:
        """A string that append made; all that no call asks for, nor for one that begins so, are
        one."""
        if self._told is None:
            return value
        at = bisect.bisect_left(self._told, value)
        there = at < len(self._told) and self._told[at].startswith(value)
        return value if there else _UNTOLD

    def read(self, op: Op, known: bool) -> Call | str:
        if op.op_type == "cas":
            return _cas(op, known)
        if op.op_type == "append" and not isinstance(op.input, str):
            return "its input is no string"
        if op.op_type == "get":
            return Call("get", None, freeze(op.output) if known else None, known)
        return Call(op.op_type, freeze(op.input), None, known)

    def pure(self, call: Call) -> bool:
        return call.op_type == "get" or (call.op_type == "cas" and call.output is False)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        if call.op_type == "get":
            return (state,) if not call.known or call.output == state else ()
        if call.op_type == "cas":
            return _cas_step(state, call)
        if call.op_type == "append":
            if state == _UNTOLD:
                return (state,)
            if state is not None and not isinstance(state, str):
                return ()
            return (self._grown((state or "") + call.input),)
        return (None if call.op_type == "delete" else call.input,)

    def show(self, state: Any) -> str:
        return "a value that nobody saw" if state == _UNTOLD else super().show(state)


def micro_ops(value: Any) -> list[tuple[str, Any, Any]] | None:
    """`[f, register, value]` each, f "r" or "w"; None where that is not what it is."""
    if not isinstance(value, list | tuple):
        return None
    rows = []
    for row in value:
        if not isinstance(row, list | tuple) or len(row) != 3 or not isinstance(row[0], str):
            return None
        if row[0] not in ("r", "read", "w", "write"):
            return None
        rows.append((row[0][0], freeze(row[1]), freeze(row[2])))
    return rows


class MultiRegister(Model):
    """State = `(register, value)` of those that are not null, as a frozenset."""

    name = "multi-register"
    op_types = ("read", "write", "cas", "txn")
    initial = frozenset()
    starts = "a value"

    def state_of(self, value: Any) -> Any:
        """Of `(register, value)` pairs."""
        return frozenset((freeze(k), freeze(v)) for k, v in value if v is not None)

    def read(self, op: Op, known: bool) -> Call | str:
        key = freeze(op.key)
        if op.op_type != "txn":
            call = Register().read(op, known)
            if isinstance(call, str):
                return call
            asked = call.output if op.op_type == "read" else call.input
            return Call(op.op_type, (key, asked), call.output, known)
        told = micro_ops(op.output if known else op.input)
        asked = micro_ops(op.input)
        if told is None or asked is None or [m[:2] for m in told] != [m[:2] for m in asked]:
            return "its micro-operations cannot be read"
        if any(t != a for t, a in zip(told, asked, strict=True) if a[0] == "w"):
            return "its output has other writes than its input"
        return Call("txn", tuple(told), None, known)

    def pure(self, call: Call) -> bool:
        if call.op_type == "txn":
            return all(f == "r" for f, _, _ in call.input)
        return call.op_type == "read" or (call.op_type == "cas" and call.output is False)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        now = dict(state)
        if call.op_type == "txn":
            for f, key, value in call.input:
                if f == "w":
                    now[key] = value
                elif call.known and now.get(key) != value:
                    return ()
        else:
            key, asked = call.input
            given = Call(call.op_type, asked, call.output, call.known)
            after = tuple(Register().step(now.get(key), given))
            if not after:
                return ()
            now[key] = after[0]
        return (frozenset((k, v) for k, v in now.items() if v is not None),)

    def show(self, state: Any) -> str:
        rows = sorted(state, key=repr)
        return ", ".join(f"{k} = {v}" for k, v in rows) if rows else "all null"


class Counter(Model):
    """State = the value."""

    name = "counter"
    op_types = ("inc", "dec", "read")
    initial = 0
    starts = "an integer"

    def state_of(self, value: Any) -> Any:
        if type(value) is not int:
            raise ValueError("it is no integer")
        if abs(value) >= _BIG:
            raise ValueError(f"it is not between {-_BIG} and {_BIG}")
        return value

    def read(self, op: Op, known: bool) -> Call | str:
        numbers = [] if op.output is None or not known else [op.output]
        if op.op_type == "read" and known and op.output is None:
            return "its output is no integer"
        if op.op_type != "read":
            numbers.append(1 if op.input is None else op.input)
        if not all(type(n) is int and abs(n) < _BIG for n in numbers):
            return "it holds something other than integers"
        if op.op_type == "read":
            return Call("read", None, op.output if known else None, known)
        delta = numbers[-1] if op.op_type == "inc" else -numbers[-1]
        return Call("inc", delta, op.output if known else None, known)

    def pure(self, call: Call) -> bool:
        return call.op_type == "read" or call.input == 0

    def affine(self, call: Call) -> Affine:
        delta = 0 if call.op_type == "read" else call.input
        if not call.known or call.output is None:
            return Affine(*_ALL, delta)
        return Affine(call.output - delta, call.output - delta, delta)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        low, high, delta = self.affine(call)
        return (state + delta,) if low <= state <= high else ()
