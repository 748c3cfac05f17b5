"""Operators that break a copy of a history, whatever its operations are called.

A shape (`shapes`) says what a model's operations write, what they see and how an output shows
something else. Each operator is written once over that.
"""

from __future__ import annotations

import bisect
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from dstest.core.op import Op, Outcome
from dstest.judge.mutants.shapes import (
    PHANTOM,
    Lists,
    Made,
    Maker,
    Part,
    Passage,
    Passing,
    Shape,
    Write,
    acked,
    answering,
    began,
    changed,
    end,
    in_turn,
    over,
    pick,
    some,
    token,
    without,
)

_WINDOW: Final = 300
"""Neighbours looked at."""


def phantom(shape: Shape) -> Maker:
    """An observer sees what nobody wrote: it came from nowhere."""

    def make(part: Part, dice: random.Random) -> Made:
        op = pick(dice, part.once(shape.observers))
        if op is None:
            return None
        place, _, _ = pick(dice, shape.seen(op)) or (None, None, None)
        said = f"{op.op_type} {op.op_id} shows {PHANTOM}, which nobody wrote"
        return said, answering(part.ops, (op, shape.showing(op, place, PHANTOM)))

    return make


def nobodys_answer(part: Part, dice: random.Random) -> Made:
    """An acknowledged operation has an answer that nobody gave: one value of its output, which does
    not repeat its input, is another than any there. Whether that is a violation, only who knows
    the operations can say."""
    told = [op for op in part.ops if op.outcome is Outcome.OK and op.output is not None]
    for op in some(dice, told):
        changed_to = _other_value(op.output, op.input)
        if changed_to is not None:
            said = f"{op.op_type} {op.op_id} answers {changed_to!r}, which nobody was told"
            return said, answering(part.ops, (op, changed_to))
    return None


def _other_value(value: Any, asked: Any) -> Any:
    """With its last plain value replaced, None where it has none of its own."""
    if isinstance(value, dict):
        pairs = [(k, v, asked.get(k) if isinstance(asked, dict) else None)
                 for k, v in value.items()]  # fmt: skip
        made = _one_other(pairs)
        return None if made is None else {**value, made[0]: made[1]}
    if isinstance(value, list | tuple):
        same = isinstance(asked, list | tuple) and len(asked) == len(value)
        rows = [(n, one, asked[n] if same else None) for n, one in enumerate(value)]
        made = _one_other(rows)
        return None if made is None else [*value[: made[0]], made[1], *value[made[0] + 1 :]]
    if value == asked or value is None or isinstance(value, bool):
        return None
    return f"{PHANTOM}" if isinstance(value, str) else PHANTOM


def _one_other(rows: list[tuple[Any, Any, Any]]) -> tuple[Any, Any] | None:
    found = ((place, _other_value(value, asked)) for place, value, asked in reversed(rows))
    return next(((place, made) for place, made in found if made is not None), None)


def dropped(shape: Shape) -> Maker:
    """The only write of what an observer saw is taken out, or all attempts where it was retried:
    what it saw came from nowhere."""

    def make(part: Part, dice: random.Random) -> Made:
        writes = part.once(shape.writes)
        for op in some(dice, part.once(shape.observers)):
            seen = [
                found for s in shape.sights(op)
                if s.value is not None and (found := writes.get(s.name))
                and (shape.retried or (len(found) == 1 and over(found[0].op, op)))
            ]  # fmt: skip
            if seen:
                gone = [write.op for write in dice.choice(seen)]
                names = ", ".join(f"{one.op_type} {one.op_id}" for one in gone[:3])
                said = f"{names}, seen by {op.op_type} {op.op_id}, was taken out"
                return said, without(part.ops, *gone)
        return None

    return make


def stale(shape: Shape) -> Maker:
    """w1 ends before w2 begins, w2 ends before the read begins: reading w1's value is stale.

    Certain, for nothing else writes w1's value, and w2 writes whatever was there: after it the key
    cannot hold w1's value again."""

    def make(part: Part, dice: random.Random) -> Made:
        lone = part.once(shape.lone)
        for op in some(dice, part.once(shape.observers)):
            for sight in dice.sample(sights := shape.sights(op), len(sights)):
                mine = lone.get(sight.name[0], [])
                newer = next((w for w in reversed(mine) if w.plain and over(w.op, op)), None)
                older = None if newer is None else _older(mine, newer.op, dice)
                if newer is not None and older is not None:
                    said = f"{op.op_type} {op.op_id} reads {older.value!r}"
                    copy = answering(part.ops, (op, shape.showing(op, sight.place, older.value)))
                    return f"{said}, overwritten by {newer.op.op_id}", copy
        return None

    return make


