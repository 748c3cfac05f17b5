"""Mutants of what transactions saw of groups, and of reads and inserts by predicate.

| mutant | what is changed | why it is a violation |
|---|---|---|
| skewed | the last read of a look shows one bump more, if so many had begun | not one moment |
| regressed | the last read of a look shows one bump less than those before it | seen, then unseen |
| phantom | a look shows more bumps than there were; a refused insert is alone | from nowhere |
| stale | a look shows one bump less than the last that had ended before it | strict real time |
| duplicate | two bumps made one number; a refused insert took effect | one of them is not seen |
| mismatched | a predicate read shows a row that the predicate does not hold of | no such result |

Of predicate reads skewed are two transactions that both missed what the other one inserted,
fractured is one that found one of two rows of a transaction, and stale one that missed a row that
was there before; they are planted behind the others, with keys and values of their own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge._mutate import PHANTOM, Made, acked, attempts, changed, end, pick, without

_Opts = Mapping[str, Any]


def _reads(op: Op) -> list[int]:
    """Places of the reads among a look's steps."""
    return [at for at, step in enumerate(op.output) if step[0] == "r"]


def _saying(op: Op, numbers: Mapping[int, int]) -> dict[str, Any]:
    """The look with other numbers at these places."""
    rows = [
        [*step[:2], numbers[at]] if at in numbers else step for at, step in enumerate(op.output)
    ]
    return {"output": rows}


def _looks(ops: list[Op]) -> list[Op]:
    return [op for op in acked(ops, "look") if len(_reads(op)) > 1]


