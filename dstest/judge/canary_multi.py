"""Canaries of registers changed together by transactions; see `canary_models`.

| mutant | what is changed | why no order explains it |
|---|---|---|
| phantom-value | a transaction reads what nobody wrote | it came from nowhere |
| lost-write | an acknowledged transaction that another one saw is taken out | as above |
| stale-value | a transaction reads what was overwritten before it began | three in strict turn |
| torn-write | of two registers written together one is read as before, one as after | all at once |

Only values that a single transaction can have written are used.
"""

from __future__ import annotations

import random
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge.canary import token
from dstest.judge.canary_containers import Made, Maker, changed, without

_TRIES: Final = 200
_WINDOW: Final = 300

Write = tuple[Op, Any]
"""Who wrote, and the value."""


def _ok(op: Op) -> bool:
    return op.outcome is Outcome.OK


def _before(x: Op, y: Op) -> bool:
    return _ok(x) and (x.complete_ts or 0) < y.invoke_ts


def _writes(ops: list[Op]) -> dict[str, list[Op]]:
    """All that may have written a value to a register; one-register operations too."""
    writes: dict[str, list[Op]] = {}
    for op in ops:
        if op.outcome is Outcome.FAIL or (op.op_type == "cas" and op.output is False):
            continue
        if op.op_type == "txn":
            written = [(key, value) for f, key, value in op.input if f[0] == "w"]
        elif op.op_type == "write":
            written = [(op.key, op.input)]
        else:
            written = [(op.key, op.input[1])] if op.op_type == "cas" else []
        for key, value in written:
            writes.setdefault(token([key, value]), []).append(op)
    return writes


def _single(ops: list[Op]) -> dict[str, list[Write]]:
    """Per register, in order of invocation: acknowledged writes of what nobody else writes."""
    writes = _writes(ops)
    found: dict[str, list[Write]] = {}
    for op in ops:
        for f, key, value in op.input if op.op_type == "txn" and _ok(op) else ():
            if f[0] == "w" and value is not None and len(writes[token([key, value])]) == 1:
                found.setdefault(token(key), []).append((op, value))
    return found


def _reads(ops: list[Op]) -> list[tuple[Op, int]]:
    """Micro-reads of ok transactions that do not write the register themselves."""
    return [
        (op, i)
        for op in ops
        if op.op_type == "txn" and _ok(op)
        for i, (f, key, _) in enumerate(op.output)
        if f[0] == "r" and not any(g[0] == "w" and k == key for g, k, _ in op.input)
    ]


def _sampled(ops: list[Op], dice: random.Random) -> list[tuple[Op, int]]:
    reads = _reads(ops)
    return dice.sample(reads, min(len(reads), _TRIES))


def _reading(ops: list[Op], op: Op, i: int, value: Any) -> list[Op]:
    """The operations, with another value where `op` read its i-th."""
    rows = [list(row) for row in op.output]
    rows[i][2] = value
    return changed(ops, {op.op_id: rows})


def _phantom(ops: list[Op], dice: random.Random) -> Made:
    for op, i in _sampled(ops, dice)[:1]:
        said = f"txn {op.op_id} reads what nobody wrote"
        return said, _reading(ops, op, i, "nobody wrote this")
    return None


def _lost(ops: list[Op], dice: random.Random) -> Made:
    writes = _writes(ops)
    for op, i in _sampled(ops, dice):
        _, key, value = op.output[i]
        found = writes.get(token([key, value]), [])
        if value is not None and len(found) == 1:
            said = f"txn {found[0].op_id}, seen by {op.op_id}, was taken out"
            return said, without(ops, found[0])
    return None


def _older(writes: list[Write], than: Op, dice: random.Random) -> Write | None:
    """One that was certainly over before this operation began."""
    found = [w for w in writes if _before(w[0], than)][-_WINDOW:]
    return dice.choice(found) if found else None


def _stale(ops: list[Op], dice: random.Random) -> Made:
    single = _single(ops)
    for op, i in _sampled(ops, dice):
        key = op.output[i][1]
        over = [w for w in single.get(token(key), []) if _before(w[0], op)]
        newer = over[-1] if over else None
        older = _older(over, newer[0], dice) if newer is not None else None
        if newer is not None and older is not None:
            message = f"txn {op.op_id} reads {older[1]!r}, overwritten by {newer[0].op_id}"
            return message, _reading(ops, op, i, older[1])
    return None


def _torn(ops: list[Op], dice: random.Random) -> Made:
    writes, single = _writes(ops), _single(ops)
    for op, i in _sampled(ops, dice):
        _, key, value = op.output[i]
        seen = writes.get(token([key, value]), [])
        if value is None or len(seen) != 1 or seen[0].op_type != "txn" or seen[0] is op:
            continue
        for _, j in _reads([op]):
            other = op.output[j][1]
            if other == key or not any(g[0] == "w" and k == other for g, k, _ in seen[0].input):
                continue
            older = _older(single.get(token(other), []), seen[0], dice)
            if older is not None:
                message = f"txn {op.op_id} reads half of what {seen[0].op_id} wrote"
                return message, _reading(ops, op, j, older[1])
    return None


def multi_makers() -> dict[str, Maker]:
    """Makers for transactions on registers."""
    return {
        "phantom-value": _phantom,
        "lost-write": _lost,
        "stale-value": _stale,
        "torn-write": _torn,
    }
