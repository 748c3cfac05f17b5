"""One stream of operations, two systems, versions or settings: do they answer alike?

Both runs have drawn the same operations, since operation k of a load worker depends on the seed,
the worker and k alone; they are matched by their id. What the answers must be is known only where
nothing was concurrent: on each key the operations are followed in their order for as long as they
are the same on both sides, each ended before the next one of that key began, and all outcomes are
known. From the first one of which that is not so on, the key is not comparable any more.

Both may share the same bug: what agrees is no proof of either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dstest.core.history import History
from dstest.core.op import Op, Outcome

SHOWN_MAX: Final = 16
_CHANGED: Final = {"dstest": "a value that nobody wrote"}


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """The first operation of a key to which the two sides gave different answers."""

    key: Any
    op_id: int | str
    op_type: str
    input: Any
    left: Any
    right: Any


class StreamResult(msgspec.Struct, frozen=True, kw_only=True):
    """How many operations could be compared, of how many; why keys were left at some point; the
    disagreements, at most `SHOWN_MAX` of `disagreeing`."""

    operations: int
    compared: int
    keys: int
    left_off: dict[str, int]
    disagreeing: int
    shown: list[Disagreement]


def disagreements(left: History, right: History) -> StreamResult:
    """Compare the answers of two runs of the same stream."""
    ours, theirs = _by_key(left.ops), _by_key(right.ops)
    compared = disagreeing = 0
    left_off: dict[str, int] = {}
    shown: list[Disagreement] = []
    for key, ops in ours.items():
        number, why, found = _follow(ops, theirs.get(key, []))
        compared += number
        if why:
            left_off[why] = left_off.get(why, 0) + 1
        if found is not None:
            disagreeing += 1
            if len(shown) < SHOWN_MAX:
                shown.append(found)
    return StreamResult(
        operations=_both(left, right),
        compared=compared,
        keys=len(ours),
        left_off=left_off,
        disagreeing=disagreeing,
        shown=shown,
    )


def _both(left: History, right: History) -> int:
    """How many operations both sides had come to: one of them may have stopped sooner."""
    ids = [[op.op_id for op in side.ops if isinstance(op.op_id, int)] for side in (left, right)]
    last = min(max(mine, default=-1) for mine in ids)
    return len({op_id for mine in ids for op_id in mine if op_id <= last})


def would_notice(left: History, right: History) -> bool:
    """Would a difference have been seen? One answer that was compared is changed, in a copy."""
    theirs = _by_key(right.ops)
    for key, ops in _by_key(left.ops).items():
        number, _, found = _follow(ops, theirs.get(key, []))
        target = next((op for op in ops[:number] if op.outcome is Outcome.OK), None)
        if target is not None and found is None:
            changed = msgspec.structs.replace(target, output=_CHANGED)
            copy = [changed if op is target else op for op in left.ops]
            broken = msgspec.structs.replace(left, ops=copy)
            return disagreements(broken, right).disagreeing > 0
    return False


def _by_key(ops: Iterable[Op]) -> dict[str, list[Op]]:
    found: dict[str, list[Op]] = {}
    for op in ops:
        found.setdefault(_plain(op.key), []).append(op)
    return found


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _follow(left: list[Op], right: list[Op]) -> tuple[int, str, Disagreement | None]:
    """(operations compared, why no more were, the disagreement) of one key."""
    number = 0
    for at, (a, b) in enumerate(zip(left, right, strict=False)):
        asked = (a.op_id, a.op_type, _plain(a.input))
        if asked != (b.op_id, b.op_type, _plain(b.input)):
            return number, "the order of operations differs", None
        if _overlaps(left, at) or _overlaps(right, at):
            return number, "operations on the key overlap", None
        if Outcome.UNKNOWN in (a.outcome, b.outcome):
            return number, "an outcome is unknown", None
        if a.outcome is not b.outcome:
            return number, "one side refused what the other did", None
        number += 1
        if a.outcome is Outcome.OK and _plain(a.output) != _plain(b.output):
            return number, "", _disagreement(a, b)
    if len(left) != len(right):
        return number, "one side did more operations", None
    return number, "", None


def _overlaps(ops: list[Op], at: int) -> bool:
    """Was the next operation of the key asked for before this one had ended?"""
    done = ops[at].complete_ts
    return at + 1 < len(ops) and done is not None and ops[at + 1].invoke_ts <= done


def _disagreement(a: Op, b: Op) -> Disagreement:
    return Disagreement(
        key=a.key, op_id=a.op_id, op_type=a.op_type, input=a.input, left=a.output, right=b.output
    )
