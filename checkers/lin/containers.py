"""Containers: FIFO queue, priority queue, stack, deque, set, log.

    fifo-queue       enqueue v; dequeue -> the oldest value, null = it was empty
    priority-queue   insert v (a number); delete-min -> the least value, null = it was empty
    stack            push v; pop -> the newest value, null = it was empty
                     of these three: peek -> what would be taken next, which stays; null = as above
    deque            push-left v, push-right v; pop-left, pop-right -> the value at that end, null =
                     it was empty; peek-left, peek-right
    set              add v, remove v -> null, or true where that changed the set and false where
                     not; contains v -> true or false; read -> all values
    log              append v -> its offset, null = not told; the n-th append gets offset n, from 0.
                     read from an offset (input; null = anywhere) -> [[offset, value], ...], one
                     after the other, as many as it likes; none = there was nothing from there on

Null is no value. All start empty.
"""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers.lin.model import Call, Columns, Model, TableReading, flag, freeze, plain, whole
from checkers.ops.table import FAIL, OK, UNKNOWN, OpTable
from dstest.core.op import Op

PUT, TAKE, NOTHING, MAYBE, LOOK = range(5)
"""What an operation does to a value; MAYBE = a take of unknown outcome, LOOK = a peek."""

_SHOWN_MAX = 6
_OFFSET_END = 2**62


def _list(values: Iterable[Any]) -> str:
    items = [json.dumps(plain(v), default=repr) for v in values]
    if len(items) > _SHOWN_MAX:
        left = f"{len(items) - _SHOWN_MAX} more"
        items = [*items[:_SHOWN_MAX], left]
    return f"[{', '.join(items)}]"


def values_of(value: Any) -> tuple[Any, ...]:
    """The values that a container starts with. Raises ValueError for what is no list of values."""
    if not isinstance(value, list | tuple):
        raise ValueError("it is no list")
    if any(v is None for v in value):
        raise ValueError("null is no value")
    return tuple(map(freeze, value))


def _is_offset(value: Any) -> bool:
    number = type(value) is int or (type(value) is float and value.is_integer())
    return number and 0 <= value < _OFFSET_END


class Container(Model):
    """What can be put in and taken out; states are tuples."""

    initial: Any = ()
    starts = "a list, what was put in first before the others"
    put: str
    take: str

    def state_of(self, value: Any) -> Any:
        return values_of(value)

    def first(self, state: Any) -> int:
        """Where in the state is what would be taken next?"""
        raise NotImplementedError

    def read(self, op: Op, known: bool) -> Call | str:
        if op.op_type in (self.take, "peek"):
            return Call(op.op_type, None, freeze(op.output) if known else None, known)
        if op.input is None:
            return "null is no value"
        return Call(self.put, freeze(op.input), None, known)

    def tabled(self, table: OpTable) -> TableReading | None:
        put, take = table.is_type(self.put), table.is_type(self.take)
        keep = table.outcome != FAIL
        if not (put | take).all() or (keep & put & (table.input == 0)).any():
            return None
        known, nothing = table.outcome == OK, take & (table.output == 0)
        value = self.ranked(table, np.where(put, table.input, table.output))
        if value is None:
            return None
        kind = np.where(put, PUT, np.where(known, np.where(nothing, NOTHING, TAKE), MAYBE))
        what: Columns = {"kind": kind.astype(np.uint8), "value": value.astype(np.int32)}
        return TableReading(keep, keep & known & nothing, {}, bool((take & known).any()), what)

    def ranked(self, table: OpTable, value: npt.NDArray[np.int32]) -> npt.NDArray[Any] | None:
        """Numbers of values as the model orders them; None where it does not take them."""
        del table
        return value

    def pure(self, call: Call) -> bool:
        nothing = call.op_type == self.take and call.known and call.output is None
        return call.op_type == "peek" or nothing

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        if call.op_type == self.put:
            return (self.with_(state, call.input),)
        there = state[self.first(state)] if state else None
        if call.known and call.output != there:
            return ()
        if call.op_type == "peek" or not state:
            return (state,)
        at = self.first(state)
        return ((*state[:at], *state[at:][1:]),)

    def with_(self, state: Any, value: Any) -> Any:
        """The state after a value was put in."""
        return (*state, value)

    def show(self, state: Any) -> str:
        return _list(state) if state else "empty"


class FifoQueue(Container):
    """State = values, the oldest first."""

    name = "fifo-queue"
    shape = "queue"
    op_types = ("enqueue", "dequeue", "peek")
    put, take, _ = op_types

    def first(self, state: Any) -> int:
        return 0


class Stack(Container):
    """State = values, the newest last."""

    name = "stack"
    shape = "stack"
    op_types = ("push", "pop", "peek")
    put, take, _ = op_types

    def first(self, state: Any) -> int:
        return len(state) - 1


class Deque(Model):
    """State = values, the leftmost first."""

    name = "deque"
    op_types = ("push-left", "push-right", "pop-left", "pop-right", "peek-left", "peek-right")
    initial = ()
    starts = "a list, the leftmost first"

    def state_of(self, value: Any) -> Any:
        return values_of(value)

    def read(self, op: Op, known: bool) -> Call | str:
        if not op.op_type.startswith("push"):
            return Call(op.op_type, None, freeze(op.output) if known else None, known)
        if op.input is None:
            return "null is no value"
        return Call(op.op_type, freeze(op.input), None, known)

    def pure(self, call: Call) -> bool:
        nothing = call.op_type.startswith("pop") and call.known and call.output is None
        return call.op_type.startswith("peek") or nothing

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        what, end = call.op_type.split("-")
        if what == "push":
            return ((call.input, *state) if end == "left" else (*state, call.input),)
        there = (state[0] if end == "left" else state[-1]) if state else None
        if call.known and call.output != there:
            return ()
        if what == "peek" or not state:
            return (state,)
        return (state[1:] if end == "left" else state[:-1],)

    def show(self, state: Any) -> str:
        return _list(state) if state else "empty"


