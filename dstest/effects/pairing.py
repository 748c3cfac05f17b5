"""Client operations and effects, joined by what was asked (discipline 1.5, reconciliation).

Effects carry no number of an operation, so operations and effects are counted by what they ask for:
type, key, input. Where each of them is asked once, as unique values are, that is one operation and
its effect; where several are alike, they are counted together.

| client | applied | not applied | applied again |
|---|---|---|---|
| ok | as it must be | `acknowledged-without-effect` | `applied-twice` |
| fail | `failed-but-applied` | as it must be | `applied-twice` |
| unknown | it has happened | it has not happened | `applied-twice` |
| nobody asked | `effect-without-request` | | |

That an effect is missing is said only where every place of the order is known.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dstest.core.op import Op, Outcome
from dstest.core.protocols import Effect
from dstest.effects.reading import Effects

KINDS: Final = (
    "acknowledged-without-effect",
    "failed-but-applied",
    "applied-twice",
    "effect-without-request",
    "applied-differently",
)


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One of `KINDS`, with the operations and the places that show it."""

    kind: str
    key: Any
    op_ids: list[int | str]
    places: list[int]
    said: str


class Pairing(msgspec.Struct, frozen=True, kw_only=True):
    """`happened` and `not_happened` are unknown operations of which that is known now; `operations`
    are those of the client history that were looked for, `effects` those that were found."""

    mismatches: list[Mismatch]
    operations: int
    effects: int
    happened: int
    not_happened: int
    undecided: int


class _Asked(msgspec.Struct):
    """Operations and effects that are alike; among `applied` are those that were known before."""

    ok: list[Op]
    failed: list[Op]
    unknown: list[Op]
    applied: list[Effect]


def paired(ops: Iterable[Op], effects: Effects, types: frozenset[str]) -> Pairing:
    """Join the two. `types` are the operations whose effects are written down."""
    asked: dict[str, _Asked] = {}
    operations = 0
    for op in ops:
        if op.op_type not in types:
            continue
        operations += 1
        row = asked.setdefault(_what(op.op_type, op.key, op.input), _Asked([], [], [], []))
        side = {Outcome.OK: row.ok, Outcome.FAIL: row.failed, Outcome.UNKNOWN: row.unknown}
        side[op.outcome].append(op)
    answered = [e for e in effects.order.values() if e is not None and e.op_type in types]
    applied = [effect for effect in answered if not effect.again]
    for effect in answered:
        what = _what(effect.op_type, effect.key, effect.input)
        asked.setdefault(what, _Asked([], [], [], [])).applied.append(effect)
    found = [_apart(*row) for row in effects.apart]
    found += _twice(applied)
    counts: Counter[str] = Counter()
    seen_ns = _seen_ns(asked.values())
    for row in asked.values():
        mismatch = _judge(row, effects.whole, seen_ns)
        if mismatch is not None:
            found.append(mismatch)
        counts.update(_resolved(row, effects.whole))
    return Pairing(
        mismatches=found,
        operations=operations,
        effects=len(applied),
        happened=counts["happened"],
        not_happened=counts["not_happened"],
        undecided=counts["undecided"],
    )


def _what(op_type: str, key: Any, input: Any) -> str:
    return json.dumps([op_type, str(key), input], sort_keys=True, default=str)


def _seen_ns(rows: Iterable[_Asked]) -> int:
    """Until when the servers' word reaches: one operation at least, of those with an effect of
    their own, was asked for at this time, ns of the run."""
    return max((r.ok[0].invoke_ts for r in rows if len(r.ok) == len(r.applied) == 1), default=-1)


def _judge(row: _Asked, whole: bool, seen_ns: int) -> Mismatch | None:
    """Too many effects, or too few. What was answered after the last operation of which the
    servers speak, they may not have come to write down."""
    answered = [effect for effect in row.applied if not effect.refused]
    done = [effect for effect in answered if not effect.again]
    most = len(row.ok) + len(row.unknown)
    if len(answered) < len(row.ok):
        before = [op for op in row.ok if (op.complete_ts or 0) < seen_ns]
        lacking = len(before) - len(answered)
        if not whole or lacking <= 0:
            return None
        return _mismatch(
            "acknowledged-without-effect", row.ok, [], f"{lacking} of them had no effect anywhere"
        )
    if len(done) <= most:
        return None
    if row.failed and len(done) <= most + len(row.failed):
        return _mismatch("failed-but-applied", row.failed, done, "refused for certain, and applied")
    if row.ok or row.unknown or row.failed:
        return _mismatch(
            "applied-twice",
            [*row.ok, *row.unknown, *row.failed],
            done,
            f"asked for {most} times, applied {len(done)} times",
        )
    return _mismatch("effect-without-request", [], done, "no client of this run asked for it")


def _mismatch(kind: str, ops: list[Op], effects: list[Effect], said: str) -> Mismatch:
    what = ops[0] if ops else effects[0]
    asked = f"{what.op_type} {what.input!r} on key {what.key!r}"
    return Mismatch(
        kind=kind,
        key=what.key,
        op_ids=[op.op_id for op in ops[:8]],
        places=[effect.index for effect in effects[:8]],
        said=f"{asked}: {said}",
    )


def _twice(applied: Iterable[Effect]) -> list[Mismatch]:
    """Requests by a name of their own that took effect more than once."""
    by_request: dict[str, list[Effect]] = {}
    for effect in applied:
        if effect.request and not effect.refused:
            by_request.setdefault(effect.request, []).append(effect)
    return [
        _mismatch("applied-twice", [], rows, f"request {name} took effect {len(rows)} times")
        for name, rows in by_request.items()
        if len(rows) > 1
    ]


def _apart(index: int, first: str, other: str) -> Mismatch:
    return Mismatch(
        kind="applied-differently",
        key=None,
        op_ids=[],
        places=[index],
        said=(
            f"at place {index} of the order {first} and {other} did different things"
            if first != other
            else f"{first} did different things at place {index} of the order, at different times"
        ),
    )


def _resolved(row: _Asked, whole: bool) -> dict[str, int]:
    """What became of the unknown ones."""
    done = sum(not effect.refused for effect in row.applied)
    there = min(len(row.unknown), max(0, done - len(row.ok)))
    rest = len(row.unknown) - there
    return {
        "happened": there,
        "not_happened": rest if whole else 0,
        "undecided": 0 if whole else rest,
    }
