"""The models by name, and those of locks. `semaphore` needs the option `permits` (the history's
header has it).

    acquire    took the lock; output null or true, for a fencing lock the token; false = refused,
               which says that the lock was not to be had at that instant
    release    gave it back; output null or true; false = refused: the caller did not hold it

The owner of a lock is the process that calls, unless every operation names one, as those of
Jepsen's clients do: as text or in `{:client .. :fence 7}`, where a fence is the token
(`with_owners`). A semaphore has no owner: `input` is the number of permits (null = 1), anybody may
give permits back, and there are never more than its total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from msgspec.structs import replace

from checkers.lin.containers import Deque, FifoQueue, Log, PriorityQueue, Set, Stack
from checkers.lin.model import Affine, Call, Counter, KvMap, Model, MultiRegister, Register, flag
from dstest.core.errors import ConfigError
from dstest.core.op import Op, Outcome

_NO_TOKEN: Final = -(2**62)

_OWNERS: Final = ("client", "owner")
_TOKENS: Final = ("fence", "token")

REGISTERS: Final = ("register", "cas-register")


def _owner(value: Any) -> Any:
    """Whom a value of an operation names; None where it names nobody."""
    if isinstance(value, dict):
        value = next((value[name] for name in _OWNERS if value.get(name) is not None), None)
    return value if isinstance(value, str) else None


def _with_token(op: Op, fenced: bool) -> Op:
    """The operation with the output that the models know."""
    output = op.output
    if isinstance(output, dict):
        tokens = (output[name] for name in _TOKENS if name in output)
        return replace(op, output=next(tokens, None) if fenced else None)
    repeated = type(output) is not bool and output == op.input
    return replace(op, output=None) if repeated or isinstance(output, str) else op


def with_owners(ops: Iterable[Op], *, fenced: bool) -> list[Op]:
    """Jepsen's locks as ours; `fenced`: what is told of tokens counts."""
    known = [op for op in ops if op.op_type in ("acquire", "release")]
    owners = {id(op): _owner(op.output) or _owner(op.input) for op in known}
    did = [op for op in known if op.outcome is not Outcome.FAIL]
    named = bool(did) and all(owners[id(op)] for op in did)

    def ours(op: Op) -> Op:
        owner = owners.get(id(op)) if named else None
        made = _with_token(op, fenced) if id(op) in owners else op
        return made if owner is None else replace(made, process_id=owner)

    return [ours(op) for op in ops]


def process_of(value: Any) -> int | str:
    """The process that holds a lock. Raises ValueError for what is none."""
    if type(value) is not int and not isinstance(value, str):
        raise ValueError("a process is an integer or a name")
    return value


class _Lock(Model):
    op_types = ("acquire", "release")
    with_owners = True

    def read(self, op: Op, known: bool) -> Call | str:
        wrong = flag(op, known)
        if wrong is not None:
            return wrong
        return Call(op.op_type, None, op.output is not False, known, op.process_id)

    def pure(self, call: Call) -> bool:
        return call.known and call.output is False

    def anonymous(self, call: Call) -> bool:
        return call.op_type == "acquire"  # whoever got it so keeps it for ever


class Mutex(_Lock):
    """One holder at a time; state = the holder, as `(process,)`."""

    name = "mutex"
    shape = "lock"
    starts = "the process that holds it, null = none"

    def state_of(self, value: Any) -> Any:
        return None if value is None else (process_of(value),)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        mine = state == (call.process,)
        if call.op_type == "acquire":
            if call.known and not call.output:
                return () if state is None else (state,)
            return ((call.process,),) if state is None else ()
        if call.known and not call.output:
            return () if mine else (state,)
        return (None,) if mine else ()

    def show(self, state: Any) -> str:
        return "free" if state is None else f"held by process {state[0]}"


class ReentrantMutex(_Lock):
    """Its holder may acquire it again and must release it as often; state = (holder, depth)."""

    name = "reentrant-mutex"
    shape = "lock"
    starts = "the process that holds it, or [process, how often]; null = none"

    def state_of(self, value: Any) -> Any:
        if value is None:
            return None
        holder, depth = value if isinstance(value, list | tuple) and len(value) == 2 else (value, 1)
        if type(depth) is not int or depth < 1:
            raise ValueError("it is held once at least")
        return (process_of(holder), depth)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        mine = state is not None and state[0] == call.process
        if call.op_type == "acquire":
            can = state is None or mine
            if call.known and not call.output:
                return () if can else (state,)
            return ((call.process, (state[1] if mine else 0) + 1),) if can else ()
        if call.known and not call.output:
            return () if mine else (state,)
        if not mine:
            return ()
        return (None,) if state[1] == 1 else ((state[0], state[1] - 1),)

    def show(self, state: Any) -> str:
        return "free" if state is None else f"held {state[1]} times by process {state[0]}"


