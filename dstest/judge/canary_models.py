"""Canaries by model: broken copies of a history that the linearizability checker must reject.

Registers are in `canary`, containers in `canary_containers`, registers changed together in
`canary_multi`; a map's keys are registers. Here:

| mutant | what is changed | why no order explains it |
|---|---|---|
| stolen-lock | a refused acquire succeeds while another one certainly holds it | one holder |
| lost-release | a release is taken out that the next holder waited for | the lock was never free |
| swapped-tokens | two acquires in strict turn swap their tokens | tokens grow |
| too-many-permits | an acquire gets more permits than there are | there are fewer |
| crowded | a refused acquire succeeds while the permits are certainly held | as above |
| wrong-total | a read returns a value beyond all that was ever added | it never held it |
| wrong-count | a read returns more than the changes begun by then can add | as above |
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from dstest.core import rng
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.judge.canary import Mutant, mutants, token
from dstest.judge.canary_containers import (
    CONTAINERS,
    Made,
    Maker,
    changed,
    log_makers,
    set_makers,
    taken_makers,
    without,
)
from dstest.judge.canary_multi import multi_makers

_WINDOW: Final = 300
_TRIES: Final = 200
_KV: Final = {"get": "read", "put": "write", "cas": "cas"}


def _ok(op: Op) -> bool:
    return op.outcome is Outcome.OK


class _Hold(NamedTuple):
    """From a process's first acquire to its last release; nothing of it is unknown."""

    first: Op
    last: Op
    permits: int


def _permits(op: Op) -> int:
    return op.input if type(op.input) is int else 1


def _holds(ops: list[Op]) -> list[_Hold] | None:
    """In order of their last release. None where a process gives back what it does not hold."""
    depth: dict[Any, int] = {}
    first: dict[Any, Op] = {}
    most: dict[Any, int] = {}
    holds = []
    for op in ops:
        process = op.process_id
        if op.outcome is Outcome.FAIL or (_ok(op) and op.output is False):
            continue
        if op.op_type == "acquire":
            if not depth.get(process):
                first[process], most[process] = op, 0
            depth[process] = depth.get(process, 0) + _permits(op)
            most[process] = max(most[process], depth[process])
        else:
            depth[process] = depth.get(process, 0) - _permits(op)
            if depth[process] < 0:
                return None
            if depth[process] == 0 and _ok(op) and _ok(first[process]):
                holds.append(_Hold(first[process], op, most[process]))
    return holds


def _refused(ops: list[Op], dice: random.Random) -> list[int]:
    places = [
        i for i, op in enumerate(ops)
        if op.op_type == "acquire" and _ok(op) and op.output is False
    ]  # fmt: skip
    return dice.sample(places, min(len(places), _TRIES))


def _around(op: Op, holds: list[_Hold]) -> list[_Hold]:
    """Other processes' holds that certainly last throughout the operation."""
    return [
        h for h in holds
        if h.first.process_id != op.process_id
        and (h.first.complete_ts or 0) < op.invoke_ts and h.last.invoke_ts > (op.complete_ts or 0)
    ]  # fmt: skip


def _stolen(ops: list[Op], dice: random.Random) -> Made:
    holds = _holds(ops) or []
    tokens = [op.output for op in ops if op.op_type == "acquire" and type(op.output) is int]
    got: Any = max(tokens) + 1 if tokens else True
    for place in _refused(ops, dice):
        op = ops[place]
        for hold in _around(op, holds):
            said = f"acquire {op.op_id} succeeds while process {hold.first.process_id} holds it"
            return said, changed(ops, {op.op_id: got})
    return None


def _lost_release(ops: list[Op], dice: random.Random) -> Made:
    holds = _holds(ops) or []
    by: dict[Any, list[Op]] = {}
    for op in ops:
        by.setdefault(op.process_id, []).append(op)
    for _ in range(_TRIES if len(holds) > 1 else 0):
        at = dice.randrange(len(holds) - 1)
        hold, after = holds[at], holds[at + 1]
        mine, taken = by[hold.first.process_id], after.first.complete_ts or 0
        later = [
            op for op in mine if op.op_type == "release" and op.invoke_ts > hold.last.invoke_ts
        ]
        if (
            after.first.process_id == hold.first.process_id
            or after.first.invoke_ts < (hold.last.complete_ts or 0)
            or any(op.outcome is Outcome.UNKNOWN and op.invoke_ts <= taken for op in mine)
            or (later and later[0].invoke_ts <= taken)
        ):
            continue
        message = f"release {hold.last.op_id} was taken out, {after.first.op_id} acquired after it"
        return message, without(ops, hold.last)
    return None


def _tokens(ops: list[Op], dice: random.Random) -> Made:
    found = [op for op in ops if op.op_type == "acquire" and _ok(op) and type(op.output) is int]
    for _ in range(_TRIES if len(found) > 1 else 0):
        a, b = sorted(dice.sample(found, 2), key=lambda op: op.invoke_ts)
        if (a.complete_ts or 0) < b.invoke_ts:
            said = f"acquires {a.op_id} and {b.op_id} swapped tokens"
            return said, changed(ops, {a.op_id: b.output, b.op_id: a.output})
    return None


