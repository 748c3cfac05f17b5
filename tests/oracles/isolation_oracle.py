"""Weak isolation of small register histories by definition: is there an order of transactions?

A history is a list of `Txn`; values that are written are unique per key. `in_some_order` tries
every order, from the definitions of Biswas and Enea (OOPSLA 2019); `demands_are_acyclic` collects
what all orders must hold, which is the same and goes further. Both know nothing of the checkers.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any, Final

import networkx as nx

from checkers.second.judges import ORDERS, executable

__all__ = [
    "FAIL",
    "INFO",
    "MODELS",
    "OK",
    "ORDERS",
    "Txn",
    "demands_are_acyclic",
    "executable",
    "in_some_order",
    "jepsen",
    "random_transactions",
    "transactions_of",
]

OK, FAIL, INFO = "ok", "fail", "info"

MODELS: Final = {
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
class Txn:
    """Micro-ops are ("w" or "r", key, value); None is the initial value."""

    process: int
    outcome: str
    mops: tuple[tuple[str, Any, Any], ...]


class _Broken(Exception):
    """The history violates the model whatever the order."""


class _History:
    """Committed transactions, what each read and from whom; None = from the initial state."""

    def __init__(self, txns: list[Txn], kind: str, sessions: bool) -> None:
        self.txns, self.kind = txns, kind
        writer: dict[tuple[Any, Any], int] = {}
        self.final: list[dict[Any, Any]] = []
        for i, txn in enumerate(txns):
            self.final.append({k: v for f, k, v in txn.mops if f == "w"})
            writer.update({(k, v): i for f, k, v in txn.mops if f == "w"})
        self.reads: dict[int, list[tuple[Any, int | None]]] = {}
        for i, txn in enumerate(txns):
            if txn.outcome == OK:
                self.reads[i] = self._reads(i, writer)
        read = {w for rows in self.reads.values() for _, w in rows if w is not None}
        self.committed = [i for i, t in enumerate(txns) if t.outcome == OK or i in read]
        self.session: set[tuple[int, int]] = set()
        if sessions:
            for a, b in itertools.combinations(self.committed, 2):
                if txns[a].process == txns[b].process and txns[a].outcome == OK:
                    self.session.add((a, b))
        self.read_edges = {
            (w, i) for i, rows in self.reads.items() for _, w in rows if w is not None
        }

    def _reads(self, i: int, writer: dict[tuple[Any, Any], int]) -> list[tuple[Any, int | None]]:
        rows: list[tuple[Any, int | None]] = []
        own: dict[Any, Any] = {}
        mine = {(k, v) for f, k, v in self.txns[i].mops if f == "w"}
        for f, k, v in self.txns[i].mops:
            if f == "w":
                own[k] = v
            elif k in own and own[k] == v:
                continue
            elif k in own and self.kind in ("atomic", "causal"):
                raise _Broken
            elif (k, v) in mine and (k in own and v in self._earlier(i, k, own[k])):
                continue
            elif v is None:
                rows.append((k, None))
            else:
                w = writer.get((k, v))
                dirty = w is None or w == i or self.txns[w].outcome == FAIL
                if w is None or dirty or self.final[w][k] != v:
                    raise _Broken
                rows.append((k, w))
        return rows

    def _earlier(self, i: int, key: Any, upto: Any) -> list[Any]:
        values = [v for f, k, v in self.txns[i].mops if f == "w" and k == key]
        return values[: values.index(upto)]

    def seen(self, i: int, nth: int) -> set[int]:
        """What transaction `i` sees at its read number `nth`, by the model."""
        rows = self.reads[i]
        own = {a for a, b in self.session if b == i}
        if self.kind == "committed":
            return set()
        if self.kind == "view":
            return {w for _, w in rows[:nth] if w is not None}
        direct = own | {w for _, w in rows if w is not None}
        if self.kind == "atomic":
            return direct
        graph = nx.DiGraph([*self.read_edges, *self.session])
        return direct if i not in graph else set(nx.ancestors(graph, i)) - {i}

    def demands(self) -> set[tuple[int, int]]:
        """Pairs that every order must hold. Raises _Broken for one before the initial state."""
        pairs = self.read_edges | self.session
        for i, rows in self.reads.items():
            for nth, (key, writer) in enumerate(rows):
                for other in self.seen(i, nth):
                    if other == writer or key not in self.final[other]:
                        continue
                    if writer is None:
                        raise _Broken
                    pairs.add((other, writer))
        return pairs


def _history(txns: list[Txn], model: str) -> _History:
    return _History(txns, *MODELS[model])


def demands_are_acyclic(txns: list[Txn], model: str) -> bool:
    """Does the history satisfy the model?"""
    try:
        pairs = _history(txns, model).demands()
    except _Broken:
        return False
    return all(a != b for a, b in pairs) and nx.is_directed_acyclic_graph(nx.DiGraph(list(pairs)))


def _holds(history: _History, order: tuple[int, ...]) -> bool:
    """Word for word: each read returns the last write of its key among what is seen."""
    at = {txn: n for n, txn in enumerate(order)}
    if any(at[a] >= at[b] for a, b in history.read_edges | history.session):
        return False
    for i, rows in history.reads.items():
        for nth, (key, writer) in enumerate(rows):
            seen = {s for s in history.seen(i, nth) if key in history.final[s]}
            if writer is not None:
                seen.add(writer)
            last = max(seen, key=lambda s: at[s], default=None)
            if last != writer:
                return False
    return True


def in_some_order(txns: list[Txn], model: str) -> bool:
    """The same by trying every order."""
    try:
        history = _history(txns, model)
    except _Broken:
        return False
    return any(_holds(history, order) for order in itertools.permutations(history.committed))


def jepsen(txns: list[Txn], rng: random.Random | None = None) -> list[dict[str, Any]]:
    """Op maps; the completions come in the given order, invocations at some place before."""
    events: list[dict[str, Any]] = []
    for txn in txns:
        asked = [[f, k, None if f == "r" else v] for f, k, v in txn.mops]
        told = [list(mop) for mop in txn.mops] if txn.outcome == OK else asked
        invoke = {"type": "invoke", "process": txn.process, "f": "txn", "value": asked}
        latest = max(
            (n + 1 for n, e in enumerate(events) if e["process"] == txn.process), default=0
        )
        place = len(events) if rng is None else rng.randint(latest, len(events))
        events.insert(place, invoke)
        events.append({**invoke, "type": txn.outcome, "value": told})
    return [{**event, "index": n, "time": n} for n, event in enumerate(events)]


def transactions_of(history: list[dict[str, Any]]) -> list[Txn]:
    """The transactions of op maps, in order of completion; those left open come last."""
    invoked: dict[Any, dict[str, Any]] = {}
    txns: list[Txn] = []
    for event in history:
        if event["type"] == "invoke":
            invoked[event["process"]] = event
            continue
        begun = invoked.pop(event["process"], event)
        mops = event["value"] if event["type"] == OK else begun["value"]
        txns.append(Txn(event["process"], event["type"], tuple(map(tuple, mops))))
    txns += [Txn(p, INFO, tuple(map(tuple, e["value"]))) for p, e in invoked.items()]
    return txns


def random_transactions(rng: random.Random, most: int = 8) -> list[Txn]:
    """A store of several versions, read at points that lie back more or less, sometimes wrong."""
    keys, processes = rng.randint(1, 4), rng.randint(1, 4)
    lag, wrong = rng.choice([0, 1, 2, 5]), rng.choice([0, 0, 0.05, 0.3])
    versions: dict[int, list[Any]] = {k: [None] for k in range(keys)}
    anything: dict[int, list[Any]] = {k: [None] for k in range(keys)}
    counter = itertools.count(1)
    alone = itertools.count(100)
    txns: list[Txn] = []
    for _ in range(rng.randint(1, most)):
        outcome = rng.choices([OK, INFO, FAIL], [10, 1, 1])[0]
        process = rng.randrange(processes)
        back = {k: max(0, len(versions[k]) - 1 - rng.randint(0, lag)) for k in versions}
        own: dict[int, int] = {}
        mops: list[tuple[str, int, Any]] = []
        for _ in range(rng.randint(1, 4)):
            key = rng.randrange(keys)
            if rng.random() < 0.45:
                own[key] = next(counter)
                anything[key].append(own[key])
                mops.append(("w", key, own[key]))
                continue
            value = own.get(key, versions[key][back[key]])
            if rng.random() < wrong:
                value = rng.choice([*anything[key], 999] if rng.random() < 0.2 else anything[key])
            mops.append(("r", key, value))
        txns.append(Txn(process, outcome, tuple(mops)))
        if outcome == INFO:
            txns[-1] = Txn(next(alone), INFO, tuple(mops)) if rng.random() < 0.5 else txns[-1]
        if outcome != FAIL and rng.random() < 0.9:
            for key, value in own.items():
                versions[key].append(value)
    if rng.random() < 0.3:
        rng.shuffle(txns)
    return txns
