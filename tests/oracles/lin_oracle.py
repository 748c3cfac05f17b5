"""Brute-force linearizability of small histories, written from the definitions alone.

Each object is a function `run(state, op) -> (state, output)` that does the operation, the way the
real object would; a record is explained when some order of the operations, each inside its
interval, makes every recorded output come out. Nothing of the product is used but `Op`.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

from dstest.core.op import Op

__all__ = ["MODELS", "explains", "loosened", "random_history"]

PERMITS = 2

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


def semaphore(state: int, op: Op) -> tuple[Any, Any]:
    n = op.input or 1
    if op.op_type == "acquire":
        return (state - n, True) if state >= n else (state, False)
    return (state + n, True) if state + n <= PERMITS else (state, False)


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


def told(op: Op, output: Any, recorded: Any) -> bool:
    """Does a recorded output agree with what came out? Null of an operation that need not tell
    agrees with success."""
    if op.op_type == "read" and isinstance(output, list) and output_is_log(op, recorded):
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


def output_is_log(op: Op, recorded: Any) -> bool:
    return isinstance(recorded, list) and (op.key is not None and str(op.key).startswith("log"))


MODELS: dict[str, tuple[Run, Any]] = {
    "register": (register, None),
    "cas-register": (register, None),
    "multi-register": (registers, {}),
    "kv-map": (register, None),
    "mutex": (mutex, None),
    "reentrant-mutex": (reentrant, []),
    "fencing-lock": (fencing, [None, 0]),
    "semaphore": (semaphore, PERMITS),
    "fifo-queue": (fifo, []),
    "priority-queue": (priority, []),
    "stack": (stack, []),
    "deque": (deque, []),
    "set": (values, []),
    "counter": (counter, 0),
    "log": (log, []),
}


def outcomes(model: str, state: Any, op: Op, tokens: set[int]) -> Iterator[Any]:
    """States after the operation, if it takes effect here with its recorded output."""
    run = MODELS[model][0]
    unknown = op.timeout_marker and op.output is None
    if model == "fencing-lock" and op.op_type == "acquire":
        given = [op.output] if not unknown and type(op.output) is int else sorted(tokens)
        for token in given:
            tried = Op(**{f: getattr(op, f) for f in Op.__struct_fields__} | {"input": token})
            after, output = run(state, tried)
            if output != "impossible" and (unknown or told(op, output, op.output)):
                yield after
        return
    after, output = run(state, op)
    if unknown or told(op, output, op.output):
        yield after


def loosened(op: Op) -> Op:
    """The operation, which may now also take effect later than it did, or never."""
    fields = {f: getattr(op, f) for f in Op.__struct_fields__}
    return Op(**fields | {"timeout_marker": True, "complete_ts": None})


def explains(model: str, ops: list[Op]) -> bool:
    """Is there an order of all ok and some unknown operations? Failed ones had no effect. An
    unknown operation with an output can only have had that one."""
    ops = [op for op in ops if op.timeout_marker or op.error is None]
    count = len(ops)
    never = 1 << 60
    ends = [never if op.timeout_marker or op.complete_ts is None else op.complete_ts for op in ops]
    must = sum(1 << i for i, op in enumerate(ops) if not op.timeout_marker)
    before = [sum(1 << j for j in range(count) if ends[j] < ops[i].invoke_ts) for i in range(count)]
    tokens = {t + d for op in ops if type(t := op.output) is int for d in (-1, 0, 1)}
    tokens |= set(range(-count - 1, count + 2))
    seen = set()
    first = [None, -1000] if model == "fencing-lock" else copy.deepcopy(MODELS[model][1])
    agenda: list[tuple[int, Any]] = [(0, first)]
    while agenda:
        done, state = agenda.pop()
        if done & must == must:
            return True
        if (mark := (done, repr(state))) in seen:
            continue
        seen.add(mark)
        for i, op in enumerate(ops):
            if not done >> i & 1 and not before[i] & ~done:
                agenda += [(done | 1 << i, s) for s in outcomes(model, state, op, tokens)]
    return False


def draft(model: str, dice: random.Random, fresh: int, few: int) -> tuple[str, Any]:
    """An operation type and its input; `few` = how many values repeat, 0 = all are new."""
    value = dice.randrange(few) + 1 if few else fresh
    old = dice.randrange(fresh + 1)
    if model in ("register", "cas-register", "kv-map"):
        kinds = {
            "register": ["read", "write"],
            "cas-register": ["read", "write", "cas"],
            "kv-map": ["get", "put", "delete", "append", "cas"] if few else ["get", "put", "cas"],
        }[model]
        kind = dice.choice(kinds)
        if kind in ("write", "put"):
            return kind, str(value) if model == "kv-map" else value
        if kind == "append":
            return kind, str(value)
        if kind == "cas":
            pair = [None if old == 0 else old, value]
            return kind, [
                None if v is None else str(v) for v in pair
            ] if model == "kv-map" else pair
        return kind, None
    if model == "multi-register":
        rows = [[dice.choice("rw"), dice.choice("xy"), None] for _ in range(dice.randint(1, 2))]
        return "txn", [[f, k, value if f == "w" else None] for f, k, _ in rows]
    if model in ("mutex", "reentrant-mutex", "fencing-lock"):
        return dice.choice(["acquire", "release"]), None
    if model == "semaphore":
        return dice.choice(["acquire", "release"]), dice.choice([None, 1, 1, 2])
    if model == "set":
        kind = dice.choice(
            ["add", "remove", "contains", "contains", "read"][: 5 if few == 3 else 4]
        )
        return kind, None if kind == "read" else dice.randint(1, 2)
    if model == "counter":
        kind = dice.choice(["inc", "dec", "read"])
        return kind, None if kind == "read" else dice.choice([1, 1, 2, 3])
    if model == "log":
        kind = dice.choice(["append", "append", "read"])
        return kind, value if kind == "append" else dice.choice([None, 0, 1, 2])
    if model == "deque":
        what = dice.choice(["push", "push", "pop", "pop", "peek"])
        kind = f"{what}-{dice.choice(['left', 'right'])}"
        return kind, value if what == "push" else None
    put, take = {
        "fifo-queue": ("enqueue", "dequeue"),
        "stack": ("push", "pop"),
        "priority-queue": ("insert", "delete-min"),
    }[model]
    if dice.random() < 0.5:
        return take, None
    return put, value if few or model != "priority-queue" else dice.choice(
        [1, 3, 5, 7]
    ) * 100 + fresh


def perturb(model: str, op_type: str, output: Any, dice: random.Random, seen: list[Any]) -> Any:
    """Another plausible output."""
    if model == "fencing-lock" and op_type == "acquire":
        return False if output is not False and dice.random() < 0.4 else dice.choice([1, 2, 3])
    told = ("mutex", "reentrant-mutex", "fencing-lock", "semaphore", "set")
    if model in told and not isinstance(output, list):
        return output is False
    if model == "log" and output == []:
        return [[dice.randrange(2), 1]]
    if op_type == "txn":
        rows = [list(r) for r in output]
        row = dice.choice(rows)
        if row[0] == "r":
            row[2] = dice.choice([None, 1, 2])
        return rows
    if isinstance(output, bool):
        return not output
    if isinstance(output, list):
        if op_type == "read" and output and isinstance(output[0], list):
            return dice.choice([output[1:], output[:-1], [[o + 1, v] for o, v in output]])
        return output[1:] or [1]
    silent = {"write", "put", "delete", "append", "enqueue", "push", "insert"}
    silent |= {"push-left", "push-right"}
    if output is None and op_type in silent:
        return None
    return dice.choice([*seen, None] if not isinstance(output, int) else [*seen, output + 1])


def quiet(op_type: str, output: Any, dice: random.Random) -> Any:
    """Successes that need not be told sometimes are not."""
    silent = ("acquire", "release", "add", "remove", "inc", "dec", "append")
    if op_type in silent and output is not False and type(output) is not int:
        return dice.choice([None, output])
    if op_type in ("inc", "dec", "append"):
        return dice.choice([None, output, output]) if output is not None else None
    return output


def random_history(model: str, dice: random.Random, most: int = 7, key: Any = "k") -> list[Op]:
    """Up to `most` operations of a real object at real instants, some results falsified, some
    operations failed or of unknown outcome."""
    few = dice.choice([0, 0, 2, 3])
    spread = dice.choice([1, 3, 6, 12, 30])
    lies = dice.choice([0.0, 0.1, 0.2, 0.4])
    doubt = dice.choice([0.0, 0.1, 0.3])
    run, state = MODELS[model][0], copy.deepcopy(MODELS[model][1])
    ops: list[Op] = []
    seen: list[Any] = [1]
    count = dice.randint(1, most)
    for i in range(count):
        kind, asked = draft(model, dice, i + 1, few)
        process = f"{key}-{dice.randrange(3)}"
        at = 2 * i
        invoke, complete = at - dice.randint(0, spread), at + dice.randint(0, spread)
        fate = dice.random()
        effective = fate >= doubt or (fate < doubt * 0.8 and dice.random() < 0.5)
        probe = Op(op_id=i, process_id=process, invoke_ts=at, op_type=kind, key=key, input=asked)
        if model == "fencing-lock" and kind == "acquire":
            token = state[1] + dice.choice([1, 1, 2])
            probe = Op(
                op_id=i, process_id=process, invoke_ts=at, op_type=kind, key=key, input=token
            )
        after, output = run(state, probe)
        if kind == "read" and model == "log" and output and dice.random() < 0.4:
            output = output[:1]
        if effective:
            state = after
        unknown, failed = fate < doubt * 0.8, doubt * 0.8 <= fate < doubt
        if not unknown and not failed:
            output = quiet(kind, output, dice)
            if dice.random() < lies:
                output = perturb(model, kind, output, dice, seen)
            if type(output) is int:
                seen.append(output)
        ops.append(
            Op(
                op_id=i,
                process_id=process,
                invoke_ts=invoke - (3 * spread if unknown and dice.random() < 0.3 else 0),
                complete_ts=None if unknown else complete,
                op_type=kind,
                key=key,
                input=asked,
                output=None if unknown or failed else output,
                error="refused" if failed else None,
                timeout_marker=unknown,
            )
        )
    return sorted(ops, key=lambda op: op.invoke_ts)
