"""Small histories with predicate reads, judged by trying every order of their transactions.

Micro-operations are executed on a dict, from their meaning alone. Knows nothing of the checkers.
Weak models have no store to execute on: there every choice of versions is handed to the oracle of
register histories (`isolation_oracle`).
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import isolation_oracle

from dstest.history.generator.true_histories import matches, run

__all__ = [
    "STRONG",
    "WEAK",
    "History",
    "TooMany",
    "Txn",
    "allowed",
    "mutated",
    "records",
    "simulated",
]

STRONG: Final = isolation_oracle.ORDERS
WEAK: Final = tuple(isolation_oracle.MODELS)

CHOICES_MAX: Final = 4000


class TooMany(Exception):
    """More choices than anybody waits for."""


@dataclass
class Txn:
    """`mops` as in a record, with results where it is ok; `end` is None where it never ended."""

    process: int
    outcome: str
    begin: int
    end: int | None
    mops: list[list[Any]]


@dataclass
class History:
    txns: list[Txn]
    initial: dict[Any, Any]

    @property
    def keys(self) -> list[Any]:
        named = {m[1]: None for t in self.txns for m in t.mops if m[0] != "rp"}
        told = [row for t in self.txns for m in t.mops if m[0] == "rp" for row in m[2:]]
        found = {k: None for rows in told for k, _ in rows}
        return list({**dict.fromkeys(self.initial), **named, **found})


def claimed(mops: list[list[Any]]) -> list[Any]:
    return [m[2] if m[0] == "r" else dict(m[2]) for m in mops if m[0] in ("r", "rp")]


def written(txn: Txn) -> set[Any]:
    return {m[1] for m in txn.mops if m[0] in ("w", "insert", "delete")}


def _before(a: Txn, b: Txn, between: str) -> bool:
    related = between == "realtime" or (between == "session" and a.process == b.process)
    return related and a.outcome == "ok" and a.end is not None and a.end < b.begin


def _key(rows: dict[Any, Any]) -> frozenset[Any]:
    return frozenset(rows.items())


class _Orders:
    def __init__(self, history: History, chosen: list[Txn], snapshot: bool, between: str) -> None:
        self.txns, self.initial, self.snapshot = chosen, history.initial, snapshot
        self.first = [[i for i, a in enumerate(chosen) if _before(a, b, between)] for b in chosen]
        self.dead: set[Any] = set()

    def serial(self, done: frozenset[int], rows: dict[Any, Any]) -> bool:
        at = done, _key(rows)
        if len(done) == len(self.txns):
            return True
        if at in self.dead:
            return False
        for i, txn in enumerate(self.txns):
            if i in done or not done.issuperset(self.first[i]):
                continue
            now = dict(rows)
            returned = run(txn.mops, now)
            if txn.outcome == "ok" and returned != claimed(txn.mops):
                continue
            if self.serial(done | {i}, now):
                return True
        self.dead.add(at)
        return False

    def snapshots(
        self, done: frozenset[int], began: frozenset[tuple[int, frozenset[Any]]],
        rows: dict[Any, Any],
    ) -> bool:  # fmt: skip
        """`began`: transactions with the keys that others have committed since."""
        at = done, began, _key(rows)
        if len(done) == len(self.txns):
            return True
        if at in self.dead:
            return False
        running = dict(began)
        for i, txn in enumerate(self.txns):
            if i in done:
                continue
            if i in running:
                mine = written(txn)
                if mine & running[i]:
                    continue
                now = dict(rows)
                run([m for m in txn.mops if m[0] not in ("r", "rp")], now)
                others = frozenset((j, keys | mine) for j, keys in began if j != i)
                if self.snapshots(done | {i}, others, now):
                    return True
            elif done.issuperset(self.first[i]):
                returned = run(txn.mops, dict(rows))
                if txn.outcome == "ok" and returned != claimed(txn.mops):
                    continue
                if self.snapshots(done, began | {(i, frozenset())}, rows):
                    return True
        self.dead.add(at)
        return False


def _in_some_order(history: History, snapshot: bool, between: str) -> bool:
    sure = [t for t in history.txns if t.outcome == "ok"]
    maybe = [t for t in history.txns if t.outcome == "unknown"]
    for size in range(len(maybe) + 1):
        for more in itertools.combinations(maybe, size):
            orders = _Orders(history, [*sure, *more], snapshot, between)
            rows = dict(history.initial)
            if (
                orders.snapshots(frozenset(), frozenset(), rows)
                if snapshot
                else (orders.serial(frozenset(), rows))
            ):
                return True
    return False


def _sights(mop: list[Any], keys: list[Any]) -> Iterator[tuple[Any, Any]]:
    """(key, what its state must satisfy)."""
    if mop[0] == "r":
        yield mop[1], lambda state: state == mop[2]
    found = dict(mop[2]) if mop[0] == "rp" else {}
    for key in keys if mop[0] == "rp" else ():
        if key in found:
            yield key, lambda state, v=found[key]: state == v and matches(mop[1], v)
        else:
            yield key, lambda state: not matches(mop[1], state)


def _versions(history: History) -> tuple[dict[Any, dict[Any, Any]], list[list[Any]]]:
    """By key, register value -> state (None -> how it began); micro-ops with register values."""
    states: dict[Any, dict[Any, Any]] = {k: {None: history.initial.get(k)} for k in history.keys}
    rewritten: list[list[Any]] = []
    for n, txn in enumerate(history.txns):
        row = []
        for i, mop in enumerate(txn.mops):
            if mop[0] in ("r", "rp"):
                row.append(mop)
                continue
            state = None if mop[0] == "delete" else mop[2]
            states[mop[1]][n, i] = state
            row.append(["w", mop[1], (n, i)])
        rewritten.append(row)
    return states, rewritten


def _by_choice(history: History, model: str) -> bool:
    states, rewritten = _versions(history)
    options: list[list[Any]] = []
    shapes: list[list[Any]] = []
    for n, row in enumerate(rewritten):
        shape: list[Any] = []
        for mop in row:
            if mop[0] == "w":
                shape.append(tuple(mop))
                continue
            for key, fits in _sights(mop, history.keys) if history.txns[n].outcome == "ok" else ():
                shape.append((key, len(options)))
                options.append([v for v, state in states[key].items() if fits(state)])
        shapes.append(shape)
    if math.prod(len(o) for o in options) > CHOICES_MAX:
        raise TooMany
    outcomes = {"ok": isolation_oracle.OK, "unknown": isolation_oracle.INFO}
    order = sorted(
        range(len(shapes)), key=lambda n: (history.txns[n].end is None, history.txns[n].end or 0)
    )
    for choice in itertools.product(*options):
        txns = [
            isolation_oracle.Txn(
                history.txns[n].process,
                outcomes.get(history.txns[n].outcome, isolation_oracle.FAIL),
                tuple(m if len(m) == 3 else ("r", m[0], choice[m[1]]) for m in shapes[n]),
            )
            for n in order
        ]
        if isolation_oracle.demands_are_acyclic(txns, model):
            return True
    return False


def allowed(history: History, model: str) -> bool:
    """Does the model allow the history? Raises TooMany."""
    if model in STRONG:
        return _in_some_order(history, *STRONG[model])
    return _by_choice(history, model)


def records(history: History) -> list[dict[str, Any]]:
    """As records of our format, but for the fields that say nothing."""
    return [
        {
            "op_id": n,
            "process_id": txn.process,
            "invoke_ts": txn.begin,
            "complete_ts": txn.end,
            "op_type": "txn",
            "key": None,
            "input": [m[:2] if m[0] in ("r", "rp") else m for m in txn.mops],
            "output": txn.mops if txn.outcome == "ok" else None,
            "error": "refused" if txn.outcome == "fail" else None,
            "timeout_marker": txn.outcome == "unknown",
        }
        for n, txn in enumerate(history.txns)
    ]


def _asked(
    rng: random.Random, keys: list[str], values: Iterator[int], predicates: float = 0.35
) -> list[list[Any]]:
    mops: list[list[Any]] = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        key, what = rng.choice(keys), rng.random()
        if what < predicates:
            predicate = rng.choice([True, ["=", rng.randint(1, 6)], ["mod", 2, 0], ["mod", 2, 1]])
            mops.append(["rp", predicate])
        elif what < predicates + 0.1:
            mops.append(["r", key])
        elif what < predicates + 0.2:
            mops.append(["delete", key])
        else:
            mops.append([rng.choice(["w", "insert"]), key, next(values)])
    return mops


def _with_results(mops: list[list[Any]], rows: dict[Any, Any]) -> list[list[Any]]:
    returned = iter(run(mops, rows))
    full: list[list[Any]] = []
    for mop in mops:
        if mop[0] not in ("r", "rp"):
            full.append(mop)
            continue
        got = next(returned)
        full.append([*mop[:2], [[k, v] for k, v in got.items()] if mop[0] == "rp" else got])
    return full


def simulated(rng: random.Random, kind: str, *, dense: bool = False) -> History:
    """A history of a store that is `serializable`, `snapshot-isolation` or `read-committed` (each
    statement by itself), with 2 to 6 transactions of 2 to 4 keys. A `dense` one has the most of
    them on two keys, with more reads by predicate."""
    keys = ["x", "y", "z", "w"][: 2 if dense else rng.choice([2, 2, 3, 4])]
    many = 6 if dense else rng.choice([2, 3, 3, 4, 4, 5, 6])
    values = itertools.count(1)
    initial = {k: next(values) for k in keys if rng.random() < 0.3}
    rows = dict(initial)
    committed: list[set[Any]] = []
    clock = itertools.count(1)
    waiting = [_asked(rng, keys, values, 0.5 if dense else 0.35) for _ in range(many)]
    processes = rng.choice([1, 2, 3])
    open_: dict[int, Any] = {}
    txns: list[Txn] = []
    while waiting or open_:
        process = rng.randrange(processes)
        if process not in open_:
            if waiting:
                open_[process] = [waiting.pop(), next(clock), [], len(committed)]
            continue
        mops, begin, results, since = open_[process]
        if kind == "read-committed" and len(results) < len(mops):
            # each statement sees what is there, and what its transaction did so far
            so_far = mops[: len(results) + 1]
            results.append(_with_results(so_far, dict(rows))[-1])
            continue
        if not results and mops:
            # one moment is that of the snapshot, and of the commit of a serial store
            open_[process][3] = len(committed)
            open_[process][2] = _with_results(mops, dict(rows))
            if kind == "serializable":
                _commit(mops, rows, committed)
            continue
        del open_[process]
        outcome = rng.choices(["ok", "unknown", "fail"], [85, 10, 5])[0]
        mine = {m[1] for m in mops if m[0] in ("w", "insert", "delete")}
        lost = kind == "snapshot-isolation" and any(mine & keys_ for keys_ in committed[since:])
        if kind == "serializable":
            outcome = "ok" if outcome == "fail" else outcome
        elif lost:
            outcome = "fail"
        elif outcome != "fail" and (outcome == "ok" or rng.random() < 0.5):
            _commit(mops, rows, committed)
        end = next(clock)
        shown = results if outcome == "ok" else mops
        txns.append(Txn(process, outcome, begin, None if outcome == "unknown" else end, shown))
        if outcome == "unknown":
            txns[-1].process += 100 * len(txns)
    return History(sorted(txns, key=lambda t: t.begin), initial)


def _commit(mops: list[list[Any]], rows: dict[Any, Any], committed: list[set[Any]]) -> None:
    run([m for m in mops if m[0] not in ("r", "rp")], rows)
    committed.append({m[1] for m in mops if m[0] in ("w", "insert", "delete")})


def mutated(rng: random.Random, history: History) -> History:
    """The same with one answer or one time changed."""
    txns = [
        Txn(t.process, t.outcome, t.begin, t.end, [list(m) for m in t.mops]) for t in history.txns
    ]
    reads = [m for t in txns if t.outcome == "ok" for m in t.mops if m[0] in ("r", "rp")]
    values = [m[2] for t in txns for m in t.mops if m[0] in ("w", "insert")]
    keys = history.keys
    if reads and rng.random() < 0.85:
        mop = rng.choice(reads)
        if mop[0] == "r":
            mop[2] = rng.choice([None, *values]) if values else None
        else:
            rows = dict(mop[2])
            states = [*(history.initial.items())]
            states += [(m[1], m[2]) for t in txns for m in t.mops if m[0] in ("w", "insert")]
            if rows and rng.random() < 0.6:
                rows.pop(rng.choice(list(rows)))
            elif states:
                key, value = rng.choice(states)
                rows[key] = value
            mop[2] = [[k, v] for k, v in rows.items()]
    elif keys:
        txn = rng.choice(txns)
        other = rng.choice(txns)
        txn.mops, other.mops = other.mops, txn.mops
        if txn.outcome != other.outcome:
            txn.outcome, other.outcome = other.outcome, txn.outcome
            txn.end, other.end = (
                None if txn.outcome == "unknown" else txn.begin + 1 if txn.end is None else txn.end,
                None
                if other.outcome == "unknown"
                else other.begin + 1
                if other.end is None
                else other.end,
            )
    for n, txn in enumerate(txns):
        if txn.outcome == "unknown":  # its process does nothing else
            txn.process = 1000 + n
    return History(txns, history.initial)
