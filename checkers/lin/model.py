"""Models: what an object does when its operations come one at a time.

A model of one's own is a small class. A bounded counter that saturates:

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
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from dstest.core.op import Op

if TYPE_CHECKING:
    from checkers.ops.table import OpTable

Value = Hashable
"""A JSON value as `freeze` leaves it."""


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
class Told:
    """What a model reads in a whole table. `keep` are the operations that are not left out, and
    `excluded` counts the others; `pure` and `tells` as in `checkers.lin.encode.Coded`. The
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

    def tabled(self, table: OpTable) -> Told | None:
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
