"""Canaries: broken copies of a run's own history that its checker must reject.

A checker that accepts everything would pass every run. So each run's history is copied with one
value changed such that no order of operations can explain it any more, and the checker is asked
again. Mutants are for registers (`read`, `write`, `cas`) and hold one key's operations only.

| mutant | what is changed | why no order explains it |
|---|---|---|
| phantom-value | a read returns a value that nobody ever wrote | reads return written values |
| lost-write | an acknowledged write that a later read saw is taken out | as above |
| stale-read | a read returns an overwritten value | two writes and the read in strict turn |
| planted-stale-read | two writes and such a read follow | as above, where all values repeat |
| swapped-reads | two reads, a write between them, swap their outputs | the first sees the future |

Only values that a single operation can have written are used, and only strict real-time order, so
that each mutant is a violation for certain; a kind that this history offers nothing for is left
out. Source: discipline 5.2, canary rule.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import rng
from dstest.core.check import CheckResult
from dstest.core.history import History
from dstest.core.op import Key, Op, Outcome

_TRIES: Final = 200
"""Keys looked at per kind before the kind counts as not applicable."""


class Mutant(NamedTuple):
    """One broken copy: its kind, what was done in a sentence, and the key's operations."""

    kind: str
    description: str
    history: History


class _Write(NamedTuple):
    """An operation that surely or maybe wrote `value`; `end` is None where that is unknown."""

    op: Op
    value: Any
    end: int | None


def token(value: Any) -> str:
    """Values compare as JSON: 1 and True differ, and lists can be looked up."""
    return json.dumps(value, sort_keys=True, default=repr)


def _writes(ops: list[Op]) -> dict[str, list[_Write]]:
    """All that may have been written, by value. Definite failures wrote nothing."""
    writes: dict[str, list[_Write]] = {}
    for op in ops:
        # A cas that answered false compared and wrote nothing.
        wrote = op.op_type == "write" or (op.op_type == "cas" and op.output is not False)
        if wrote and op.outcome is not Outcome.FAIL:
            end = op.complete_ts if op.outcome is Outcome.OK else None
            value = op.input[1] if op.op_type == "cas" else op.input
            writes.setdefault(token(value), []).append(_Write(op, value, end))
    return writes


def _reads(ops: list[Op]) -> list[Op]:
    return [op for op in ops if op.op_type == "read" and op.outcome is Outcome.OK]


def _replaced(ops: list[Op], changes: dict[int | str, Any]) -> list[Op]:
    return [
        msgspec.structs.replace(op, output=changes[op.op_id]) if op.op_id in changes else op
        for op in ops
    ]


_Made = tuple[str, list[Op]] | None


def _phantom(ops: list[Op], dice: random.Random) -> _Made:
    reads = _reads(ops)
    if not reads:
        return None
    numbers = [abs(v) for op in ops for v in (op.input, op.output) if type(v) is int] + [
        abs(v) for op in ops if isinstance(op.input, list) for v in op.input if type(v) is int
    ]
    value = max(numbers, default=0) + 1_000_003
    read = dice.choice(reads)
    return f"read {read.op_id} returns {value}, which nobody wrote", _replaced(
        ops, {read.op_id: value}
    )


def _lost(ops: list[Op], dice: random.Random) -> _Made:
    writes = _writes(ops)
    seen = [
        (candidates[0], read)
        for read in _reads(ops)
        if len(candidates := writes.get(token(read.output), [])) == 1
        and candidates[0].op.op_type == "write"
        and candidates[0].end is not None
        and read.output is not None
        and candidates[0].end < read.invoke_ts
    ]
    if not seen:
        return None
    write, read = dice.choice(seen)
    kept = [op for op in ops if op.op_id != write.op.op_id]
    return f"write {write.op.op_id}, seen by read {read.op_id}, was taken out", kept


def _stale(ops: list[Op], dice: random.Random) -> _Made:
    """w1 ends before w2 begins, w2 ends before the read begins: reading w1's value is stale.

    Certain only if nothing else writes w1's value, and nothing but w1 and w2 matters then: w2 is
    a plain write, so after it the register cannot hold w1's value again.
    """
    writes = _writes(ops)
    lone = [
        w[0]
        for w in writes.values()
        if len(w) == 1 and w[0].end is not None and w[0].value is not None
    ]
    plain = [w for w in lone if w.op.op_type == "write"]
    for read in dice.sample(reads := _reads(ops), len(reads)):
        before = [w for w in plain if w.end is not None and w.end < read.invoke_ts]
        if not before:
            continue
        second = max(before, key=lambda w: w.op.invoke_ts)
        older = [w for w in lone if w.end is not None and w.end < second.op.invoke_ts]
        if older:
            first = dice.choice(older)
            message = f"read {read.op_id} returns {first.value!r}, overwritten by {second.op.op_id}"
            return message, _replaced(ops, {read.op_id: first.value})
    return None