class PriorityQueue(Container):
    """State = values, the least first."""

    name = "priority-queue"
    shape = "priority"
    op_types = ("insert", "delete-min", "peek")
    put, take, _ = op_types
    starts = "a list of numbers"

    def state_of(self, value: Any) -> Any:
        values = values_of(value)
        if not all(type(v) is int or (type(v) is float and math.isfinite(v)) for v in values):
            raise ValueError("it holds something other than numbers")
        return tuple(sorted(values))

    def first(self, state: Any) -> int:
        return 0

    def read(self, op: Op, known: bool) -> Call | str:
        value = op.input if op.op_type == "insert" else op.output if known else None
        number = type(value) is int or (type(value) is float and math.isfinite(value))
        if not number and (op.op_type == "insert" or value is not None):
            return "its value is no number"
        return super().read(op, known)

    def ranked(self, table: OpTable, value: npt.NDArray[np.int32]) -> npt.NDArray[Any] | None:
        some = value != 0
        numbers = table.values.integers(value[some])
        if numbers is None:
            return None
        rank = np.zeros(len(value), np.int64)
        rank[some] = np.unique(numbers, return_inverse=True)[1] + 1
        return rank

    def with_(self, state: Any, value: Any) -> Any:
        at = bisect.bisect(state, value)
        return (*state[:at], value, *state[at:])


class Set(Model):
    """State = the values, as a frozenset."""

    name = "set"
    op_types = ("add", "remove", "contains", "read")
    initial = frozenset()
    starts = "a list of its values"

    def state_of(self, value: Any) -> Any:
        return frozenset(values_of(value))

    def read(self, op: Op, known: bool) -> Call | str:
        if op.op_type == "read":
            if known and not isinstance(op.output, list | tuple):
                return "its output is no list"
            return Call("read", None, frozenset(map(freeze, op.output)) if known else None, known)
        wrong = flag(op, known)
        if wrong is not None or (op.op_type == "contains" and known and op.output is None):
            return wrong or "its output is neither true nor false"
        if op.input is None:
            return "null is no value"
        return Call(op.op_type, freeze(op.input), op.output if known else None, known)

    def pure(self, call: Call) -> bool:
        return call.op_type in ("contains", "read") or (call.known and call.output is False)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        if call.op_type == "read":
            return (state,) if not call.known or call.output == state else ()
        there = call.input in state
        told = call.output if call.known else None
        if call.op_type == "contains":
            return (state,) if told is None or told == there else ()
        adds = call.op_type == "add"
        if told is not None and told != (there != adds):
            return ()
        return (state | {call.input} if adds else state - {call.input},)

    def show(self, state: Any) -> str:
        return _list(sorted(state, key=repr)) if state else "empty"


class Log(Model):
    """State = the values in the order of their offsets."""

    name = "log"
    shape = "log"
    op_types = ("append", "read")
    initial = ()
    starts = "a list, the value at offset 0 first"

    def state_of(self, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise ValueError("it is no list")
        return tuple(map(freeze, value))

    def read(self, op: Op, known: bool) -> Call | str:
        if op.op_type == "append":
            if known and op.output is not None and not _is_offset(op.output):
                return "its output is neither null nor an offset"
            return Call("append", freeze(op.input), op.output if known else None, known)
        if op.input is not None and not _is_offset(op.input):
            return "its input is neither null nor an offset"
        if not known:
            return Call("read", op.input, None, known)
        rows = op.output
        if not isinstance(rows, list | tuple) or not all(
            isinstance(r, list | tuple) and len(r) == 2 and _is_offset(r[0]) for r in rows
        ):
            return "its output is no list of [offset, value]"
        return Call("read", op.input, tuple((int(o), freeze(v)) for o, v in rows), known)

    def tabled(self, table: OpTable) -> TableReading | None:
        append, read = table.is_type("append"), table.is_type("read")
        known, failed = table.outcome == OK, table.outcome == FAIL
        told = np.full(len(table), -1, np.int64)
        placed = append & known & (table.output != 0)
        offsets = table.values.integers(table.output[placed])
        if not (append | read).all() or offsets is None:
            return None
        if ((offsets < 0) | (offsets >= _OFFSET_END)).any() or any(
            isinstance(self.read(whole(table[row]), known=bool(known[row])), str)
            for row in np.flatnonzero(read & ~failed).tolist()
        ):
            return None
        told[placed] = offsets
        looks = read & (table.outcome == UNKNOWN)
        what: Columns = {"read": read, "offset": told, "value": table.input}
        tells = bool((placed | (read & known)).any())
        excluded = {"unknown-read": int(looks.sum())}
        return TableReading(~failed & ~looks, read, excluded, tells, what)

    def pure(self, call: Call) -> bool:
        return call.op_type == "read"

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        if call.op_type == "append":
            fits = not call.known or call.output is None or call.output == len(state)
            return ((*state, call.input),) if fits else ()
        if not call.known:
            return (state,)
        rows, begin = call.output, call.input
        if not rows:
            return (state,) if begin is None or len(state) <= begin else ()
        first = rows[0][0] if begin is None else begin
        told = all(o == first + i for i, (o, _) in enumerate(rows))
        there = told and first + len(rows) <= len(state)
        return (state,) if there and all(state[o] == v for o, v in rows) else ()

    def show(self, state: Any) -> str:
        if not state:
            return "empty"
        end = len(state) - 1
        return f"{len(state)} values, {json.dumps(plain(state[-1]), default=repr)} at offset {end}"