def _too_many(total: int) -> Maker:
    def maker(ops: list[Op], dice: random.Random) -> Made:
        found = [op for op in ops if op.op_type == "acquire" and _ok(op) and op.output is not False]
        if not found:
            return None
        op = dice.choice(found)
        more = [replace(o, input=total + 1) if o.op_id == op.op_id else o for o in ops]
        return f"acquire {op.op_id} got {total + 1} of {total} permits", more

    return maker


def _crowded(total: int) -> Maker:
    def maker(ops: list[Op], dice: random.Random) -> Made:
        holds = _holds(ops) or []
        for place in _refused(ops, dice):
            op = ops[place]
            held = sum(h.first.input or 1 for h in _around(op, holds))
            if held + _permits(op) > total:
                message = f"acquire {op.op_id} succeeds while {held} of {total} permits are held"
                return message, changed(ops, {op.op_id: True})
        return None

    return maker


def _wrong_total(ops: list[Op], dice: random.Random) -> Made:
    reads = [op for op in ops if op.op_type == "read" and _ok(op)]
    if not reads:
        return None
    changes = (op.input if type(op.input) is int else 1 for op in ops if op.op_type != "read")
    value = sum(map(abs, changes)) + 1
    op = dice.choice(reads)
    return f"read {op.op_id} returns {value}, beyond all additions", changed(ops, {op.op_id: value})


def _delta(op: Op) -> int:
    size = op.input if type(op.input) is int else 1
    return -size if op.op_type == "dec" else size


def _wrong_count(ops: list[Op], dice: random.Random) -> Made:
    """More than any of the changes that had begun could add to those that were over."""
    reads = [op for op in ops if op.op_type == "read" and _ok(op)]
    if not reads:
        return None
    op = dice.choice(reads)
    end = op.complete_ts or 0
    most = 0
    for other in ops:
        if other.op_type == "read" or other.outcome is Outcome.FAIL or other.invoke_ts > end:
            continue
        certain = _ok(other) and (other.complete_ts or 0) < op.invoke_ts
        most += _delta(other) if certain else max(0, _delta(other))
    message = f"read {op.op_id} returns {most + 1}, which is too much by then"
    return message, changed(ops, {op.op_id: most + 1})


_LOCK: Final[dict[str, Maker]] = {"stolen-lock": _stolen, "lost-release": _lost_release}
MODELS: Final = (
    *CONTAINERS,
    *("set", "log", "mutex", "reentrant-mutex", "fencing-lock", "semaphore", "counter"),
    *("kv-map", "multi-register"),
)
"""Models whose mutants are made here; those of registers are made by `canary.mutants`."""


TIMELY: Final = {
    **dict.fromkeys(
        ("register", "cas-register", "kv-map"), frozenset({"stale-read", "swapped-reads"})
    ),
    **dict.fromkeys(("mutex", "reentrant-mutex"), frozenset({"stolen-lock"})),
    **dict.fromkeys(CONTAINERS, frozenset({"swapped-takes", "false-empty"})),
    "log": frozenset({"hidden-entry"}),
}
"""Model -> kinds that a judge accepts to whom all operations are concurrent."""


def _makers(model: str, options: dict[str, Any]) -> dict[str, Maker]:
    if model in CONTAINERS:
        return taken_makers(model)
    total = options.get("permits")
    if model == "semaphore":
        if type(total) is not int:
            return {}
        return {"too-many-permits": _too_many(total), "crowded": _crowded(total)}
    makers: dict[str, dict[str, Maker]] = {
        "set": set_makers(),
        "log": log_makers(),
        "mutex": _LOCK,
        "reentrant-mutex": _LOCK,
        "fencing-lock": {**_LOCK, "swapped-tokens": _tokens},
        "counter": {"wrong-total": _wrong_total, "wrong-count": _wrong_count},
        "multi-register": multi_makers(),
    }
    return makers[model]


def _renamed(history: History, names: dict[str, str]) -> History:
    ops = [replace(op, op_type=names.get(op.op_type, op.op_type)) for op in history.ops]
    return replace(history, ops=ops)


def model_mutants(
    history: History, seed: int, count: int = 8, *, model: str = ""
) -> Iterator[Mutant]:
    """Up to `count` mutants for `model` (default: the header's), the kinds in turn, each on another
    key where there are several."""
    model = model or history.header.model or ""
    types = {op.op_type for op in history.ops}
    if model == "kv-map" and types <= _KV.keys():
        back = {v: k for k, v in _KV.items()}
        for kind, message, broken in mutants(_renamed(history, _KV), seed, count):
            yield Mutant(kind, message, _renamed(broken, back))
        return
    if (
        model not in MODELS
        or model == "kv-map"
        or (model == "multi-register" and "txn" not in types)
    ):
        yield from mutants(history, seed, count)
        return
    dice = rng.stream(seed, "canary-models")
    groups: dict[str, list[Op]] = {}
    for op in history.ops:
        groups.setdefault("" if model == "multi-register" else token(op.key), []).append(op)
    names = sorted(groups)
    dice.shuffle(names)
    makers = _makers(model, history.header.options)
    turns = {kind: iter(names * count) for kind in makers}
    made, looked = 0, 0
    while turns and made < count and looked < _TRIES:
        for kind in list(turns):
            name = next(turns[kind], None)
            looked += 1
            if name is None or made == count:
                del turns[kind]
                continue
            mutation = makers[kind](groups[name], dice)
            if mutation is not None:
                made += 1
                message = f"key {groups[name][0].key}: {mutation[0]}"
                yield Mutant(kind, message, replace(history, ops=mutation[1]))
