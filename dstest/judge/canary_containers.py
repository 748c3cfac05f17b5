"""Canaries of queues, stacks, priority queues, deques, sets and logs; see `canary_models`.

| mutant | what is changed | why no order explains it |
|---|---|---|
| phantom-value | a take returns a value that nobody put in | values do not come from nowhere |
| taken-twice | two takes return one value, put in once | once is once |
| lost-put | the put of a taken value is taken out | as phantom-value |
| swapped-takes | two takes in strict turn swap their values | the order of the container |
| false-empty | a take finds nothing while a value is in there for certain | it was not empty |
| wrong-contains | a lookup is answered wrongly with no change running | it was certain |
| offset-twice, swapped-offsets | appends in turn get one offset, or each other's | they count |
| changed-entry, lost-append, hidden-entry | a read shows, or hides, what it must not | as named |
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from dstest.core.op import Op, Outcome
from dstest.judge.canary import token

Made = tuple[str, list[Op]] | None
Maker = Callable[[list[Op], random.Random], Made]

CONTAINERS = {
    "fifo-queue": ("enqueue", "dequeue"),
    "stack": ("push", "pop"),
    "priority-queue": ("insert", "delete-min"),
    "deque": ("push", "pop"),
}
"""How the types of operations begin that put in and take out."""

_WINDOW = 300
_TRIES = 60


def _ok(op: Op) -> bool:
    return op.outcome is Outcome.OK


def _end(op: Op) -> int:
    """Completion; beyond all time for an unknown outcome."""
    return op.complete_ts if _ok(op) and op.complete_ts is not None else 2**63


def _before(x: Op, y: Op) -> bool:
    return _end(x) < y.invoke_ts


def changed(ops: list[Op], outputs: dict[Any, Any]) -> list[Op]:
    """The operations with other outputs, by op_id."""
    return [replace(op, output=outputs[op.op_id]) if op.op_id in outputs else op for op in ops]


def without(ops: list[Op], op: Op) -> list[Op]:
    """The operations without this one."""
    return [o for o in ops if o.op_id != op.op_id]


class _Passage(NamedTuple):
    """A value that was put in once, by an acknowledged put, and taken once."""

    value: Any
    put: Op
    take: Op


def _passages(ops: list[Op], put: str, take: str) -> list[_Passage]:
    puts: dict[str, list[Op]] = {}
    takes: dict[str, list[Op]] = {}
    for op in ops:
        if op.outcome is Outcome.FAIL:
            continue
        if op.op_type.startswith(put):
            puts.setdefault(token(op.input), []).append(op)
        elif op.op_type.startswith(take) and _ok(op) and op.output is not None:
            takes.setdefault(token(op.output), []).append(op)
    return [
        _Passage(found[0].input, found[0], takes[value][0])
        for value, found in puts.items()
        if len(found) == 1 and _ok(found[0]) and len(takes.get(value, ())) == 1
    ]


def _in_turn(model: str, a: _Passage, b: _Passage) -> bool:
    """Does swapping what the two takes returned break the container's order for certain?"""
    if model == "fifo-queue":
        return _before(a.put, b.put) and _before(a.take, b.take)
    if model == "stack":
        return _before(a.put, b.put) and _before(b.put, b.take) and _before(b.take, a.take)
    first = a.take
    return (
        a.value < b.value and _before(a.put, first) and _before(b.put, first)
        and _before(first, b.take)
    )  # fmt: skip


def taken_makers(model: str) -> dict[str, Maker]:
    """Makers for a container of values."""
    put, take = CONTAINERS[model]

    def phantom(ops: list[Op], dice: random.Random) -> Made:
        takes = [op for op in ops if op.op_type.startswith(take) and _ok(op)]
        if not takes:
            return None
        numbers = [abs(op.input) for op in ops if isinstance(op.input, int | float)]
        value = int(max(numbers, default=0)) + 1_000_003
        op = dice.choice(takes)
        return f"{take} {op.op_id} returns {value}, never put in", changed(ops, {op.op_id: value})

    def twice(ops: list[Op], dice: random.Random) -> Made:
        passages = _passages(ops, put, take)
        if len(passages) < 2:
            return None
        a, b = dice.sample(passages, 2)
        message = f"{take} {a.take.op_id} and {b.take.op_id} both return {a.value!r}"
        return message, changed(ops, {b.take.op_id: a.value})

    def lost(ops: list[Op], dice: random.Random) -> Made:
        passages = _passages(ops, put, take)
        if not passages:
            return None
        a = dice.choice(passages)
        return f"{put} {a.put.op_id}, taken by {a.take.op_id}, was taken out", without(ops, a.put)

    def swapped(ops: list[Op], dice: random.Random) -> Made:
        passages = _passages(ops, put, take)
        for _ in range(_TRIES if passages else 0):
            at = dice.randrange(len(passages))
            near = [*passages[at + 1 : at + _WINDOW], *passages[max(0, at - _WINDOW) : at]]
            pairs = [b for b in near if _in_turn(model, passages[at], b)]
            if pairs:
                a, b = passages[at], dice.choice(pairs)
                message = f"{take} {a.take.op_id} and {b.take.op_id} swapped values"
                return message, changed(ops, {a.take.op_id: b.value, b.take.op_id: a.value})
        return None

    def empty(ops: list[Op], dice: random.Random) -> Made:
        passages = _passages(ops, put, take)
        takes = [
            op for op in ops if op.op_type.startswith(take) and _ok(op) and op.output is not None
        ]
        place = {op.op_id: i for i, op in enumerate(takes)}
        for _ in range(_TRIES if passages else 0):
            a = dice.choice(passages)
            at = place[a.take.op_id]
            during = [
                o
                for o in takes[max(0, at - _WINDOW) : at]
                if _before(a.put, o) and _before(o, a.take)
            ]
            if during:
                op = dice.choice(during)
                message = f"{take} {op.op_id} finds nothing, while {a.value!r} is in there"
                return message, changed(ops, {op.op_id: None})
        return None

    makers: dict[str, Maker] = {
        "phantom-value": phantom,
        "taken-twice": twice,
        "lost-put": lost,
        "swapped-takes": swapped,
        "false-empty": empty,
    }
    if model == "deque":
        del makers["swapped-takes"]  # either end may serve
    return makers


