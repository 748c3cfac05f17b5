"""Isolation of small register histories in which values are written more than once, by brute force.

Models with an order of transactions: a store that holds values and executes the transactions step
by step, every way that their times allow. Weak models: for every way to say from which transaction
each read was, the pairs that any order must hold, by the definitions of Biswas and Enea (OOPSLA
2019), without a circle. Nothing in here knows of the checkers.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Mop = tuple[str, str, int | None]
Step = tuple[tuple[int, ...], tuple[tuple[str, int | None], ...], tuple[frozenset[str], ...]]

STORES: Final = {
    "strong-serializable": ("serial", "time"),
    "strong-session-serializable": ("serial", "session"),
    "serializable": ("serial", "none"),
    "strong-snapshot-isolation": ("snapshot", "time"),
    "strong-session-snapshot-isolation": ("snapshot", "session"),
    "snapshot-isolation": ("snapshot", "none"),
}
WEAK: Final = {
    "strong-session-causal": ("causal", True),
    "strong-session-read-atomic": ("atomic", True),
    "strong-session-monotonic-atomic-view": ("view", True),
    "causal-cerone": ("causal", False),
    "read-atomic": ("atomic", False),
    "monotonic-atomic-view": ("view", False),
    "strong-session-read-committed": ("committed", True),
    "read-committed": ("committed", False),
}


@dataclass(frozen=True)
class Did:
    """One transaction: `outcome` is ok, fail or info, `mops` are ("w" or "r", key, value); it was
    invoked at `begun`, completed at `ended`."""

    process: int
    outcome: str
    mops: tuple[Mop, ...]
    begun: int
    ended: int


def events(txns: list[Did]) -> list[dict[str, Any]]:
    """As Jepsen writes them."""
    rows = []
    for txn in txns:
        asked = [[f, k, v if f == "w" else None] for f, k, v in txn.mops]
        told = [[f, k, v] for f, k, v in txn.mops] if txn.outcome == "ok" else asked
        rows.append((txn.begun, {"type": "invoke", "process": txn.process, "value": asked}))
        rows.append((txn.ended, {"type": txn.outcome, "process": txn.process, "value": told}))
    rows.sort(key=lambda row: row[0])
    return [{"index": n, "time": n, "f": "txn", **row} for n, (_, row) in enumerate(rows)]


def _demand(txn: Did) -> tuple[dict[str, int | None], dict[str, int | None]] | None:
    """What it must find and what it leaves; None where its reads contradict one another."""
    finds: dict[str, int | None] = {}
    leaves: dict[str, int | None] = {}
    for f, key, value in txn.mops:
        if f == "w":
            leaves[key] = value
        elif txn.outcome != "ok":
            continue
        elif key in leaves:
            if leaves[key] != value:
                return None
        elif finds.setdefault(key, value) != value:
            return None
    return finds, leaves


class _Store:
    """Tries all ways to execute transactions. Of each: 0 = not begun, 1 = has its snapshot, 2."""

    def __init__(self, txns: list[Did], model: str) -> None:
        self.how, order = STORES[model]
        self.txns = [t for t in txns if t.outcome != "fail"]
        demands = [_demand(t) for t in self.txns]
        self.sound = None not in demands
        self.demands = [d for d in demands if d is not None]
        self.after = [
            [i for i, a in enumerate(self.txns) if self._before(a, b, order)] for b in self.txns
        ]
        self.tried: set[Step] = set()

    @staticmethod
    def _before(a: Did, b: Did, order: str) -> bool:
        if a is b or a.outcome != "ok" or a.ended > b.begun or order == "none":
            return False
        return order == "time" or a.process == b.process

    def may(self) -> bool:
        count = len(self.txns)
        return self.sound and self._go((0,) * count, {}, (frozenset(),) * count)

    def _go(
        self, at: tuple[int, ...], store: dict[str, int | None], lost: tuple[frozenset[str], ...]
    ) -> bool:
        if all(s == 2 or t.outcome == "info" for s, t in zip(at, self.txns, strict=True)):
            return True
        step = (at, tuple(sorted(store.items())), lost)
        if step in self.tried:
            return False
        self.tried.add(step)
        return any(self._go(*after) for after in self._next(at, store, lost))

    def _next(self, at: Any, store: Any, lost: Any) -> Iterator[Any]:
        for i, (finds, leaves) in enumerate(self.demands):
            if at[i] == 0 and all(at[j] == 2 for j in self.after[i]):
                if any(store.get(k) != v for k, v in finds.items()):
                    continue
                begun = (*at[:i], 1, *at[i + 1 :])
                if self.how == "snapshot":
                    yield begun, store, lost
                else:
                    yield self._commit(i, leaves, begun, store, lost)
            elif at[i] == 1 and not lost[i] & leaves.keys():
                yield self._commit(i, leaves, at, store, lost)

    def _commit(self, i: int, leaves: Any, at: Any, store: Any, lost: Any) -> Any:
        missed = tuple(
            seen.union(leaves) if at[j] == 1 and j != i else frozenset()
            for j, seen in enumerate(lost)
        )
        return (*at[:i], 2, *at[i + 1 :]), {**store, **leaves}, missed


@dataclass
class _Outside:
    """A read of what others left: the reader, its key, and who may have left it; None = nobody."""

    reader: int
    key: str
    writers: list[int | None]


def _outside(txns: list[Did], kind: str) -> list[_Outside] | None:
    """None where the model is violated whoever wrote what."""
    found = []
    final = [{k: v for f, k, v in t.mops if f == "w"} for t in txns]
    for i, txn in enumerate(txns):
        mine: dict[str, list[int | None]] = {}
        for f, key, value in txn.mops if txn.outcome == "ok" else ():
            if f == "w":
                mine.setdefault(key, []).append(value)
                continue
            if key in mine:
                if mine[key][-1] == value:
                    continue
                if kind in ("atomic", "causal"):
                    return None
                if value in mine[key]:
                    continue
            writers: list[int | None] = [
                j
                for j, other in enumerate(txns)
                if j != i and other.outcome != "fail" and (key, value) in final[j].items()
            ]
            if value is None:
                writers = [None]
            if not writers:
                return None
            found.append(_Outside(i, key, writers))
    return found


def _has_circle(pairs: set[tuple[int, int]]) -> bool:
    left = set(pairs)
    while left:
        behind = {b for _, b in left}
        kept = {(a, b) for a, b in left if a in behind}
        if kept == left:
            return True
        left = kept
    return False


def _holds(
    txns: list[Did], kind: str, sessions: bool, reads: list[_Outside], said: tuple[int | None, ...]
) -> bool:
    used = {w for w in said if w is not None}
    there = [i for i, t in enumerate(txns) if t.outcome == "ok" or i in used]
    session = {
        (a, b)
        for a in there
        for b in there
        if sessions
        and a != b
        and txns[a].process == txns[b].process
        and txns[a].outcome == "ok"
        and txns[a].ended < txns[b].begun
    }
    flow = {(w, r.reader) for w, r in zip(said, reads, strict=True) if w is not None}
    must = session | flow
    final = [{k for f, k, _ in t.mops if f == "w"} for t in txns]
    for n, read in enumerate(reads):
        sees: set[int] = set()
        if kind == "view":
            sees = {
                w
                for m, w in enumerate(said)
                if w is not None and m < n and reads[m].reader == read.reader
            }
        elif kind != "committed":
            sees = {a for a, b in session | flow if b == read.reader}
            grown = kind == "causal"
            while grown:
                more = {a for a, b in session | flow if b in sees} - sees
                sees |= more
                grown = bool(more)
            sees -= {read.reader}
        for other in sees:
            if other != said[n] and read.key in final[other]:
                if said[n] is None:
                    return False
                must.add((other, said[n]))  # type: ignore[arg-type]
    return not _has_circle(must)


def satisfies(txns: list[Did], model: str) -> bool:
    """Does the history satisfy a model of STORES or WEAK?"""
    if model in STORES:
        return _Store(txns, model).may()
    kind, sessions = WEAK[model]
    reads = _outside(txns, kind)
    return reads is not None and any(
        _holds(txns, kind, sessions, reads, said)
        for said in itertools.product(*(r.writers for r in reads))
    )


def _times(rng: random.Random, count: int, processes: int) -> list[tuple[int, int, int]]:
    """(process, begun, ended) of each transaction, a process one after the other."""
    busy: dict[int, int] = {}
    done: list[tuple[int, int, int]] = []
    clock = begun = 0
    while len(done) < count:
        clock += 1
        idle = [p for p in range(processes) if p not in busy]
        if begun < count and idle and (not busy or rng.random() < 0.6):
            busy[rng.choice(idle)] = clock
            begun += 1
            continue
        process = rng.choice(sorted(busy))
        done.append((process, busy.pop(process), clock))
    return sorted(done, key=lambda d: d[1])


def some_history(rng: random.Random, repeats: float, most: int = 6) -> list[Did]:
    """A few transactions of a store; a share `repeats` of the writes writes a value again. What
    some reads return is changed."""
    keys = "xyz"[: rng.choice((1, 1, 2, 2, 3))]
    spoil = rng.choice((0.0, 0.0, 0.1, 0.3))
    lag = rng.choice((0, 0, 1, 3))
    versions: list[dict[str, int]] = [{}]
    used: dict[str, list[int]] = {k: [] for k in keys}
    txns = []
    for process, begun, ended in _times(rng, rng.randint(3, most), rng.randint(2, 4)):
        state = dict(versions[max(0, len(versions) - 1 - rng.randint(0, lag))])
        outcome = rng.choices(("ok", "info", "fail"), (14, 2, 1))[0]
        mops: list[Mop] = []
        written: dict[str, int] = {}
        for _ in range(rng.randint(1, 3)):
            key = rng.choice(keys)
            if rng.random() < 0.5:
                value = {**state, **written}.get(key)
                if rng.random() < spoil:
                    value = rng.choice([None, 9, *used[key]])
                mops.append(("r", key, value))
                continue
            again = bool(used[key]) and rng.random() < repeats
            new = rng.choice(used[key]) if again else len(used[key]) + 1
            used[key].append(new)
            written[key] = new
            mops.append(("w", key, new))
        if outcome == "ok" or (outcome == "info" and rng.random() < 0.5):
            versions.append({**versions[-1], **written})
        txns.append(Did(process, outcome, tuple(mops), begun, ended))
    return txns