def _older(writes: list[Write], than: Op, dice: random.Random) -> Write | None:
    """One that was certainly over before this operation began."""
    found: Write | None = pick(dice, [w for w in writes if over(w.op, than)][-_WINDOW:])
    return found


def torn(shape: Shape) -> Maker:
    """Of what one transaction wrote a half is read, and of what was there before the other one; it
    was written all at once."""

    def make(part: Part, dice: random.Random) -> Made:
        writes, lone = part.once(shape.writes), part.once(shape.lone)
        for op in some(dice, part.once(shape.observers)):
            for one in (sights := shape.sights(op)):
                found = writes.get(one.name, [])
                if one.value is None or len(found) != 1:
                    continue
                wrote = found[0].op
                keys = {token(key) for key, *_ in shape.written(wrote)} - {one.name[0]}
                for other in (s for s in sights if s.name[0] in keys):
                    older = _older(lone.get(other.name[0], []), wrote, dice)
                    if older is not None:
                        output = shape.showing(op, other.place, older.value)
                        said = f"{op.op_type} {op.op_id} reads half of what {wrote.op_id} wrote"
                        return said, answering(part.ops, (op, output))
        return None

    return make


def swapped(shape: Shape) -> Maker:
    """One ends before the only write begins of what another one saw: it sees the future."""

    def make(part: Part, dice: random.Random) -> Made:
        writes, ended = part.once(shape.writes), part.once(shape.ended)
        for later in some(dice, part.once(shape.observers)):
            begun = [
                found[0].op.invoke_ts for s in shape.sights(later)
                if s.value is not None and len(found := writes.get(s.name, [])) == 1
            ]  # fmt: skip
            mine = ended[token(later.key)]
            before = bisect.bisect_left(mine, max(begun, default=-1), key=end)
            if before:
                first = mine[dice.randrange(before)]
                said = f"{first.op_type} {first.op_id} and {later.op_id} swapped outputs"
                copy = answering(part.ops, (first, later.output), (later, first.output))
                return said, copy
        return None

    return make


def missing(shape: Lists, which: slice = slice(None)) -> Maker:
    """One of these observations lacks a value that was acknowledged before it began; nothing takes
    values out."""

    def make(part: Part, dice: random.Random) -> Made:
        writes = part.once(shape.writes)
        op = pick(dice, [op for op in part.once(shape.observers)[which] if shape.entries(op)])
        sights = [] if op is None else shape.sights(op)
        sure = [
            s for s in sights
            if (found := writes.get(s.name)) and any(over(w.op, op) for w in found)
            and (shape.retried or len(found) == 1)
        ]  # fmt: skip
        if not sure:
            return None
        gone = dice.choice(sure)
        kept = [shape.entries(op)[s.place] for s in sights if s.name != gone.name]
        said = f"{op.op_type} {op.op_id} lacks {gone.value!r}, acknowledged before"
        return said, answering(part.ops, (op, shape.holding(op, kept)))

    return make


def twice(shape: Lists) -> Maker:
    """An observation has an entry twice, made once; not the last one if there are others."""

    def make(part: Part, dice: random.Random) -> Made:
        op = pick(dice, [op for op in part.once(shape.observers) if shape.entries(op)])
        if op is None:
            return None
        entries = shape.entries(op)
        at = dice.randrange(max(1, len(entries) - 1))
        said = f"{op.op_type} {op.op_id} has entry {at} twice"
        output = shape.holding(op, [*entries[: at + 1], *entries[at:]])
        return said, answering(part.ops, (op, output))

    return make


def reordered(shape: Lists) -> Maker:
    """Two neighbours change places in an observation; where entries have no offset that says so,
    another one, as long, has them in the old order."""

    def make(part: Part, dice: random.Random) -> Made:
        found = [op for op in part.once(shape.observers) if len(shape.entries(op)) > 1]
        least = 1 if shape.numbered else 2
        if len(found) < least:
            return None
        op = min(dice.sample(found, least), key=lambda op: len(shape.entries(op)))
        entries = list(shape.entries(op))
        at = dice.randrange(len(entries) - 1)
        if shape.place(entries[at]) == shape.place(entries[at + 1]):
            return None
        entries[at], entries[at + 1] = entries[at + 1], entries[at]
        said = f"{op.op_type} {op.op_id}: entries {at} and {at + 1} changed places"
        return said, answering(part.ops, (op, shape.holding(op, entries)))

    return make


def taken_again(shape: Passing) -> Maker:
    """Two takes return one value, put in once."""

    def make(part: Part, dice: random.Random) -> Made:
        passages = part.once(shape.passages)
        if len(passages) < 2:
            return None
        a, b = dice.sample(passages, 2)
        said = f"{a.take.op_type} {a.take.op_id} and {b.take.op_id} both return {a.value!r}"
        return said, answering(part.ops, (b.take, a.value))

    return make