def _certain(op: Op, changes: list[Op]) -> bool | None:
    """What a lookup must find: None where a change may have run beside it or decides otherwise."""
    past = [c for c in changes if c.invoke_ts <= _end(op)]
    if not past:
        return False
    last = max(past, key=lambda c: c.invoke_ts)
    if not _before(last, op) or any(not _before(c, last) for c in past if c is not last):
        return None
    return last.op_type == "add"


def set_makers() -> dict[str, Maker]:
    """Makers for sets."""

    def wrong(ops: list[Op], dice: random.Random) -> Made:
        groups: dict[str, list[Op]] = {}
        for op in ops:
            if op.outcome is not Outcome.FAIL and op.op_type != "read":
                groups.setdefault(token(op.input), []).append(op)
        names = sorted(groups)
        dice.shuffle(names)
        for name in names[:_TRIES]:
            looks = [op for op in groups[name] if op.op_type == "contains" and _ok(op)]
            changes = [op for op in groups[name] if op.op_type != "contains"]
            dice.shuffle(looks)
            for op in looks[:_TRIES]:
                near = [c for c in changes if c.invoke_ts <= _end(op)][-_WINDOW:]
                if any(c.complete_ts is None for c in changes):
                    break
                if len(near) < _WINDOW and _certain(op, near) is op.output:
                    message = f"contains {op.op_id} of {op.input!r} answers {not op.output}"
                    return message, changed(ops, {op.op_id: not op.output})
        return None

    def lost(ops: list[Op], dice: random.Random) -> Made:
        """An element is found that nobody ever added."""
        members = [op for op in ops if op.op_type == "contains" and _ok(op) and op.output is True]
        if not members:
            return None
        op = dice.choice(members)
        same = token(op.input)
        kept = [o for o in ops if o.op_type != "add" or token(o.input) != same]
        return f"every add of {op.input!r}, found by {op.op_id}, was taken out", kept

    return {"wrong-contains": wrong, "lost-add": lost}


def log_makers() -> dict[str, Maker]:
    """Makers for logs."""

    def told(ops: list[Op]) -> list[Op]:
        return [op for op in ops if op.op_type == "append" and _ok(op) and type(op.output) is int]

    def pair(ops: list[Op], dice: random.Random) -> tuple[Op, Op] | None:
        entries = told(ops)
        for _ in range(_TRIES if len(entries) > 1 else 0):
            a, b = sorted(dice.sample(entries, 2), key=lambda op: op.invoke_ts)
            if _before(a, b):
                return a, b
        return None

    def twice(ops: list[Op], dice: random.Random) -> Made:
        two = pair(ops, dice)
        if two is None:
            return None
        message = f"append {two[1].op_id} gets the offset of {two[0].op_id}"
        return message, changed(ops, {two[1].op_id: two[0].output})

    def swapped(ops: list[Op], dice: random.Random) -> Made:
        two = pair(ops, dice)
        if two is None:
            return None
        a, b = two
        message = f"appends {a.op_id} and {b.op_id} swapped offsets"
        return message, changed(ops, {a.op_id: b.output, b.op_id: a.output})

    def shown(ops: list[Op], dice: random.Random) -> tuple[Op, Op] | None:
        """A read that shows something, and the append of its first entry."""
        by = {op.output: op for op in told(ops)}
        reads = [op for op in ops if op.op_type == "read" and _ok(op) and op.output]
        dice.shuffle(reads)
        for op in reads[:_TRIES]:
            if op.output[0][0] in by:
                return op, by[op.output[0][0]]
        return None

    def entry(ops: list[Op], dice: random.Random) -> Made:
        two = shown(ops, dice)
        if two is None:
            return None
        rows = [list(row) for row in two[0].output]
        rows[0][1] = [rows[0][1], "changed"]
        message = f"read {two[0].op_id} shows another value at offset {rows[0][0]}"
        return message, changed(ops, {two[0].op_id: rows})

    def lost(ops: list[Op], dice: random.Random) -> Made:
        two = shown(ops, dice)
        values = [token(op.input) for op in ops if op.op_type == "append"]
        if two is None or values.count(token(two[1].input)) != 1:
            return None
        message = f"append {two[1].op_id}, shown by read {two[0].op_id}, was taken out"
        return message, without(ops, two[1])

    def hidden(ops: list[Op], dice: random.Random) -> Made:
        two = shown(ops, dice)
        if two is None or two[0].input is None or not _before(two[1], two[0]):
            return None
        message = f"read {two[0].op_id} finds nothing at offset {two[0].input}, appended before"
        return message, changed(ops, {two[0].op_id: []})

    return {
        "offset-twice": twice,
        "swapped-offsets": swapped,
        "changed-entry": entry,
        "lost-append": lost,
        "hidden-entry": hidden,
    }
