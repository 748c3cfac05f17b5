"""Broken copies of sessions, streams, groups and predicate reads: of models that say what is seen
by whom, and together with what; what is of these models alone.

Of predicate reads `found_nothing_twice` are two transactions that both missed what the other one
inserted, `half_seen` is one that found one of two rows of a transaction, and `row_missed` one that
missed a row that was there before; they are planted behind the others, with keys and values of
their own.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge.mutants.shapes import (
    PHANTOM,
    Feed,
    Made,
    Maker,
    Part,
    acked,
    answering,
    attempts,
    end,
    in_turn,
    over,
    pick,
    some,
    without,
)


def _version(op: Op) -> int:
    return int(op.output["version"])


Session = list[Op]
"""What one process did with one key, acknowledged, in order."""


def _sessions(part: Part, dice: random.Random) -> list[Session]:
    by_process: dict[Any, Session] = {}
    for op in acked(part.ops, "read", "write"):
        by_process.setdefault(op.process_id, []).append(op)
    names = sorted(by_process, key=str)
    return [by_process[name] for name in dice.sample(names, len(names))]


def _pairs(session: Session, first: str) -> list[tuple[Op, int]]:
    """(an operation of this type with a version, the place of a later read)."""
    found: list[tuple[Op, int]] = []
    had: list[Op] = []
    for at, op in enumerate(session):
        if op.op_type == "read":
            found += [(before, at) for before in had[:1] + had[-1:]]
        if op.op_type == first and _version(op) > 0:
            had.append(op)
    return found


_NOTHING: Final = {"version": 0, "value": None}


def session_reread(part: Part, dice: random.Random) -> Made:
    """A session that had read a key and not written it finds nothing there any more."""
    for session in _sessions(part, dice):
        wrote = next((at for at, op in enumerate(session) if op.op_type == "write"), len(session))
        pair = pick(dice, [two for two in _pairs(session, "read") if two[1] < wrote])
        if pair is not None:
            a, b = pair[0], session[pair[1]]
            said = f"read {b.op_id} finds nothing, after read {a.op_id} of the same session"
            return said, answering(part.ops, (b, _NOTHING))
    return None


def session_own(part: Part, dice: random.Random) -> Made:
    """A session does not find what it wrote; its own reads before that are taken out."""
    for session in _sessions(part, dice):
        pair = pick(dice, _pairs(session, "write"))
        if pair is not None:
            a, b = pair[0], session[pair[1]]
            earlier = acked(session[: pair[1]], "read")
            said = f"read {b.op_id} finds nothing, after write {a.op_id} of the same session"
            return said, answering(without(part.ops, *earlier), (b, _NOTHING))
    return None


def session_swapped(part: Part, dice: random.Random) -> Made:
    """Two writes of one session change versions; reads that would show it otherwise are gone."""
    for session in _sessions(part, dice):
        writes = pairwise(acked(session, "write"))
        pair = pick(dice, [(a, b) for a, b in writes if _version(a) < _version(b)])
        if pair is None:
            continue
        a, b = pair
        told = {_version(a), _version(b)}
        gone = [op for op in acked(part.ops, "read") if _version(op) in told]
        gone += acked(session[session.index(a) : session.index(b)], "read")
        said = f"writes {a.op_id} and {b.op_id} of one session swapped versions"
        return said, answering(without(part.ops, *gone), (a, b.output), (b, a.output))
    return None


def session_ahead(part: Part, dice: random.Random) -> Made:
    """A session reads what was written later than what it writes next; its later reads are gone."""
    writes = [op for op in acked(part.ops, "write") if _version(op) > 0]
    newest = max(writes, key=_version, default=None)
    for session in _sessions(part, dice) if newest is not None else ():
        last = -1
        for at, op in enumerate(session):
            if newest is not None and op.op_type == "write" and _version(op) < _version(newest):
                last = at
        a = pick(dice, acked(session[: max(0, last)], "read"))
        if a is None or newest is None:
            continue
        later = acked(session[session.index(a) + 1 :], "read")
        output = {"version": _version(newest), "value": newest.input}
        said = (
            f"read {a.op_id} sees {newest.op_id}, which write {session[last].op_id} of its session"
            " precedes"
        )
        return said, answering(without(part.ops, *later), (a, output))
    return None


def causal_past(part: Part, dice: random.Random) -> Made:
    """A read finds nothing at a key that its own process had written or read before."""
    had: set[tuple[Any, Any]] = set()
    late = []
    for op in acked(part.ops, "read", "write"):
        here = (op.process_id, op.key)
        if op.op_type == "read" and here in had:
            late.append(op)
        if op.op_type == "write" or op.output is not None:
            had.add(here)
    read = pick(dice, late)
    return read and (f"read {read.op_id} finds nothing", answering(part.ops, (read, None)))


def _two_entries(shape: Feed, part: Part, dice: random.Random) -> tuple[Op, list[Any], int] | None:
    """An observation, its entries, and the place of one that is not the last."""
    op = pick(dice, [op for op in part.once(shape.observers) if len(shape.entries(op)) > 1])
    if op is None:
        return None
    return op, list(shape.entries(op)), dice.randrange(len(shape.entries(op)) - 1)


def _known_places(shape: Feed, part: Part) -> set[Any]:
    """Places that writers were told."""
    return {op.output[shape.offset] for op in acked(part.ops, *shape.writers)}


def entry_lost(shape: Feed) -> Maker:
    """Not the last one: without an explicit end it would shorten the claim."""

    def make(part: Part, dice: random.Random) -> Made:
        found = _two_entries(shape, part, dice)
        if found is None or shape.place(found[1][found[2]]) not in _known_places(shape, part):
            return None
        op, entries, at = found
        del entries[at]
        said = f"{op.op_type} {op.op_id} lacks entry {at}"
        return said, answering(part.ops, (op, shape.holding(op, entries)))

    return make


def values_swapped(shape: Feed) -> Maker:
    """Of two neighbours, of one of which the writer was told where it stands."""

    def make(part: Part, dice: random.Random) -> Made:
        found = _two_entries(shape, part, dice)
        if found is None:
            return None
        op, entries, at = found
        a, b = entries[at : at + 2]
        if not {shape.place(a), shape.place(b)} & _known_places(shape, part):
            return None
        entries[at] = shape.with_value(a, shape.value(b))
        entries[at + 1] = shape.with_value(b, shape.value(a))
        said = f"{op.op_type} {op.op_id}: entries {at} and {at + 1} swapped values"
        return said, answering(part.ops, (op, shape.holding(op, entries)))

    return make


def poll_stale(part: Part, dice: random.Random) -> Made:
    """A poll ends before a record that had been acknowledged when it began. It is the last of its
    process, so that nothing was passed over either."""
    polls = [op for op in acked(part.ops, "poll") if isinstance(op.input, dict)]
    for op in some(dice, [op for op in polls if "from" in op.input]):
        start = op.input["from"]
        sends = acked(part.ops, "send")
        told = next((w for w in sends if over(w, op) and w.output["offset"] >= start), None)
        if told is not None:
            later = [
                p for p in polls if p.process_id == op.process_id and p.invoke_ts > op.invoke_ts
            ]
            said = f"poll {op.op_id} finds nothing, though send {told.op_id} was acknowledged"
            output = {"records": [], "to": start - 1, "more": False}
            return said, answering(without(part.ops, *later), (op, output))
    return None


def fork(part: Part, dice: random.Random) -> Made:
    """Two reads saw one of two writes each."""
    writes, reads = acked(part.ops, "write"), acked(part.ops, "read")
    if len(writes) < 2:
        return None
    a, b = dice.sample(writes, 2)
    late = [r for r in reads if end(r) > max(a.invoke_ts, b.invoke_ts)]
    if len(late) < 2:
        return None
    x, y = dice.sample(late, 2)
    said = f"read {x.op_id} saw only {a.op_id}, read {y.op_id} only {b.op_id}"
    return said, answering(part.ops, (x, [list(a.input)]), (y, [list(b.input)]))


def reversed_(part: Part, dice: random.Random) -> Made:
    """A read saw the younger of two writes alone."""
    for a, b in in_turn(acked(part.ops, "write"), dice):
        read = pick(dice, [r for r in acked(part.ops, "read") if end(r) > b.invoke_ts])
        if read is not None:
            said = f"read {read.op_id} saw {b.op_id} and not {a.op_id}, which had ended before"
            return said, answering(part.ops, (read, [list(b.input)]))
    return None


def sees_nothing(part: Part, dice: random.Random) -> Made:
    """Nothing at all: that is a prefix of everything, but too old."""
    writes = acked(part.ops, "write")
    for read in some(dice, acked(part.ops, "read")):
        done = next((op for op in writes if over(op, read)), None)
        if done is not None and read.output:
            said = f"read {read.op_id} sees nothing, though {done.op_id} had ended before"
            return said, answering(part.ops, (read, [[pair[0], None] for pair in read.output]))
    return None


def _reads(op: Op) -> list[int]:
    """Places of the reads among a look's steps."""
    return [at for at, step in enumerate(op.output) if step[0] == "r"]