def swapped_takes(shape: Passing, in_order: Callable[[Passage, Passage], bool]) -> Maker:
    """Two takes change values, of which `in_order` says that this breaks the order for certain."""

    def make(part: Part, dice: random.Random) -> Made:
        passages = part.once(shape.passages)
        for _ in range(60 if passages else 0):
            at = dice.randrange(len(passages))
            near = [*passages[at + 1 : at + _WINDOW], *passages[max(0, at - _WINDOW) : at]]
            a = passages[at]
            b = pick(dice, [b for b in near if in_order(a, b)])
            if b is not None:
                said = f"{a.take.op_type} {a.take.op_id} and {b.take.op_id} swapped values"
                return said, answering(part.ops, (a.take, b.value), (b.take, a.value))
        return None

    return make


def false_empty(shape: Passing) -> Maker:
    """A take finds nothing between a put and the take of its value, which is surely in there."""

    def make(part: Part, dice: random.Random) -> Made:
        passages, takes = part.once(shape.passages), part.once(shape.taken)
        for _ in range(60 if passages else 0):
            a = dice.choice(passages)
            at = bisect.bisect_left(takes, a.take.invoke_ts, key=began)
            near = takes[max(0, at - _WINDOW) : at]
            op = pick(dice, [o for o in near if over(a.put, o) and over(o, a.take)])
            if op is not None:
                said = f"{op.op_type} {op.op_id} finds nothing, while {a.value!r} is in there"
                return said, answering(part.ops, (op, None))
        return None

    return make


def lost_takes(shape: Passing) -> Maker:
    """Takers of what came out no more often than it was owed are taken out, one more than others
    could stand in for: nobody got what is owed."""

    def make(part: Part, dice: random.Random) -> Made:
        got, puts = part.once(shape.taken), acked(part.ops, shape.put)
        drained = [v for op in acked(part.ops, "drain") for v in op.output or ()]
        times = Counter([*(token(op.output) for op in got), *map(token, drained)])
        owed = Counter(token(op.input) for op in puts)
        exact = [op for op in got if times[token(op.output)] <= owed[token(op.output)]]
        spare = part.once(shape.spare)
        # If most of what was put in is missing nothing was shown.
        if spare is None or len(exact) <= spare or 2 * (spare + 1) > len(puts):
            return None
        lost = dice.sample(exact, spare + 1)
        said = f"{spare + 1} takers, first {lost[0].op_id}, were taken out"
        return said, without(part.ops, *lost)

    return make


def put_again(shape: Passing) -> Maker:
    """Puts put in what others did, and nobody got their own: two are owed, one came. As often as no
    other takers could stand in for it."""

    def make(part: Part, dice: random.Random) -> Made:
        passages, spare = part.once(shape.passages), part.once(shape.spare)
        if spare is None or len(passages) < 2 * (spare + 1):
            return None
        chosen = dice.sample(passages, 2 * (spare + 1))
        kept, others = chosen[: spare + 1], chosen[spare + 1 :]
        again = {b.put.op_id: {"input": a.value} for a, b in zip(kept, others, strict=True)}
        gone = {token(b.value) for b in others}
        takes = [op for op in part.once(shape.observers) if token(op.output) in gone]
        said = f"{spare + 1} puts, first {others[0].put.op_id}, put in again what another one had"
        return said, changed(without(part.ops, *takes), again)

    return make


Given = Callable[[list[Op]], list[tuple[Any, Op]]]
"""Those that were given a number each, with the numbers."""


def given_again(given: Given) -> Maker:
    """Two that are next to each other get one number, so that no order is broken as well."""

    def make(part: Part, dice: random.Random) -> Made:
        numbers = sorted(part.once(given), key=lambda one: one[0])
        two = pick(dice, list(pairwise(op for _, op in numbers)))
        if two is None:
            return None
        a, b = two
        said = f"{a.op_type} {a.op_id} and {b.op_id} got one and the same"
        return said, answering(part.ops, (b, a.output))

    return make


def given_swapped(given: Given) -> Maker:
    """Two in strict turn get each other's number; numbers rise."""

    def make(part: Part, dice: random.Random) -> Made:
        number = {op.op_id: number for number, op in part.once(given)}
        for a, b in in_turn([op for _, op in part.once(given)], dice):
            if number[a.op_id] < number[b.op_id]:
                said = f"{a.op_type} {a.op_id} and {b.op_id} swapped what they got"
                return said, answering(part.ops, (a, b.output), (b, a.output))
        return None

    return make
