"""Broken copies of queues with dead letters.

| mutant | what is changed | why it is a violation |
|---|---|---|
| dropped-write | the enqueue of what came out was taken out | it came from nowhere |
| dropped-reject | rejects of what was collected were taken out | nobody had refused it |
| lost | dequeues or collects were taken out | acknowledged, and nobody got it |
| repeated | an enqueue puts in what another did, and nobody got its own | two are owed, one came |
| phantom | what was taken is a value that nobody wrote | it came from nowhere |
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge._mutate import PHANTOM, Made, acked, changed, end, finals, pick, without

_Opts = Mapping[str, Any]
_GETTERS: Final = ("dequeue", "collect")
_TAKERS: Final = ("dequeue", "reject", "collect")


def _taken(ops: list[Op], *types: str) -> list[Op]:
    return [op for op in acked(ops, *types) if op.output is not None]


def _unknown(ops: list[Op], *types: str) -> int:
    return sum(op.outcome is Outcome.UNKNOWN and op.op_type in types for op in ops)


def _enqueue_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    out = {op.output for op in _taken(ops, *_GETTERS)}
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


def _holders(ops: list[Op]) -> int | None:
    """How many takers may have something when the last looks find nothing; None without looks."""
    letters = [op for op in finals(ops, "collect") if op.output is None]
    if not letters:
        return None
    last = max(letters, key=end)
    seen = [
        op
        for op in acked(ops, "dequeue", "reject")
        if op.output is None and end(op) < last.invoke_ts
    ]
    if not seen:
        return None
    since = max(seen, key=end).invoke_ts
    failed = [op for op in ops if op.op_type in _TAKERS and op.outcome is Outcome.FAIL]
    return _unknown(ops, *_TAKERS) + sum(end(op) >= since for op in failed)


def _lost(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """More takers are taken out than others could stand in for."""
    got = _taken(ops, *_GETTERS)
    times = Counter(op.output for op in got)
    owed = Counter(op.input for op in acked(ops, "enqueue"))
    exact = [op for op in got if times[op.output] <= owed[op.output]]
    spare = _holders(ops)
    if spare is None or len(exact) <= spare:
        return None
    lost = dice.sample(exact, spare + 1)
    return f"{spare + 1} takers, first {lost[0].op_id}, were taken out", without(ops, *lost)


def _repeated(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """As often as no other takers could stand in for it."""
    times = Counter(op.output for op in _taken(ops, *_GETTERS))
    tried = Counter(op.input for op in ops if op.op_type == "enqueue")
    once = [op for op in acked(ops, "enqueue") if tried[op.input] == times[op.input] == 1]
    spare = _holders(ops)
    if spare is None or len(once) < 2 * (spare + 1):
        return None
    chosen = dice.sample(once, 2 * (spare + 1))
    kept, others = chosen[: spare + 1], chosen[spare + 1 :]
    again = {b.op_id: {"input": a.input} for a, b in zip(kept, others, strict=True)}
    gone = {op.input for op in others}
    takes = [op for op in _taken(ops, *_TAKERS) if op.output in gone]
    message = f"{spare + 1} enqueues, first {others[0].op_id}, put in again what another one had"
    return message, changed(without(ops, *takes), again)


def _phantom(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    take = pick(dice, _taken(ops, *_TAKERS))
    if take is None:
        return None
    said = f"{take.op_type} {take.op_id} got a phantom"
    return said, changed(ops, {take.op_id: {"output": PHANTOM}})


DEAD_LETTERS: Final = {
    "dropped-write": _enqueue_dropped,
    "dropped-reject": _reject_dropped,
    "lost": _lost,
    "repeated": _repeated,
    "phantom": _phantom,
}