def _swapped(ops: list[Op], dice: random.Random) -> _Made:
    """r1 ends before the only write of r2's value begins: with r2's output r1 saw the future."""
    writes = _writes(ops)
    reads = _reads(ops)
    for later in dice.sample(reads, len(reads)):
        candidates = writes.get(token(later.output), [])
        if len(candidates) != 1 or later.output is None:
            continue
        begins = candidates[0].op.invoke_ts
        earlier = [
            r
            for r in reads
            if r.complete_ts is not None
            and r.complete_ts < begins
            and token(r.output) != token(later.output)
        ]
        if earlier:
            first = dice.choice(earlier)
            message = f"reads {first.op_id} and {later.op_id} swapped outputs"
            return message, _replaced(ops, {first.op_id: later.output, later.op_id: first.output})
    return None


_MAKERS: Final[dict[str, Callable[[list[Op], random.Random], _Made]]] = {
    "phantom-value": _phantom,
    "lost-write": _lost,
    "stale-read": _stale,
    "swapped-reads": _swapped,
}
KINDS: Final = tuple(_MAKERS)


def _by_key(history: History) -> list[tuple[Key, list[Op]]]:
    groups: dict[str, tuple[Key, list[Op]]] = {}
    for op in history.ops:
        groups.setdefault(token(op.key), (op.key, []))[1].append(op)
    return [(key, ops) for key, ops in groups.values() if _reads(ops)]


def planted_stale_read(history: History) -> Mutant | None:
    """After all that a key saw: two writes of values of our own, then a read of the first.

    Nothing else writes these values, whatever is still open.
    """
    keys = _by_key(history)
    if not keys:
        return None
    key, ops = keys[0]
    last = max((op.complete_ts or op.invoke_ts for op in ops), default=0)
    numbers = [abs(v) for op in ops for v in (op.input, op.output) if type(v) is int]
    first, second = (max(numbers, default=0) + 1_000_003 + i for i in (0, 1))
    steps = (("write", first, None), ("write", second, None), ("read", None, first))
    made = [
        msgspec.structs.replace(
            ops[0],
            op_id=f"canary-{at}",
            process_id="canary",
            invoke_ts=last + 2 * at + 1,
            complete_ts=last + 2 * at + 2,
            op_type=op_type,
            input=input_,
            output=output,
            error=None,
            timeout_marker=False,
        )
        for at, (op_type, input_, output) in enumerate(steps)
    ]
    message = f"key {key}: {first} is read after {second} was written over it"
    copy = msgspec.structs.replace(history, ops=[*ops, *made])
    return Mutant("planted-stale-read", message, copy)


def mutants(history: History, seed: int, count: int = 8) -> Iterator[Mutant]:
    """Up to `count` mutants, the kinds in turn, each on another key where there are several."""
    dice = rng.stream(seed, "canary")
    keys = _by_key(history)
    dice.shuffle(keys)
    turns = {kind: iter(keys[:_TRIES]) for kind in KINDS}
    made = 0
    while turns and made < count:
        for kind in list(turns):
            mutant = _next(kind, turns[kind], history, dice)
            if mutant is None:
                del turns[kind]
                continue
            made += 1
            yield mutant
            if made == count:
                return


def _next(
    kind: str, keys: Iterator[tuple[Key, list[Op]]], history: History, dice: random.Random
) -> Mutant | None:
    for key, ops in keys:
        made = _MAKERS[kind](ops, dice)
        if made is not None:
            said, changed = made
            copy = msgspec.structs.replace(history, ops=changed)
            return Mutant(kind, f"key {key}: {said}", copy)
    return None


def canary(
    history: History,
    check: Callable[[History], CheckResult],
    seed: int,
    mutants_max: int = 8,
    make: Callable[[History, int, int], Iterator[Mutant]] = mutants,
) -> tuple[int, int, list[dict[str, Any]]]:
    """(killed, total, details): how many broken copies of `history` the checker rejected.

    `make` makes the copies; the default is for registers.

    An answer of `unknown` does not count as rejected. Details hold, per mutant, `kind`, `mutant`
    (what was changed) and `valid` (the checker's answer).
    """
    details: list[dict[str, Any]] = []
    for mutant in make(history, seed, mutants_max):
        result = check(mutant.history)
        details.append({"kind": mutant.kind, "mutant": mutant.description, "valid": result.valid})
    killed = sum(1 for row in details if row["valid"] is False)
    return killed, len(details), details
