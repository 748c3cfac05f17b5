"""The objects of linearizability as they are, in plain Python, written from their definitions.

Each object is a function `run(state, op) -> (state, output)` that does the operation, the way the
real object would. Nothing of the checkers is used but `Op`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dstest.core.op import Op

Run = Callable[[Any, Op], tuple[Any, Any]]


def register(state: Any, op: Op) -> tuple[Any, Any]:
    if op.op_type in ("read", "get"):
        return state, state
    if op.op_type == "cas":
        old, new = op.input
        return (new, True) if state == old else (state, False)
    if op.op_type == "append":
        return ("" if state is None else state) + op.input, None
    return (None if op.op_type == "delete" else op.input), None


def registers(state: Any, op: Op) -> tuple[Any, Any]:
    state = dict(state)
    out = []
    for f, key, value in op.input:
        if f == "w":
            state[key] = value
        out.append([f, key, state.get(key)])
    return state, out


def mutex(state: Any, op: Op) -> tuple[Any, Any]:
    if op.op_type == "acquire":
        return (op.process_id, True) if state is None else (state, False)
    return (None, True) if state == op.process_id else (state, False)


def reentrant(state: Any, op: Op) -> tuple[Any, Any]:
    stack = list(state)
    if op.op_type == "acquire":
        if stack and stack[0] != op.process_id:
            return state, False
        return [*stack, op.process_id], True
    if not stack or stack[0] != op.process_id:
        return state, False
    return stack[1:], True


def fencing(state: Any, op: Op) -> tuple[Any, Any]:
    """`op.input` is the token that the lock would give; it must grow."""
    holder, last = state
    if op.op_type == "acquire":
        if holder is not None:
            return state, False
        if op.input <= last:
            return state, "impossible"
        return [op.process_id, op.input], op.input
    return ([None, last], True) if holder == op.process_id else (state, False)


def semaphore(permits: int) -> Run:
    def run(state: int, op: Op) -> tuple[Any, Any]:
        n = op.input or 1
        if op.op_type == "acquire":
            return (state - n, True) if state >= n else (state, False)
        return (state + n, True) if state + n <= permits else (state, False)

    return run


def fifo(state: list[Any], op: Op) -> tuple[Any, Any]:
    if op.op_type == "enqueue":
        return [*state, op.input], None
    if op.op_type == "peek":
        return state, state[0] if state else None
    return (state[1:], state[0]) if state else (state, None)


def deque(state: list[Any], op: Op) -> tuple[Any, Any]:
    if op.op_type == "push-left":
        return [op.input, *state], None
    if op.op_type == "push-right":
        return [*state, op.input], None
    at = 0 if op.op_type.endswith("left") else len(state) - 1
    found = state[at] if state else None
    if op.op_type.startswith("peek") or not state:
        return state, found
    return state[:at] + state[at + 1 :], found


def stack(state: list[Any], op: Op) -> tuple[Any, Any]:
    if op.op_type == "push":
        return [op.input, *state], None
    if op.op_type == "peek":
        return state, state[0] if state else None
    return (state[1:], state[0]) if state else (state, None)


def priority(state: list[Any], op: Op) -> tuple[Any, Any]:
    if op.op_type == "insert":
        return sorted([*state, op.input]), None
    if op.op_type == "peek":
        return state, state[0] if state else None
    return (state[1:], state[0]) if state else (state, None)


def values(state: list[Any], op: Op) -> tuple[Any, Any]:
    if op.op_type == "read":
        return state, sorted(state)
    there = op.input in state
    if op.op_type == "contains":
        return state, there
    if op.op_type == "add":
        return ([*state, op.input] if not there else state), not there
    return [v for v in state if v != op.input], there


def counter(state: int, op: Op) -> tuple[Any, Any]:
    if op.op_type == "read":
        return state, state
    n = 1 if op.input is None else op.input
    after = state + n if op.op_type == "inc" else state - n
    return after, after


def log(state: list[Any], op: Op) -> tuple[Any, Any]:
    if op.op_type == "append":
        return [*state, op.input], len(state)
    return state, [[o, v] for o, v in enumerate(state) if op.input is None or o >= op.input]


def agrees(model: str, op: Op, output: Any, recorded: Any) -> bool:
    """Does a recorded output agree with what came out? Null of an operation that need not tell
    agrees with success."""
    if model == "log" and op.op_type == "read":
        if op.input is None and not recorded:
            return True
        if op.input is not None and recorded and recorded[0][0] != op.input:
            return False
        begins = recorded[0][0] if recorded else op.input
        there = [row for row in output if row[0] >= begins]
        return there[: len(recorded)] == recorded and (bool(recorded) or not there)
    if recorded is None and op.op_type in ("acquire", "release", "inc", "dec", "append"):
        return output is not False
    if recorded is None and op.op_type in ("add", "remove"):
        return True
    if op.op_type == "txn":
        return bool(output == recorded)
    return type(output) is type(recorded) and bool(output == recorded)


OBJECTS: Final[Mapping[str, tuple[Run, Any]]] = {
    "register": (register, None),
    "cas-register": (register, None),
    "multi-register": (registers, {}),
    "kv-map": (register, None),
    "mutex": (mutex, None),
    "reentrant-mutex": (reentrant, []),
    "fencing-lock": (fencing, [None, 0]),
    "fifo-queue": (fifo, []),
    "priority-queue": (priority, []),
    "stack": (stack, []),
    "deque": (deque, []),
    "set": (values, []),
    "counter": (counter, 0),
    "log": (log, []),
}

MODELS: Final = frozenset({*OBJECTS, "semaphore"})


def object_of(model: str, permits: int = 0) -> tuple[Run, Any]:
    """What does its operations, and the state it starts in. KeyError for another model."""
    if model == "semaphore":
        return semaphore(permits), permits
    run, first = OBJECTS[model]
    if model == "fencing-lock":
        return run, [None, -1000]
    return run, copy.deepcopy(first)


def effective(ops: Iterable[Op]) -> list[Op]:
    """The operations that had or may have had an effect: failed ones had none."""
    return [op for op in ops if op.timeout_marker or op.error is None]


def tokens_of(ops: list[Op]) -> set[int]:
    """Tokens that a lock may have given to whom it did not tell."""
    given = {t + d for op in ops if type(t := op.output) is int for d in (-1, 0, 1)}
    return given | set(range(-len(ops) - 1, len(ops) + 2))


def outcomes(model: str, run: Run, state: Any, op: Op, tokens: Iterable[int]) -> Iterator[Any]:
    """States after the operation, if it takes effect here with its recorded output. `tokens` are
    those that a lock may have given to whom it did not tell."""
    unknown = op.timeout_marker and op.output is None
    if model == "fencing-lock" and op.op_type == "acquire":
        given = [op.output] if not unknown and type(op.output) is int else sorted(set(tokens))
        for token in given:
            tried = msgspec.structs.replace(op, input=token)
            after, output = run(state, tried)
            if output != "impossible" and (unknown or agrees(model, op, output, op.output)):
                yield after
        return
    after, output = run(state, op)
    if unknown or agrees(model, op, output, op.output):
        yield after
