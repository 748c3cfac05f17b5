"""Canaries for transactional histories: broken copies that an isolation checker must reject.

Each kind holds certain anomalies, and the demanded model says which kinds are made at all: those
that it forbids. A kind that the models next below it allow tells whether the checker judged the
model that was asked for, or one of those.

| mutant | what is changed | anomaly |
|---|---|---|
| phantom-element | a read returns a value that nobody ever wrote | garbage-read |
| twice | a list read holds an element twice | duplicate-elements |
| reordered | two elements of a list read change places | incompatible-order |
| aborted-read | a transaction whose write was read is recorded as failed | G1a |
| stale-read | a read lacks what had been acknowledged before it began | G-single-item-realtime |
| session-stale-read | a read lacks what its own session had written | G-single-item-process |

The first four hold one key's micro-ops only: leaving other keys out never makes a clean history
unclean. The other two change one transaction of the run, which is reduced to that read; a stale
read is moved to a client of its own, so that no session is broken. All other kinds are planted
among the whole run, see `_txn_plants`. Source: discipline 5.2, canary rule; Adya's anomalies, with
Elle's names.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core import rng
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.judge._txn_plants import PLANTS, View, plant
from dstest.judge.canary import Mutant, token

_PHANTOM: Final = 2_000_000_011
_LOCAL: Final = {
    "phantom-element": frozenset({"garbage-read"}),
    "twice": frozenset({"duplicate-elements"}),
    "reordered": frozenset({"incompatible-order"}),
    "aborted-read": frozenset({"G1a"}),
}
_OWN: Final = {
    "stale-read": frozenset({"G-single-item-realtime"}),
    "session-stale-read": frozenset({"G-single-item-process"}),
}
KINDS: Final = tuple(_LOCAL)
"""Kinds that hold one key's micro-ops only."""

CYCLELESS: Final = frozenset(
    {"garbage-read", "duplicate-elements", "incompatible-order", "G1a", "G1b", "internal"}
    | {"lost-update"}
)
"""Anomalies of the kinds made here that show without any cycle."""

OPS_MAX: Final = 20_000
"""Transactions of a copy that holds the run: of longer runs some keys are left out."""


def anomalies_of(lists: bool) -> dict[str, frozenset[str]]:
    """Kind of mutant -> every anomaly that it holds."""
    planted = {p.kind: p.anomalies for p in PLANTS[lists]}
    return {**_LOCAL, **_OWN, **planted}


def _only(op: Op, keys: set[str]) -> Op | None:
    """A transaction with its micro-ops on these keys alone."""
    asked = [m for m in op.input or () if token(m[1]) in keys]
    if not asked:
        return None
    answered = None if op.output is None else [m for m in op.output if token(m[1]) in keys]
    return msgspec.structs.replace(op, input=asked, output=answered)


def _project(history: History, key: Any) -> list[Op]:
    """The transactions that touch `key`, with its micro-ops alone."""
    wanted = {token(key)}
    return [kept for op in history.ops if (kept := _only(op, wanted)) is not None]


def _keys(history: History) -> list[Any]:
    return list(dict.fromkeys(m[1] for op in history.ops for m in op.input or ()))


def _trimmed(history: History, dice: random.Random) -> list[Op]:
    """The run's transactions; of a long run those on some keys, about `OPS_MAX` of them."""
    ops = [op for op in history.ops if op.op_type == "txn"]
    if len(ops) <= OPS_MAX:
        return ops
    touching: dict[str, list[int]] = {}
    for at, op in enumerate(ops):
        for m in op.input or ():
            touching.setdefault(token(m[1]), []).append(at)
    keys: set[str] = set()
    chosen: set[int] = set()
    for key in dice.sample(sorted(touching), len(touching)):
        if len(chosen) >= OPS_MAX:
            break
        keys.add(key)
        chosen.update(touching[key])
    return [kept for at in sorted(chosen) if (kept := _only(ops[at], keys)) is not None]


def _reads(ops: list[Op], least: int) -> list[tuple[int, int]]:
    """(operation, micro-op) of ok reads that returned at least `least` elements.

    A transaction's own writes stay out: a changed read must clash with others, not with itself.
    """
    reads = []
    for at, op in enumerate(ops):
        if op.outcome is not Outcome.OK or any(m[0] != "r" for m in op.input):
            continue
        for i, (_, _, value) in enumerate(op.output or ()):
            size = len(value) if isinstance(value, list) else int(value is not None)
            if size >= least:
                reads.append((at, i))
    return reads


def _with_read(ops: list[Op], at: int, i: int, value: Any) -> list[Op]:
    output = [list(m) for m in ops[at].output]
    output[i][2] = value
    return [*ops[:at], msgspec.structs.replace(ops[at], output=output), *ops[at + 1 :]]


def _phantom(ops: list[Op], dice: random.Random) -> list[Op] | None:
    reads = _reads(ops, 1)
    if not reads:
        return None
    at, i = dice.choice(reads)
    value = ops[at].output[i][2]
    return _with_read(ops, at, i, [*value, _PHANTOM] if isinstance(value, list) else _PHANTOM)


def _twice(ops: list[Op], dice: random.Random) -> list[Op] | None:
    reads = [r for r in _reads(ops, 1) if isinstance(ops[r[0]].output[r[1]][2], list)]
    if not reads:
        return None
    # The longest: all others stay its beginning, so that nothing but the doubling is wrong.
    at, i = max(reads, key=lambda r: len(ops[r[0]].output[r[1]][2]))
    value = ops[at].output[i][2]
    return _with_read(ops, at, i, [*value, value[-1]])


