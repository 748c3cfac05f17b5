"""Small tools for making broken copies of a history."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from dstest.core.op import Op, Outcome

PHANTOM: Final = 2_000_000_011
"""A value that no workload writes."""

Made = tuple[str, list[Op]] | None
Maker = Callable[[list[Op], random.Random, Mapping[str, Any]], Made]
"""(operations of one key, dice, options of the run) -> (what was done, the broken copy)."""


def acked(ops: list[Op], *types: str) -> list[Op]:
    """The ok operations of these types."""
    return [op for op in ops if op.op_type in types and op.outcome is Outcome.OK]


def attempts(ops: list[Op], *types: str) -> list[Op]:
    """The operations of these types that may have taken effect."""
    return [op for op in ops if op.op_type in types and op.outcome is not Outcome.FAIL]


def end(op: Op) -> int:
    """Completion of an ok operation, ns."""
    assert op.complete_ts is not None
    return op.complete_ts


def changed(ops: list[Op], changes: Mapping[int | str, Mapping[str, Any]]) -> list[Op]:
    """A copy with the fields of some operations replaced, in order of invocation."""
    copy = [
        msgspec.structs.replace(op, **changes[op.op_id]) if op.op_id in changes else op
        for op in ops
    ]
    return sorted(copy, key=lambda op: op.invoke_ts)


def without(ops: list[Op], *gone: Op) -> list[Op]:
    """A copy that lacks some operations."""
    ids = {op.op_id for op in gone}
    return [op for op in ops if op.op_id not in ids]


def pick(dice: random.Random, items: Iterable[Any]) -> Any:
    """One of `items`, None where there is none."""
    found = list(items)
    return dice.choice(found) if found else None


def finals(ops: list[Op], observer: str, *others: str) -> list[Op]:
    """Observations that began after the last completed operation of another type had ended;
    `others` change nothing either."""
    last = max(
        (
            op.complete_ts
            for op in ops
            if op.op_type not in (observer, *others) and op.complete_ts is not None
        ),
        default=-1,
    )
    return [op for op in acked(ops, observer) if op.invoke_ts > last]


def in_turn(ops: list[Op], dice: random.Random) -> list[tuple[Op, Op]]:
    """Some pairs of which the first had ended before the second began."""
    found = []
    for _ in range(60):
        if len(ops) < 2:
            break
        a, b = sorted(dice.sample(ops, 2), key=lambda op: op.invoke_ts)
        if end(a) < b.invoke_ts:
            found.append((a, b))
    return found
