"""Models: what an object does when its operations come one at a time. Here are the base, registers,
maps and the counter; a model of one's own is a small class, say a counter that saturates:

    class Saturating(Model):
        name = "saturating"
        op_types = ("inc", "read")
        initial = 0

        def step(self, state, call):
            if call.op_type == "inc":
                return (min(state + 1, 9),)
            return (state,) if call.output == state else ()

        def pure(self, call):
            return call.op_type == "read"

    LinearizableModel(Saturating()).check(history, "saturating", Budget())

States are hashable and compared by equality; the search numbers them and remembers each step, so
`step` is called once per state and kind of call. It must be a function of its arguments alone.

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
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from dstest.core.op import Op

if TYPE_CHECKING:
    from checkers.ops.table import OpTable


Value = Hashable
"""A JSON value as `freeze` leaves it."""

FIRST_STEPS: Final = 4_000_000
"""Steps that each key gets before any key gets more, so that one hard key cannot starve the
rest: some tens of milliseconds."""

ANOMALIES_MAX: Final = 16
"""Illegal keys that get a witness of their own; the others are counted in the reason."""

WITNESS_TIME_NS: Final = 10_000_000_000
"""For reducing one witness; spent only where a reduction is hard."""

WITNESSES_TIME_NS: Final = 20_000_000_000
"""For reducing all of them, and never more than the deciding has left of the budget."""

WITNESS_LEAST_NS: Final = 100_000_000
"""For all of them where deciding has left nothing."""

_UNTOLD: Final = ("untold",)
"""Not what `freeze` makes of any value."""

_BIG: Final = 2**40
_ALL: Final = (-(2**63), 2**63 - 1)


class Call(NamedTuple):
    """One operation as a model sees it. `output` counts only where `known` is set: the outcome of
    others is unknown. `process` is None unless the model is `owned`."""

    op_type: str
    input: Any
    output: Any
    known: bool
    process: int | str | None = None


class Affine(NamedTuple):
    """A step on integer states: from `low` to `high`, both included, `delta` is added."""

    low: int
    high: int
    delta: int


def freeze(value: Any) -> Value:
    """A hashable that is equal for equal JSON values only: `true` is not 1, 1.0 is."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        frozen: Value = value
        return frozen
    if kind is bool:
        return ("bool", value)
    if kind is float:
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return ("list", *map(freeze, value))
    return (kind.__name__, json.dumps(value, sort_keys=True, default=repr))


def whole(op: Op) -> Op:
    """The operation with what is a whole float in it as the integer that equals it."""
    if type(op.input) is not float and type(op.output) is not float:
        return op
    return replace(op, input=_whole(op.input), output=_whole(op.output))


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def plain(value: Value) -> Any:
    """What `freeze` was given, or its equal."""
    if isinstance(value, tuple) and value:
        if value[0] == "bool":
            return value[1]
        if value[0] == "list":
            return [plain(v) for v in value[1:]]
    return value


def flag(op: Op, known: bool) -> str | None:
    """Why the output is none of null, true and false; None where it is one."""
    if known and op.output is not None and not isinstance(op.output, bool):
        return "its output is neither null, true nor false"
    return None


Columns = dict[str, npt.NDArray[Any]]
"""One element per operation, by name."""


@dataclass(frozen=True, slots=True)
class TableReading:
    """What a model reads in a whole table. `keep` are the operations that are not left out, and
    `excluded` counts the others; `pure` and `tells` as in `checkers.lin.search.Coded`. The
    model's own columns are in `what`."""

    keep: npt.NDArray[np.bool_]
    pure: npt.NDArray[np.bool_]
    excluded: dict[str, int]
    tells: bool
    what: Columns


class Model:
    """Base of all models. `initial` is the first state, `starts` what it may be given as (see
    `state_of`); empty where it cannot be given."""

    name: str
    op_types: tuple[str, ...]
    initial: Any = None
    starts: str = ""
    owned: bool = False
    """Does it matter which process calls?"""
    shape: str = ""
    """`queue`, `stack`, `priority`, `log` or `lock`: it is one to the letter, so that what is known
    of those decides it or shortens its witnesses. Ask `exact_shape`."""

    def read(self, op: Op, known: bool) -> Call | str:
        """The call that an operation stands for, or why it is malformed."""
        return Call(op.op_type, freeze(op.input), freeze(op.output) if known else None, known)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        """States after `call` in `state`; none where the call cannot have this output then. For a
        call of unknown outcome, those after each outcome it can have."""
        raise NotImplementedError

    def pure(self, call: Call) -> bool:
        """Does it leave every state as it is? Saying no is always right, and slower."""
        del call
        return False

    def anonymous(self, call: Call) -> bool:
        """For a call of unknown outcome by a process that does nothing afterwards: may any other
        such process stand for it? They then are one class for the search."""
        del call
        return False

    def tabled(self, table: OpTable) -> TableReading | None:
        """What `read` says of all operations at once; None: they have to be read one by one. For
        models that are not `owned`."""
        del table
        return None

    def affine(self, call: Call) -> Affine | None:
        """For models whose states are 64-bit integers, `step` in closed form; all or none."""
        del call
        return None

    def state_of(self, value: Any) -> Any:
        """The state that a JSON value tells of. Raises ValueError where it tells of none."""
        raise ValueError(f"model {self.name} always starts as {self.show(self.initial)}")

    @property
    def exact_shape(self) -> str:
        """Its shape. A class has the one that it names itself: what is derived from it may step
        otherwise."""
        return str(vars(type(self)).get("shape", ""))

    @classmethod
    def made(cls, options: Mapping[str, Any]) -> Self:
        """One for a history with these options in its header."""
        del options
        return cls()

    def begun(self, value: Any) -> Self:
        """This model, starting from the state that a JSON value tells of. Raises ValueError."""
        made = copy(self)
        made.initial = self.state_of(value)
        return made

    @property
    def fresh(self) -> bool:
        """Does it start from its usual state?"""
        return bool(self.initial == type(self).initial)

    def among(self, calls: Sequence[Call]) -> Model:
        """A model that may take states for one which none of these calls can tell apart, now or
        later."""
        del calls
        return self

    def show(self, state: Any) -> str:
        """A state in a sentence."""
        return json.dumps(plain(state), default=repr)


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