class FencingLock(_Lock):
    """A mutex whose holders get integer tokens, each greater than all before; state = (holder or
    None, last token). An acquire of unknown outcome got the least token it can have got: that
    allows all that any other would."""

    name = "fencing-lock"
    shape = "lock"
    initial = (None, _NO_TOKEN)
    starts = "[the process that holds it or null, the last token]"

    def state_of(self, value: Any) -> Any:
        if not isinstance(value, list | tuple) or len(value) != 2:
            raise ValueError("it is no [holder, token]")
        holder, token = value
        if type(token) is not int or token <= _NO_TOKEN:
            raise ValueError("its token is no integer")
        return (None if holder is None else (process_of(holder),), token)

    def read(self, op: Op, known: bool) -> Call | str:
        if op.op_type == "acquire" and known and op.output is not False:
            if type(op.output) is not int or op.output <= _NO_TOKEN:
                return "its output is neither false nor an integer token"
            return Call("acquire", None, op.output, known, op.process_id)
        return super().read(op, known)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        holder, last = state
        mine = holder == (call.process,)
        if call.op_type == "release":
            if call.known and not call.output:
                return () if mine else (state,)
            return ((None, last),) if mine else ()
        if call.known and call.output is False:
            return () if holder is None else (state,)
        token = call.output if call.known else last + 1
        return (((call.process,), token),) if holder is None and token > last else ()

    def show(self, state: Any) -> str:
        holder = "free" if state[0] is None else f"held by process {state[0][0]}"
        return holder if state[1] == _NO_TOKEN else f"{holder}, last token {state[1]}"


class Semaphore(Model):
    """`total` permits; state = those that are free. Raises ConfigError where `total` is no positive
    integer."""

    name = "semaphore"
    shape = "lock"
    op_types = ("acquire", "release")
    starts = "how many permits are free"

    def state_of(self, value: Any) -> Any:
        if type(value) is not int or not 0 <= value <= self.total:
            raise ValueError(f"it is no number of free permits, from 0 to {self.total}")
        return value

    @property
    def fresh(self) -> bool:
        return bool(self.initial == self.total)

    def __init__(self, total: int) -> None:
        if type(total) is not int or not 0 < total < 2**40:
            raise ConfigError(
                f"permits={total!r}: a semaphore needs a positive number of permits",
                remedy="for example -o permits=3",
            )
        self.initial = self.total = total

    @classmethod
    def made(cls, options: Mapping[str, Any]) -> Self:
        return cls(options.get("permits", 0))

    def read(self, op: Op, known: bool) -> Call | str:
        permits = 1 if op.input is None or _owner(op.input) else op.input
        if type(permits) is not int or not 0 < permits < 2**40:
            return "its input is no positive number of permits"
        wrong = flag(op, known)
        if wrong is not None:
            return wrong
        return Call(op.op_type, permits, op.output is not False, known)

    def pure(self, call: Call) -> bool:
        return call.known and call.output is False

    def affine(self, call: Call) -> Affine:
        refused = call.known and call.output is False
        if call.op_type == "acquire":
            if refused:
                return Affine(0, call.input - 1, 0)
            return Affine(call.input, self.total, -call.input)
        if refused:
            return Affine(self.total - call.input + 1, self.total, 0)
        return Affine(0, self.total - call.input, call.input)

    def step(self, state: Any, call: Call) -> Iterable[Any]:
        low, high, delta = self.affine(call)
        return (state + delta,) if low <= state <= high else ()

    def show(self, state: Any) -> str:
        return f"{state} of {self.total} permits free"


LOCKS: Final = frozenset(model.name for model in (Mutex, ReentrantMutex, FencingLock, Semaphore))


class _PlainRegister(Register):
    """A register without cas."""

    name = "register"
    op_types = ("read", "write")


_CLASSES: Final[tuple[type[Model], ...]] = (
    *(_PlainRegister, Register, MultiRegister, KvMap, Mutex, ReentrantMutex, FencingLock),
    *(Semaphore, FifoQueue, PriorityQueue, Stack, Deque, Set, Counter, Log),
)

_BY_NAME: Final = {model.name: model for model in _CLASSES}

MODELS: Final = tuple(_BY_NAME)

OP_TYPES: Final = {name: frozenset(model.op_types) for name, model in _BY_NAME.items()}
"""The operations that each model knows."""

STARTS: Final = {name: model.starts for name, model in _BY_NAME.items()}
"""What the initial state of each model is given as."""


def make(name: str, options: Mapping[str, Any]) -> Model:
    """The model called `name`. Raises KeyError for an unknown one, ConfigError where an option that
    it needs is missing or wrong."""
    return _BY_NAME[name].made(options)