def _saying(ops: list[Op], look: Op, numbers: Mapping[int, int]) -> list[Op]:
    """With other numbers at these places of the look."""
    steps = enumerate(look.output)
    rows = [[*step[:2], numbers[at]] if at in numbers else step for at, step in steps]
    return answering(ops, (look, rows))


def _looks(ops: list[Op]) -> list[Op]:
    return [op for op in acked(ops, "look") if len(_reads(op)) > 1]


def bumps(ops: list[Op]) -> list[tuple[Any, Op]]:
    """Bumps by the numbers that they made."""
    return [(op.output[0], op) for op in acked(ops, "bump") if op.output]


def skewed(part: Part, dice: random.Random) -> Made:
    """The look's last read alone sees another bump."""
    began = [op.invoke_ts for op in attempts(part.ops, "bump")]
    made = {number: op.invoke_ts for number, op in part.once(bumps)}

    def room(op: Op) -> bool:
        top: int = max(op.output[at][2] for at in _reads(op))
        made_late = made.get(top + 1, 0) > end(op)
        return sum(at <= end(op) for at in began) > top and not made_late

    look = next(filter(room, some(dice, part.once(_looks))), None)
    if look is None:
        return None
    at = _reads(look)[-1]
    copy = _saying(part.ops, look, {at: look.output[at][2] + 1})
    return f"the last read of look {look.op_id} shows one bump more", copy


