"""Broken copies of what tenants were shown: of others, of other keys, of before, or not at all."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from dstest.core.op import Op
from dstest.judge.mutants.shapes import (
    PHANTOM,
    Made,
    Part,
    acked,
    answering,
    attempts,
    over,
    pick,
    some,
    without,
)

_GETS: Final = ("get", "probe")


class Shown(NamedTuple):
    """A value that an answer showed; `at` is its row in a list, None of a get."""

    op: Op
    at: int | None
    name: str
    value: Any


def _shown(op: Op) -> list[Shown]:
    if op.op_type in _GETS:
        return [Shown(op, None, op.input["name"], op.output)] if op.output is not None else []
    return [Shown(op, at, name, value) for at, (name, value) in enumerate(op.output or ())]


def _every(ops: list[Op]) -> list[Op]:
    """Answers that showed something."""
    found = acked(ops, *_GETS, "list", "probe_list")
    return [op for op in found if _shown(op)]


def _puts(ops: list[Op]) -> dict[tuple[Any, str], list[Op]]:
    """All that may have been put, by tenant and key, in order of invocation."""
    found: dict[tuple[Any, str], list[Op]] = {}
    for op in attempts(ops, "put"):
        found.setdefault((op.key, op.input["name"]), []).append(op)
    return found


def _sights(part: Part, dice: random.Random) -> Iterator[Shown]:
    for op in some(dice, part.once(_every)):
        yield dice.choice(_shown(op))


def _showing(seen: Shown, value: Any) -> Any:
    """The answer with this value in its place."""
    if seen.at is None:
        return value
    rows = [list(row) for row in seen.op.output]
    rows[seen.at][1] = value
    return rows


def _with(part: Part, seen: Shown, put: Op, what: str) -> Made:
    said = f"{seen.op.op_type} {seen.op.op_id} shows {put.input['value']!r}, which {what}"
    return said, answering(part.ops, (seen.op, _showing(seen, put.input["value"])))


def _done(puts: Iterable[Op], seen: Shown) -> list[Op]:
    return [put for put in puts if over(put, seen.op)]


def leak(part: Part, dice: random.Random) -> Made:
    """A tenant is shown what another one has put."""
    puts = part.once(_puts)
    for seen in _sights(part, dice):
        others = [place for place in puts if place[0] != seen.op.key]
        put = pick(dice, _done(puts[dice.choice(others)], seen)) if others else None
        if put is not None:
            return _with(part, seen, put, f"op {put.op_id} had put for another tenant")
    return None


def wrong_key(part: Part, dice: random.Random) -> Made:
    """A tenant is shown what it has put under another key."""
    puts = part.once(_puts)
    for seen in _sights(part, dice):
        mine = [p for p in puts if p[0] == seen.op.key and p[1] != seen.name]
        put = pick(dice, _done(puts[dice.choice(mine)], seen)) if mine else None
        if put is not None:
            return _with(part, seen, put, f"op {put.op_id} had put under another key")
    return None


def phantom(part: Part, dice: random.Random) -> Made:
    """A tenant is shown what nobody has put."""
    for seen in _sights(part, dice):
        said = f"{seen.op.op_type} {seen.op.op_id} shows {PHANTOM}, which nobody put"
        return said, answering(part.ops, (seen.op, _showing(seen, PHANTOM)))
    return None


def put_dropped(part: Part, dice: random.Random) -> Made:
    """The put of a value that was shown is taken out."""
    puts = part.once(_puts)
    for seen in _sights(part, dice):
        for put in puts.get((seen.op.key, seen.name), ()):
            if put.input["value"] == seen.value:
                said = f"put {put.op_id}, shown by {seen.op.op_type} {seen.op.op_id}, was taken out"
                return said, without(part.ops, put)
    return None


def counted_more(part: Part, dice: random.Random) -> Made:
    """A count is above the number of keys that the tenant has ever put to."""
    op = pick(dice, acked(part.ops, "count"))
    if op is None:
        return None
    most = sum(1 for tenant, _ in part.once(_puts) if tenant == op.key) + 1
    return f"count {op.op_id} says {most}", answering(part.ops, (op, most))


def stale(part: Part, dice: random.Random) -> Made:
    """A value is shown that was overwritten before the answer was asked for."""
    puts = part.once(_puts)
    for seen in _sights(part, dice):
        done = _done(puts.get((seen.op.key, seen.name), ()), seen)
        newest = max(done, key=lambda put: put.invoke_ts, default=None)
        older = newest and pick(dice, [put for put in done if over(put, newest)])
        if older is not None and newest is not None:
            return _with(part, seen, older, f"put {newest.op_id} had overwritten")
    return None


def _drops(ops: list[Op]) -> dict[Any, list[Op]]:
    found: dict[Any, list[Op]] = {}
    for op in attempts(ops, "drop"):
        found.setdefault(op.key, []).append(op)
    return found


def lost(part: Part, dice: random.Random) -> Made:
    """Nothing is shown where something was put, and nobody has dropped the tenant since."""
    puts, drops = part.once(_puts), part.once(_drops)
    for seen in _sights(part, dice):
        done = _done(puts.get((seen.op.key, seen.name), ()), seen)
        newest = max(done, key=lambda put: put.invoke_ts, default=None)
        if newest is None or any(not over(drop, newest) for drop in drops.get(seen.op.key, ())):
            continue
        rows = seen.op.output
        output = None if seen.at is None else [*rows[: seen.at], *rows[seen.at + 1 :]]
        said = f"{seen.op.op_type} {seen.op.op_id} lacks what put {newest.op_id} had put"
        return said, answering(part.ops, (seen.op, output))
    return None
