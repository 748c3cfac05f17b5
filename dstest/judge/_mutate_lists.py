"""Mutants of histories whose observers return lists: sets, logs of values, queues, ids, ledgers.

| mutant | what is changed | why it is a violation |
|---|---|---|
| dropped-write | the only write of a value that was observed is taken out | it came from nowhere |
| phantom | an observation holds a value that nobody wrote | likewise |
| lost | an acknowledged value is missing from a final observation | nothing took it out |
| stale | it is missing from an observation that began after its acknowledgement | likewise |
| duplicate | one observation holds a value twice, or two were given one | it was made once |
| repeated | an enqueue puts in what another one did, and nobody got its own | two are owed |
| replaced | one observation returns what another one did, and not its own | likewise |
| swapped | two observations in turn change places | the first one sees the future |
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge._mutate import (
    PHANTOM,
    Made,
    acked,
    attempts,
    changed,
    end,
    finals,
    in_turn,
    pick,
    without,
)
from dstest.judge.canary import token

_WRITES: Final = ("add", "append", "enqueue", "send", "insert")
_Opts = Mapping[str, Any]


def _lists(ops: list[Op]) -> list[Op]:
    return [op for op in acked(ops, "read") if isinstance(op.output, list)]


def _sole(ops: list[Op]) -> dict[Any, Op]:
    """Values that exactly one operation can have written, and that one was acknowledged."""
    times = Counter(op.input for op in ops if op.op_type in _WRITES)
    return {op.input: op for op in acked(ops, *_WRITES) if times[op.input] == 1}


def _phantom(reads: list[Op], ops: list[Op], dice: random.Random) -> Made:
    read = pick(dice, reads)
    if read is None:
        return None
    output = [*(read.output or []), PHANTOM]
    return f"read {read.op_id} holds a phantom", changed(ops, {read.op_id: {"output": output}})


def _dropped(reads: list[Op], ops: list[Op], dice: random.Random) -> Made:
    sole = _sole(ops)
    write = pick(dice, [sole[v] for r in reads[-20:] for v in r.output if v in sole][-2000:])
    if write is None:
        return None
    return f"write {write.op_id}, which was observed, was taken out", without(ops, write)


def _missing(kind: str, reads: list[Op], ops: list[Op], dice: random.Random) -> Made:
    read = pick(dice, [r for r in reads if r.output])
    if read is None:
        return None
    sole = _sole(ops)
    value = pick(dice, [v for v in read.output if v in sole and end(sole[v]) < read.invoke_ts])
    if value is None:
        return None
    output = [v for v in read.output if v != value]
    message = f"{kind}: {value!r} was taken out of read {read.op_id}"
    return message, changed(ops, {read.op_id: {"output": output}})


def _twice(reads: list[Op], ops: list[Op], dice: random.Random) -> Made:
    read = pick(dice, [r for r in reads if r.output])
    if read is None:
        return None
    value = dice.choice(read.output)
    return f"read {read.op_id} holds {value!r} twice", changed(
        ops, {read.op_id: {"output": [*read.output, value]}}
    )


def _swapped(ops: list[Op], dice: random.Random) -> Made:
    begun = {v: op.invoke_ts for v, op in _sole(ops).items()}
    for a, b in in_turn(_lists(ops), dice):
        if any(begun.get(v, -1) > end(a) for v in b.output):
            return f"reads {a.op_id} and {b.op_id} swapped outputs", changed(
                ops, {a.op_id: {"output": b.output}, b.op_id: {"output": a.output}}
            )
    return None


SET: Final = {
    "dropped-write": lambda ops, dice, o: _dropped(_lists(ops), ops, dice),
    "phantom": lambda ops, dice, o: _phantom(_lists(ops), ops, dice),
    "lost": lambda ops, dice, o: _missing("lost", _lists(ops)[-1:], ops, dice),
    "stale": lambda ops, dice, o: _missing("stale", _lists(ops)[:-1], ops, dice),
    "duplicate": lambda ops, dice, o: _twice(_lists(ops), ops, dice),
    "swapped": lambda ops, dice, o: _swapped(ops, dice),
}


def _swapped_final(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    sole = _sole(ops)
    for last in finals(ops, "read"):
        early = [
            r for r in _lists(ops) if any(v in sole and v not in r.output for v in last.output)
        ]
        if early:
            read = dice.choice(early)
            return f"reads {read.op_id} and {last.op_id} swapped outputs", changed(
                ops, {read.op_id: {"output": last.output}, last.op_id: {"output": read.output}}
            )
    return None


SET_FINAL: Final = {
    "dropped-write": lambda ops, dice, o: _dropped(finals(ops, "read"), ops, dice),
    "phantom": lambda ops, dice, o: _phantom(finals(ops, "read"), ops, dice),
    "lost": lambda ops, dice, o: _missing("lost", finals(ops, "read"), ops, dice),
    "swapped": _swapped_final,
    "duplicate": lambda ops, dice, o: _twice(finals(ops, "read"), ops, dice),
}

PREFIX: Final = {
    **{kind: SET[kind] for kind in ("dropped-write", "phantom", "stale", "duplicate", "swapped")},
    "reordered": lambda ops, dice, o: _reordered(ops, dice),
}


def _reordered(ops: list[Op], dice: random.Random) -> Made:
    reads = [r for r in _lists(ops) if len(r.output) > 1]
    if len(reads) < 2:
        return None
    read = min(reads, key=lambda r: len(r.output))
    output = [read.output[1], read.output[0], *read.output[2:]]
    said = f"the first two values of read {read.op_id} changed places"
    return said, changed(ops, {read.op_id: {"output": output}})


def _takes(ops: list[Op]) -> list[Op]:
    return [op for op in acked(ops, "dequeue") if op.output is not None]


def _queue_dropped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    out = {op.output for op in _takes(ops)}
    write = pick(dice, [op for v, op in _sole(ops).items() if v in out])
    if write is None:
        return None
    return f"enqueue {write.op_id}, whose value came out, was taken out", without(ops, write)


def _queue_holders(ops: list[Op]) -> int | None:
    """How many takers may have something when the last look finds nothing; None without such a
    look, and where one of them may have any number."""
    looks = [op for op in finals(ops, "dequeue") if op.output is None]
    takers = [op for op in ops if op.outcome is not Outcome.OK and op.op_type != "enqueue"]
    if not looks or any(op.op_type == "drain" for op in takers):
        return None
    since = max(looks, key=end).invoke_ts
    return sum(op.outcome is Outcome.UNKNOWN or end(op) >= since for op in takers)


def _queue_lost(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """More dequeues are taken out than others could stand in for."""
    sole, spare = _sole(ops), _queue_holders(ops)
    gone = [op for op in _takes(ops) if op.output in sole]
    if spare is None or len(gone) <= spare:
        return None
    lost = dice.sample(gone, spare + 1)
    return f"{spare + 1} dequeues, first {lost[0].op_id}, were taken out", without(ops, *lost)


def _queue_repeated(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """As often as no other dequeues could stand in for it."""
    sole, spare = _sole(ops), _queue_holders(ops)
    times = Counter(op.output for op in _takes(ops))
    once = [value for value in sole if times[value] == 1]
    if spare is None or len(once) < 2 * (spare + 1):
        return None
    chosen = dice.sample(once, 2 * (spare + 1))
    kept, others = chosen[: spare + 1], chosen[spare + 1 :]
    again = {sole[b].op_id: {"input": a} for a, b in zip(kept, others, strict=True)}
    takes = [op for op in _takes(ops) if op.output in others]
    message = f"{spare + 1} enqueues, first {sole[others[0]].op_id}, put in what another one had"
    return message, changed(without(ops, *takes), again)


def _queue_duplicate(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """A dequeue that found nothing finds what had come out before; nothing else is touched."""
    sole = _sole(ops)
    taken = [op for op in _takes(ops) if op.output in sole]
    looks = [op for op in acked(ops, "dequeue") if op.output is None]
    # The last look says that nothing is left; better not that one.
    idle = pick(dice, looks[:-1] or looks)
    before = pick(dice, [op for op in taken if idle is not None and end(op) < idle.invoke_ts])
    if before is None:
        return None
    return f"dequeue {idle.op_id} got what {before.op_id} had got", changed(
        ops, {idle.op_id: {"output": before.output}}
    )


def _queue_replaced(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    sole = _sole(ops)
    takes = [op for op in _takes(ops) if op.output in sole]
    if len(takes) < 2:
        return None
    a, b = dice.sample(takes, 2)
    return f"dequeue {b.op_id} got what {a.op_id} had got", changed(
        ops, {b.op_id: {"output": a.output}}
    )


def _queue_phantom(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    take = pick(dice, acked(ops, "dequeue"))
    if take is None:
        return None
    return f"dequeue {take.op_id} got a phantom", changed(ops, {take.op_id: {"output": PHANTOM}})


def _queue_swapped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    sole = _sole(ops)
    takes = [op for op in _takes(ops) if op.output in sole]
    for a, b in in_turn(takes, dice):
        if end(sole[a.output]) < sole[b.output].invoke_ts:
            return f"dequeues {a.op_id} and {b.op_id} swapped outputs", changed(
                ops, {a.op_id: {"output": b.output}, b.op_id: {"output": a.output}}
            )
    return None


QUEUE: Final = {
    "total": {
        "dropped-write": _queue_dropped,
        "lost": _queue_lost,
        "repeated": _queue_repeated,
        "duplicate": _queue_duplicate,
        "replaced": _queue_replaced,
        "phantom": _queue_phantom,
    },
    "fifo": {"swapped": _queue_swapped},
}


def _id_twice(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    """Of two ids next to each other, so that no order of ids is broken as well."""
    given = sorted(acked(ops, "generate"), key=lambda op: token(op.output))
    if all(type(op.output) is int for op in given):
        given.sort(key=lambda op: op.output)
    pair = pick(dice, list(pairwise(given)))
    if pair is None:
        return None
    a, b = pair
    return f"ops {a.op_id} and {b.op_id} got one id", changed(ops, {b.op_id: {"output": a.output}})


def _ids_swapped(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    given = [op for op in acked(ops, "generate") if type(op.output) is int]
    for a, b in in_turn(given, dice):
        if a.output < b.output:
            return f"ops {a.op_id} and {b.op_id} swapped ids", changed(
                ops, {a.op_id: {"output": b.output}, b.op_id: {"output": a.output}}
            )
    return None


IDS: Final = {"duplicate": _id_twice, "swapped": _ids_swapped}


def _audits(ops: list[Op]) -> list[Op]:
    return [op for op in finals(ops, "audit") if isinstance(op.output, list)]


def _idem(op: Op) -> Any:
    return op.input.get("id") if isinstance(op.input, dict) else None


def _ledger(kind: str, ops: list[Op], dice: random.Random) -> Made:
    audit = pick(dice, [a for a in _audits(ops) if a.output])
    if audit is None:
        return None
    output = list(audit.output)
    if kind == "phantom":
        output.append(PHANTOM)
    elif kind == "duplicate":
        output.append(dice.choice(output))
    elif kind == "lost":
        sure = {_idem(op) for op in acked(ops, "credit", "debit", "apply", "pay")}
        gone = pick(dice, [v for v in output if v in sure])
        if gone is None:
            return None
        output = [v for v in output if v != gone]
    else:
        name = dice.choice(output)
        tries = [op for op in attempts(ops, "credit", "debit", "apply", "pay") if _idem(op) == name]
        return f"all {len(tries)} attempts of {name!r} were taken out", without(ops, *tries)
    return f"{kind} in audit {audit.op_id}", changed(ops, {audit.op_id: {"output": output}})


LEDGER: Final = {
    "dropped-write": lambda ops, dice, o: _ledger("dropped-write", ops, dice),
    "phantom": lambda ops, dice, o: _ledger("phantom", ops, dice),
    "duplicate": lambda ops, dice, o: _ledger("duplicate", ops, dice),
    "lost": lambda ops, dice, o: _ledger("lost", ops, dice),
}
