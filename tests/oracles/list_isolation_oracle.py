"""Weak isolation of small list-append histories, from the lists themselves and pair by pair."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import networkx as nx
from isolation_oracle import FAIL, INFO, MODELS, OK, Txn

from checkers.second.judges import in_an_order

__all__ = ["in_an_order", "random_ends", "random_lists", "satisfies"]


def random_lists(rng: random.Random) -> list[Txn]:
    """A store whose older states are read as well; a transaction's own appends are there."""
    keys, processes = rng.randint(1, 3), rng.randint(1, 4)
    lag, fresh = rng.choice([0, 1, 2, 4]), 0
    states: dict[int, list[list[int]]] = {k: [[]] for k in range(keys)}
    txns: list[Txn] = []
    for _ in range(rng.randint(2, 7)):
        back = {k: max(0, len(states[k]) - 1 - rng.randint(0, lag)) for k in states}
        own: dict[int, list[int]] = defaultdict(list)
        mops: list[tuple[str, int, Any]] = []
        for _ in range(rng.randint(1, 4)):
            key = rng.randrange(keys)
            if rng.random() < 0.45:
                fresh += 1
                own[key].append(fresh)
                mops.append(("append", key, fresh))
                continue
            at = rng.randrange(len(states[key])) if rng.random() < 0.1 else back[key]
            base = states[key][-1] if own[key] else states[key][at]
            mops.append(("r", key, base + own[key]))
        for key, values in own.items():
            if values:
                states[key].append(states[key][-1] + values)
        txns.append(Txn(rng.randrange(processes), OK, tuple(mops)))
    return txns


def random_ends(rng: random.Random) -> list[Txn]:
    """The same, some ends of which are not known; one that failed left nothing."""
    txns = random_lists(rng)
    seen = {(k, v) for t in txns for f, k, values in t.mops if f == "r" for v in values}
    made, lives = [], Counter[int]()
    for txn in txns:
        appends = {(k, v) for f, k, v in txn.mops if f == "append"}
        outcome = rng.choices([OK, INFO, FAIL], [6, 2, 2])[0]
        if outcome == FAIL and appends & seen and rng.random() < 0.95:
            outcome = INFO
        made.append(Txn(txn.process + 100 * lives[txn.process], outcome, txn.mops))
        lives[txn.process] += outcome == INFO
    return made


class _Lists:
    """Transactions that took effect: those that were acknowledged, and those of which something is
    shown. What the others read tells nothing."""

    def __init__(self, txns: list[Txn]) -> None:
        known = [t.mops if t.outcome == OK else () for t in txns]
        self.told = [[(k, v) for f, k, v in mops if f == "r"] for mops in known]
        shown = {(k, v) for told in self.told for k, values in told for v in values}
        self.writer: dict[tuple[int, int], int] = {}
        self.happened = [t.outcome == OK for t in txns]
        self.aborted = False
        for n, t in enumerate(txns):
            appends = {(k, v) for f, k, v in t.mops if f == "append"}
            self.aborted |= t.outcome == FAIL and bool(appends & shown)
            self.happened[n] |= t.outcome == INFO and bool(appends & shown)
            if self.happened[n]:
                self.writer |= dict.fromkeys(appends, n)

    def others(self, n: int, key: int, values: list[int]) -> list[int]:
        """Whose elements a read of `n` shows, in their order."""
        return [w for v in values if (w := self.writer[key, v]) != n]

    def versions(self) -> set[tuple[int, int]]:
        """Who appended before whom, as far as the lists say."""
        pairs: set[tuple[int, int]] = set()
        longest: dict[int, list[int]] = {}
        for key, values in (read for told in self.told for read in told):
            writers = [self.writer[key, v] for v in values]
            pairs |= {(a, b) for i, a in enumerate(writers) for b in writers[i + 1 :]}
            longest[key] = max(longest.get(key, []), values, key=len)
        for key, values in longest.items():
            unseen = [n for (k, v), n in self.writer.items() if k == key and v not in values]
            pairs |= {(self.writer[key, v], n) for v in values for n in unseen}
        return {(a, b) for a, b in pairs if a != b}


def satisfies(txns: list[Txn], model: str) -> bool:
    """Do what was read and the order of the lists' elements fit one order of commits? Who reads a
    list sees whoever appended any element of it."""
    kind, sessions = MODELS[model]
    lists = _Lists(txns)
    if lists.aborted:
        return False
    count = range(len(txns))
    reads = [[(k, lists.others(n, k, vs)) for k, vs in lists.told[n]] for n in count]
    wr = {(w, n) for n in count for _, ws in reads[n] for w in ws}
    so = {
        (a, b)
        for b in count
        for a in range(b)
        if txns[a].process == txns[b].process and txns[a].outcome == OK and lists.happened[b]
    }
    causes = nx.DiGraph([*wr, *(so if sessions else ())])
    causes.add_nodes_from(count)
    demands = wr | lists.versions() | (so if sessions else set())
    for n in count:
        for nth, (key, writers) in enumerate(reads[n]):
            seen = {w for _, ws in reads[n] for w in ws}
            if kind == "committed":
                seen = set()
            elif kind == "view":
                seen = {w for _, ws in reads[n][:nth] for w in ws}
            elif kind == "causal":
                seen = set(nx.ancestors(causes, n))
            elif sessions:
                seen |= {a for a, b in so if b == n}
            wrote = {w for (k, _), w in lists.writer.items() if k == key}
            for other in (seen & wrote) - {n, *writers}:
                if not writers:
                    return False
                demands.add((other, writers[-1]))
    return all(a != b for a, b in demands) and nx.is_directed_acyclic_graph(nx.DiGraph([*demands]))