def _skewed(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    began = [op.invoke_ts for op in attempts(ops, "bump")]
    made = {op.output[0]: op.invoke_ts for op in acked(ops, "bump") if op.output}

    def room(op: Op) -> bool:
        top: int = max(op.output[at][2] for at in _reads(op))
        made_late = made.get(top + 1, 0) > end(op)
        return sum(at <= end(op) for at in began) > top and not made_late

    look = pick(dice, filter(room, _looks(ops)))
    if look is None:
        return None
    at = _reads(look)[-1]
    copy = changed(ops, {look.op_id: _saying(look, {at: look.output[at][2] + 1})})
    return f"the last read of look {look.op_id} shows one bump more", copy


def _regressed(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    look = pick(dice, [op for op in _looks(ops) if _earlier(op) > 0])
    if look is None:
        return None
    copy = changed(ops, {look.op_id: _saying(look, {_reads(look)[-1]: _earlier(look) - 1})})
    return f"the last read of look {look.op_id} shows one bump less than an earlier one", copy


def _earlier(look: Op) -> int:
    """The highest number before the last read."""
    return max(int(look.output[at][2]) for at in _reads(look)[:-1])


def _everywhere(look: Op, n: int) -> dict[str, Any]:
    return _saying(look, dict.fromkeys(_reads(look), n))


def _phantom(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    look = pick(dice, _looks(ops))
    if look is None:
        return None
    return f"look {look.op_id} shows {PHANTOM}", changed(
        ops, {look.op_id: _everywhere(look, PHANTOM)}
    )


def _stale(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    made = [(end(op), op.output[0]) for op in acked(ops, "bump")]
    for look in dice.sample(looks := _looks(ops), len(looks)):
        last = max((n for at, n in made if at < look.invoke_ts), default=0)
        if last:
            message = f"look {look.op_id} shows {last - 1}, and a bump that made {last} had ended"
            return message, changed(ops, {look.op_id: _everywhere(look, last - 1)})
    return None


def _same_number(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    bumps = [op for op in acked(ops, "bump") if op.output]
    if len(bumps) < 2:
        return None
    one, other = dice.sample(bumps, 2)
    message = f"bumps {one.op_id} and {other.op_id} made one number"
    return message, changed(ops, {other.op_id: {"output": one.output}})


VIEWS: Final = {
    "skewed": _skewed,
    "regressed": _regressed,
    "phantom": _phantom,
    "stale": _stale,
    "duplicate": _same_number,
}


def _refused(ops: list[Op]) -> tuple[list[Op], list[Op]]:
    """Inserts that saw a row; the one that took effect, if it alone can have put it there."""
    done = acked(ops, "insert")
    unknown = [op for op in ops if op.op_type == "insert" and op.outcome is Outcome.UNKNOWN]
    won = [op for op in done if op.output is True]
    lost = [op for op in done if op.output is False]
    return (lost, won) if len(won) == 1 and not unknown else ([], [])


def _twice(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    late = pick(dice, _refused(ops)[0])
    if late is None:
        return None
    return f"insert {late.op_id} took effect as well", changed(ops, {late.op_id: {"output": True}})


def _alone(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    lost, won = _refused(ops)
    if not lost:
        return None
    return f"insert {won[0].op_id}, whose row others saw, was taken out", without(ops, won[0])


PAIRS: Final = {"duplicate": _twice, "phantom": _alone}


_OWN_KEY: Final = PHANTOM
"""Rows that are planted have keys and values from here on."""


def _planted(ops: list[Op], *txns: tuple[int, int, list[list[Any]]]) -> list[Op]:
    """With these transactions (begin and end in ns after all others, micro-ops) behind the rest."""
    last = max(max(op.invoke_ts, op.complete_ts or 0) for op in ops) + 1
    number = max((op.op_id for op in ops if isinstance(op.op_id, int)), default=0) + 1_000_000
    process = max((op.process_id for op in ops if isinstance(op.process_id, int)), default=0) + 1
    more = [
        Op(
            op_id=number + n,
            process_id=process + n,
            invoke_ts=last + begin,
            complete_ts=last + done,
            op_type="txn",
            key=ops[0].key,
            input=[step[:2] if step[0] == "rp" else step for step in steps],
            output=steps,
        )
        for n, (begin, done, steps) in enumerate(txns)
    ]
    return [*ops, *more]


def _equal(value: int, *keys: int) -> list[Any]:
    return ["rp", ["=", value], [[key, value] for key in keys]]


def _found_nothing_twice(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    rows = [["insert", _OWN_KEY + n, PHANTOM] for n in range(2)]
    copy = _planted(ops, *((0, 10, [_equal(PHANTOM), row]) for row in rows))
    return "two transactions found no row of a value, and both inserted one", copy


def _missed(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    row = ["insert", _OWN_KEY, PHANTOM]
    copy = _planted(ops, (0, 1, [row]), (2, 3, [_equal(PHANTOM)]))
    return "a predicate read missed a row that had been inserted before it began", copy


def _half_seen(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    rows = [["insert", _OWN_KEY + n, PHANTOM + n] for n in range(2)]
    looks = [_equal(PHANTOM, _OWN_KEY), _equal(PHANTOM + 1)]
    copy = _planted(ops, (0, 1, rows), (2, 3, looks))
    return "predicate reads found one of two rows that a transaction had inserted", copy


def _reading(ops: list[Op], dice: random.Random, value: int, *, fits: bool) -> Made:
    """A predicate read returns a row of this value besides."""
    for op in dice.sample(done := acked(ops, "txn"), len(done)):
        for at, step in enumerate(op.output):
            if step[0] == "rp" and isinstance(step[1], list) and step[1][0] == "mod":
                _, modulus, rest = step[1]
                even = value - value % modulus + rest + (not fits)
                rows = [*op.output[:at], [*step[:2], [*step[2], [_OWN_KEY, even]]]]
                copy = changed(ops, {op.op_id: {"output": [*rows, *op.output[at + 1 :]]}})
                return f"a predicate read of {op.op_id} shows {even}", copy
    return None


def _nobodys(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    return _reading(ops, dice, PHANTOM, fits=True)


def _unfit(ops: list[Op], dice: random.Random, options: _Opts) -> Made:
    return _reading(ops, dice, PHANTOM, fits=False)


PREDICATES: Final = {
    "phantom": _nobodys,
    "mismatched": _unfit,
    "skewed": _found_nothing_twice,
    "fractured": _half_seen,
    "stale": _missed,
}
