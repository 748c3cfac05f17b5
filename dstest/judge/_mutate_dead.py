"""Broken copies of queues with dead letters.

| mutant | what is changed | why it is a violation |
|---|---|---|
| dropped-write | the enqueue of what came out was taken out | it came from nowhere |
| dropped-reject | rejects of what was collected were taken out | nobody had refused it |
| lost | dequeues or collects were taken out | acknowledged, and nobody got it |
| phantom | what was taken is a value that nobody wrote | it came from nowhere |
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge._mutate import PHANTOM, Made, acked, changed, finals, pick, without

__all__ = ["DEAD_LETTERS"]

_Opts = Mapping[str, Any]


def _taken(ops: list[Op], *types: str) -> list[Op]:
    return [op for op in acked(ops, *types) if op.output is not None]


def _unknown(ops: list[Op], *types: str) -> int:
    return sum(op.outcome is Outcome.UNKNOWN and op.op_type in types for op in ops)


def _enqueue_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    out = {op.output for op in _taken(ops, "dequeue", "collect")}
    writes = [op for op in ops if op.op_type == "enqueue" and op.input in out]
    times = Counter(op.input for op in writes)
    write = pick(dice, [op for op in writes if times[op.input] == 1])
    if write is None:
        return None
    return f"enqueue {write.op_id}, whose value came out, was taken out", without(ops, write)


def _reject_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """More than unknown rejects could stand in for."""
    dead = {op.output for op in _taken(ops, "collect")}
    rejects = [op for op in _taken(ops, "reject") if op.output in dead]
    need = _unknown(ops, "reject") + 1
    values = sorted({op.output for op in rejects}, key=repr)
    if len(values) < need:
        return None
    gone = set(dice.sample(values, need))
    lost = [op for op in rejects if op.output in gone]
    return f"rejects of {need} collected elements were taken out", without(ops, *lost)


def _lost(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """More takers are taken out than unknown ones could stand in for."""
    got = _taken(ops, "dequeue", "collect")
    times, owed = Counter(op.output for op in got), {op.input for op in acked(ops, "enqueue")}
    once = [op for op in got if times[op.output] == 1 and op.output in owed]
    need = _unknown(ops, "dequeue", "reject", "collect") + 1
    looks = [op for op in finals(ops, "collect") if op.output is None]
    if len(once) < need or not looks:
        return None
    lost = dice.sample(once, need)
    return f"{need} takers, first {lost[0].op_id}, were taken out", without(ops, *lost)


def _phantom(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    take = pick(dice, _taken(ops, "dequeue", "reject", "collect"))
    if take is None:
        return None
    said = f"{take.op_type} {take.op_id} got a phantom"
    return said, changed(ops, {take.op_id: {"output": PHANTOM}})


DEAD_LETTERS: Final = {
    "dropped-write": _enqueue_dropped,
    "dropped-reject": _reject_dropped,
    "lost": _lost,
    "phantom": _phantom,
}