def _reordered(ops: list[Op], dice: random.Random) -> list[Op] | None:
    reads = [r for r in _reads(ops, 2) if isinstance(ops[r[0]].output[r[1]][2], list)]
    if len(reads) < 2:
        return None
    # The shortest of several reads: the others keep its elements in the old order.
    at, i = min(reads, key=lambda r: len(ops[r[0]].output[r[1]][2]))
    value = list(ops[at].output[i][2])
    value[0], value[1] = value[1], value[0]
    return _with_read(ops, at, i, value)


def _aborted(ops: list[Op], dice: random.Random) -> list[Op] | None:
    seen: set[Any] = set()
    for at, i in _reads(ops, 1):
        value = ops[at].output[i][2]
        seen |= set(value) if isinstance(value, list) else {value}
    writers = [
        at
        for at, op in enumerate(ops)
        if op.outcome is Outcome.OK
        and any(m[0] != "r" and m[2] in seen for m in op.input)
        and all(m[0] != "r" for m in op.input)
    ]
    if not writers:
        return None
    at = dice.choice(writers)
    failed = msgspec.structs.replace(ops[at], output=None, error="aborted")
    return [*ops[:at], failed, *ops[at + 1 :]]


_MAKERS: Final = dict(zip(KINDS, (_phantom, _twice, _reordered, _aborted), strict=True))


class _Missed(NamedTuple):
    """A read, what it is to return, and the acknowledged transaction that it misses then."""

    read: Op
    key: Any
    value: Any
    write: Op


def _before(view: View, value: Any, writers: dict[Any, Op]) -> tuple[Any, Op] | None:
    """A list before its last transaction, and that transaction. None where it is not certain."""
    op = writers.get(value[-1]) if value else None
    if op is None or op.outcome is not Outcome.OK:
        return None
    kept = list(value)
    while kept and writers.get(kept[-1]) is op:
        kept.pop()
    return kept or (None if view.null else []), op


def _earlier(view: View, key: Any, read: Op, value: Any) -> Iterator[tuple[Any, Op]]:
    """States of a key that the read could have returned, and what it would have missed then."""
    written = view.uses[key].written
    if not view.lists:
        # Of registers only the order after null is known.
        yield from ((None, op) for op, _ in written if op.outcome is Outcome.OK)
        return
    writers = {value: op for op, value in written}
    writer = _before(view, value, writers)
    while writer is not None:
        yield writer
        writer = _before(view, writer[0], writers)


def _missed(view: View, dice: random.Random, *, session: bool) -> _Missed | None:
    """A read that began after a write was acknowledged; of the same process if `session`."""
    for key in dice.sample(list(view.uses), len(view.uses)):
        reads = view.uses[key].reads
        for read, value in dice.sample(reads, min(len(reads), 20)):
            if value is None or any(m[0] != "r" for m in read.input):
                continue
            for state, write in _earlier(view, key, read, value):
                over = (write.complete_ts or 0) < read.invoke_ts
                if over and (not session or write.process_id == read.process_id):
                    return _Missed(read, key, state, write)
    return None


def _own(kind: str, view: View, dice: random.Random) -> tuple[str, list[Op]] | None:
    session = kind == "session-stale-read"
    mutation = _missed(view, dice, session=session)
    if mutation is None:
        return None
    processes = [op.process_id for op in view.ops]
    ints = all(type(p) is int for p in processes)
    stranger: int | str = max(int(p) for p in processes) + 1 if ints else "canary"
    changed = msgspec.structs.replace(
        mutation.read,
        process_id=mutation.read.process_id if session else stranger,
        input=[["r", mutation.key, None]],
        output=[["r", mutation.key, mutation.value]],
    )
    message = (
        f"read {changed.op_id} of {mutation.key!r} misses what {mutation.write.op_id} wrote before"
    )
    return message, [changed if op.op_id == changed.op_id else op for op in view.ops]


def _whole(
    history: History, forbidden: frozenset[str], dice: random.Random
) -> Iterator[tuple[str, Callable[[], tuple[str, list[Op]] | None]]]:
    """(kind, its maker) of the mutants that hold the whole run."""
    ops = _trimmed(history, dice)
    view = View(ops)
    timely = any(name.endswith("-realtime") for name in forbidden)
    for kind, anomalies in _OWN.items():
        # What breaks a session breaks real time as well.
        if anomalies & forbidden and not (timely and kind == "session-stale-read"):
            yield kind, partial(_own, kind, view, dice)
    for what in PLANTS[view.lists]:
        if what.anomalies & forbidden and not (timely and what.kind.endswith("-process")):
            yield what.kind, partial(plant, view, what, dice, last=not timely)


def txn_mutants(
    history: History, seed: int, count: int = 8, *, forbidden: frozenset[str] | None = None
) -> Iterator[Mutant]:
    """Mutants that hold an anomaly of `forbidden`, by default of any model: up to `count` that
    hold one key, the kinds in turn, then each kind that holds the whole run."""
    dice = rng.stream(seed, "canary-txn")
    keys = _keys(history)
    dice.shuffle(keys)
    kinds = [k for k in KINDS if forbidden is None or _LOCAL[k] & forbidden]
    made = 0
    for number, key in enumerate(keys[: 4 * count] if kinds else ()):
        kind = kinds[number % len(kinds)]
        changed = _MAKERS[kind](_project(history, key), dice)
        if changed is None:
            continue
        yield Mutant(kind, f"key {key}", msgspec.structs.replace(history, ops=changed))
        made += 1
        if made == count:
            break
    if not keys:
        return
    every = frozenset().union(*anomalies_of(True).values(), *anomalies_of(False).values())
    for kind, make in _whole(history, every if forbidden is None else forbidden, dice):
        mutation = make()
        if mutation is not None:
            said, ops = mutation
            yield Mutant(kind, said, msgspec.structs.replace(history, ops=ops))
