"""Small histories of real objects, right ones and wrong ones, for trying a judge on them.

The wrong ones are right ones with another answer. Brute force has found that an order explains the
one and that none explains the other; the objects are those of `objects.py`.
A history is a function of model and dice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from checkers.second.brute import explains
from checkers.second.objects import MODELS, object_of
from dstest.core.op import Op

PERMITS: Final = 2
"""Of semaphores."""

_TRIES: Final = 200
_STEPS_MAX: Final = 100_000


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


def _true(model: str, dice: random.Random, count: int) -> list[Op]:
    """Operations that took effect at one instant each, those of three clients overlapping."""
    run, state = object_of(model, PERMITS)
    few = dice.choice([0, 0, 3])
    spread = dice.choice([0, 2, 5])
    free = [0, 0, 0]
    now = 0
    ops = []
    for number in range(count):
        kind, asked = draft(model, dice, number + 1, few)
        slot = dice.randrange(3)
        at = now = max(now, free[slot], 20 * number) + 1
        invoke = max(free[slot], at - dice.randint(0, 10 * spread))
        op = Op(
            op_id=number,
            process_id=slot,
            invoke_ts=invoke,
            complete_ts=at + dice.randint(1, 1 + 10 * spread),
            op_type=kind,
            key="k",
            input=asked,
        )
        token = model == "fencing-lock" and kind == "acquire"
        state, output = run(state, msgspec.structs.replace(op, input=number + 1) if token else op)
        free[slot] = (op.complete_ts or 0) + 1
        ops.append(msgspec.structs.replace(op, output=output))
    return sorted(ops, key=lambda op: op.invoke_ts)


def _lies(ops: list[Op], dice: random.Random) -> Iterator[list[Op]]:
    """Copies in which one operation tells what another one of its type told; of transactions, which
    tell what they were asked, one that was asked the same."""
    for _ in range(_TRIES):
        at, other = dice.randrange(len(ops)), dice.choice(ops)
        alike = ops[at].op_type == other.op_type
        alike = alike and (other.op_type != "txn" or ops[at].input == other.input)
        if alike and ops[at].output != other.output:
            yield [
                msgspec.structs.replace(op, output=other.output) if n == at else op
                for n, op in enumerate(ops)
            ]


def object_histories(
    model: str, dice: random.Random, each: int, count: int = 10
) -> tuple[list[list[Op]], list[list[Op]]]:
    """`each` right histories of so many operations on one key, and as many wrong ones, or fewer
    where few answers can be wrong. Without any for a model that is none of `MODELS`."""
    right: list[list[Op]] = []
    wrong: list[list[Op]] = []
    if model not in MODELS:
        return right, wrong
    for _ in range(20 * each):
        ops = _true(model, dice, count)
        if len(right) < each and explains(model, ops, permits=PERMITS, steps_max=_STEPS_MAX):
            right.append(ops)
        lie = next(
            (
                lie
                for lie in _lies(ops, dice)
                if explains(model, lie, permits=PERMITS, steps_max=_STEPS_MAX) is False
            ),
            None,
        )
        if lie is not None:
            wrong.append(lie)
        if len(wrong) >= each:
            break
    return right, wrong
