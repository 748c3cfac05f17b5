"""Canaries for transactional histories: broken copies that an isolation checker must reject.

A mutant holds one key's micro-ops only: leaving other keys out never makes a clean history unclean.

| mutant | what is changed | why no model allows it |
|---|---|---|
| phantom-element | a read returns a value that nobody ever wrote | it came from nowhere |
| twice | a list read holds an element twice | each was appended once |
| reordered | two elements of a list read change places | the other reads have them in order |
| aborted-read | a transaction whose write was read is recorded as failed | G1a |

Source: discipline 5.2, canary rule; Adya's G1a.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dstest.core import rng
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.judge.canary import Mutant

__all__ = ["KINDS", "txn_mutants"]

_PHANTOM: Final = 2_000_000_011
KINDS: Final = ("phantom-element", "twice", "reordered", "aborted-read")


def _project(history: History, key: Any) -> list[Op]:
    """The transactions that touch `key`, with its micro-ops alone."""
    kept = []
    for op in history.ops:
        asked = [m for m in op.input or () if m[1] == key]
        if not asked:
            continue
        answered = None if op.output is None else [m for m in op.output if m[1] == key]
        kept.append(msgspec.structs.replace(op, input=asked, output=answered))
    return kept


def _keys(history: History) -> list[Any]:
    return list(dict.fromkeys(m[1] for op in history.ops for m in op.input or ()))


def _reads(ops: list[Op], least: int) -> list[tuple[int, int]]:
    """(operation, micro-op) of ok reads that returned at least `least` elements.

    A transaction's own writes stay out: a changed read must clash with others, not with itself.
    """
    found = []
    for at, op in enumerate(ops):
        if op.outcome is not Outcome.OK or any(m[0] != "r" for m in op.input):
            continue
        for i, (_, _, value) in enumerate(op.output or ()):
            size = len(value) if isinstance(value, list) else int(value is not None)
            if size >= least:
                found.append((at, i))
    return found


def _with_read(ops: list[Op], at: int, i: int, value: Any) -> list[Op]:
    output = [list(m) for m in ops[at].output]
    output[i][2] = value
    return [*ops[:at], msgspec.structs.replace(ops[at], output=output), *ops[at + 1 :]]


def _phantom(ops: list[Op], dice: random.Random) -> list[Op] | None:
    reads = _reads(ops, 1)
    if not reads:
        return None
    at, i = dice.choice(reads)
    value = ops[at].output[i][2]
    return _with_read(ops, at, i, [*value, _PHANTOM] if isinstance(value, list) else _PHANTOM)


def _twice(ops: list[Op], dice: random.Random) -> list[Op] | None:
    reads = [r for r in _reads(ops, 1) if isinstance(ops[r[0]].output[r[1]][2], list)]
    if not reads:
        return None
    at, i = dice.choice(reads)
    value = ops[at].output[i][2]
    return _with_read(ops, at, i, [*value, value[0]])


def _reordered(ops: list[Op], dice: random.Random) -> list[Op] | None:
    reads = [r for r in _reads(ops, 2) if isinstance(ops[r[0]].output[r[1]][2], list)]
    if len(reads) < 2:
        return None
    # The shortest of several reads: the others keep its elements in the old order.
    at, i = min(reads, key=lambda r: len(ops[r[0]].output[r[1]][2]))
    value = list(ops[at].output[i][2])
    value[0], value[1] = value[1], value[0]
    return _with_read(ops, at, i, value)


def _aborted(ops: list[Op], dice: random.Random) -> list[Op] | None:
    seen: set[Any] = set()
    for at, i in _reads(ops, 1):
        value = ops[at].output[i][2]
        seen |= set(value) if isinstance(value, list) else {value}
    writers = [
        at
        for at, op in enumerate(ops)
        if op.outcome is Outcome.OK
        and any(m[0] != "r" and m[2] in seen for m in op.input)
        and all(m[0] != "r" for m in op.input)
    ]
    if not writers:
        return None
    at = dice.choice(writers)
    failed = msgspec.structs.replace(ops[at], output=None, error="aborted")
    return [*ops[:at], failed, *ops[at + 1 :]]


_MAKERS: Final = dict(zip(KINDS, (_phantom, _twice, _reordered, _aborted), strict=True))


def txn_mutants(history: History, seed: int, count: int = 8) -> Iterator[Mutant]:
    """Up to `count` mutants, the kinds in turn, each on another key where there are several."""
    dice = rng.stream(seed, "canary-txn")
    keys = _keys(history)
    dice.shuffle(keys)
    made = 0
    for number, key in enumerate(keys[: 4 * count]):
        kind = KINDS[number % len(KINDS)]
        changed = _MAKERS[kind](_project(history, key), dice)
        if changed is None:
            continue
        yield Mutant(kind, f"key {key}", msgspec.structs.replace(history, ops=changed))
        made += 1
        if made == count:
            return