def _earlier(look: Op) -> int:
    """The highest number before the last read."""
    return max(int(look.output[at][2]) for at in _reads(look)[:-1])


def regressed(part: Part, dice: random.Random) -> Made:
    """The look's last read does not see what one before it saw."""
    look = pick(dice, [op for op in part.once(_looks) if _earlier(op) > 0])
    if look is None:
        return None
    copy = _saying(part.ops, look, {_reads(look)[-1]: _earlier(look) - 1})
    return f"the last read of look {look.op_id} shows one bump less than an earlier one", copy


def nobodys_bump(part: Part, dice: random.Random) -> Made:
    """All reads of a look show it."""
    look = pick(dice, part.once(_looks))
    if look is None:
        return None
    copy = _saying(part.ops, look, dict.fromkeys(_reads(look), PHANTOM))
    return f"look {look.op_id} shows {PHANTOM}", copy


def bump_missed(part: Part, dice: random.Random) -> Made:
    """All reads of a look miss it."""
    for look in some(dice, part.once(_looks)):
        last = max((n for n, op in part.once(bumps) if over(op, look)), default=0)
        if last:
            said = f"look {look.op_id} shows {last - 1}, and a bump that made {last} had ended"
            return said, _saying(part.ops, look, dict.fromkeys(_reads(look), last - 1))
    return None


def _refused(ops: list[Op]) -> tuple[list[Op], list[Op]]:
    """Inserts that saw a row; the one that took effect, if it alone can have put it there."""
    tried = attempts(ops, "insert")
    won = [op for op in tried if op.output is True]
    lost = [op for op in tried if op.output is False]
    unknown = any(op.outcome is Outcome.UNKNOWN for op in tried)
    return ([], []) if unknown or len(won) != 1 else (lost, won)


def inserted_twice(part: Part, dice: random.Random) -> Made:
    """Both inserts of a pair took effect."""
    late = pick(dice, part.once(_refused)[0])
    return late and (f"insert {late.op_id} took effect as well", answering(part.ops, (late, True)))


def alone(part: Part, dice: random.Random) -> Made:
    """An insert was refused for a row that nobody put in."""
    del dice
    lost, won = part.once(_refused)
    if not lost:
        return None
    return f"insert {won[0].op_id}, whose row others saw, was taken out", without(part.ops, won[0])


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


def found_nothing_twice(part: Part, dice: random.Random) -> Made:
    """Rows that are planted have keys and values from `PHANTOM` on."""
    del dice
    rows = [["insert", PHANTOM + n, PHANTOM] for n in range(2)]
    copy = _planted(part.ops, *((0, 10, [_equal(PHANTOM), row]) for row in rows))
    return "two transactions found no row of a value, and both inserted one", copy


def row_missed(part: Part, dice: random.Random) -> Made:
    """By a transaction that began after the one that inserted it."""
    del dice
    row = ["insert", PHANTOM, PHANTOM]
    copy = _planted(part.ops, (0, 1, [row]), (2, 3, [_equal(PHANTOM)]))
    return "a predicate read missed a row that had been inserted before it began", copy


def half_seen(part: Part, dice: random.Random) -> Made:
    """Two predicates, of which a row each was inserted."""
    del dice
    rows = [["insert", PHANTOM + n, PHANTOM + n] for n in range(2)]
    looks = [_equal(PHANTOM, PHANTOM), _equal(PHANTOM + 1)]
    copy = _planted(part.ops, (0, 1, rows), (2, 3, looks))
    return "predicate reads found one of two rows that a transaction had inserted", copy


def reading(*, fits: bool) -> Maker:
    """A predicate read returns another row, of which the predicate holds or not."""

    def make(part: Part, dice: random.Random) -> Made:
        for op in some(dice, acked(part.ops, "txn")):
            for at, step in enumerate(op.output):
                if step[0] == "rp" and isinstance(step[1], list) and step[1][0] == "mod":
                    _, modulus, rest = step[1]
                    value = PHANTOM - PHANTOM % modulus + rest + (not fits)
                    rows = [*op.output[:at], [*step[:2], [*step[2], [PHANTOM, value]]]]
                    copy = answering(part.ops, (op, [*rows, *op.output[at + 1 :]]))
                    return f"a predicate read of {op.op_id} shows {value}", copy
        return None

    return make
