"""Small histories in which transactions may contradict themselves, judged by trying every order.

Lists are built by executing the appends of an order of commits; every read shows a beginning of
what they have become. Nothing is inferred from the lists: a read fits an order, or it does not.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from typing import Any, Final

import networkx as nx
from isolation_oracle import FAIL, INFO, MODELS, OK, Txn

__all__ = ["MODELS", "allowed", "random_history"]

WRITES: Final = ("append", "w")
SEES_ITSELF: Final = ("atomic", "causal")
"""Models under which a transaction sees what it did before, and one version of what others did."""


def _splits(txn: Txn, at: int, lists: bool) -> list[tuple[Any, tuple[Any, ...]]]:
    """What a read may be made of: (what others left, own writes shown). Own ones are the first of
    those made before, in their order."""
    _, key, value = txn.mops[at]
    own = tuple(v for f, k, v in txn.mops[:at] if f in WRITES and k == key)
    if not lists:
        return [(None, own[: own.index(value) + 1])] if value in own else [(value, ())]
    told = tuple(value)
    parts = [
        (told[: len(told) - n], own[:n])
        for n in range(len(own) + 1)
        if n == 0 or told[len(told) - n :] == own[:n]
    ]
    every = {v for f, k, v in txn.mops if f in WRITES and k == key}
    return [(before, mine) for before, mine in parts if not every & {*before}]


def _fits(txns: list[Txn], order: tuple[int, ...], kind: str, sessions: bool, lists: bool) -> bool:
    """Does every read return what `order` of commits leaves for it to see?"""
    place = {t: n for n, t in enumerate(order)}
    so = {
        (a, b)
        for a, b in itertools.combinations(range(len(txns)), 2)
        if sessions and txns[a].process == txns[b].process and txns[a].outcome == OK
    }
    if any(place[a] > place[b] for a, b in so if a in place and b in place):
        return False
    history: dict[Any, list[tuple[int, Any]]] = defaultdict(lambda: [(-1, () if lists else None)])
    for t in order:
        finals: dict[Any, tuple[Any, ...]] = defaultdict(tuple)
        for f, k, v in txns[t].mops:
            if f in WRITES:
                finals[k] = (*finals[k], v)
        for k, made in finals.items():
            history[k].append((t, history[k][-1][1] + made if lists else made[-1]))
    from_whom: dict[int, list[tuple[Any, int, set[int]]]] = {}
    for t in order:
        rows: list[tuple[Any, int, set[int]]] = []
        versions: dict[Any, Any] = {}
        for at, (f, k, v) in enumerate(txns[t].mops):
            if f in WRITES or txns[t].outcome != OK:
                continue
            own = tuple(w for g, j, w in txns[t].mops[:at] if g in WRITES and j == k)
            found: tuple[Any, int, set[int]] | None = None
            if lists and tuple(v) != history[k][-1][1][: len(v)]:
                return False
            for before, mine in _splits(txns[t], at, lists):
                if not lists and mine:
                    if kind in SEES_ITSELF and mine != own:
                        continue
                    found = (k, -2, set())
                    break
                if kind in SEES_ITSELF and (mine != own or versions.get(k, before) != before):
                    continue
                writers = [w for w, state in history[k] if state == before]
                if not writers:
                    continue
                writer = writers[0]
                shown = {w for w, state in history[k] if w >= 0 and lists and w != t
                         and len(state) <= len(before)} | ({writer} - {-1})  # fmt: skip
                if t in shown or any(place[w] > place[t] for w in shown):
                    continue
                found, versions[k] = (k, writer, shown), before
                break
            if found is None:
                return False
            if found[1] != -2:
                rows.append(found)
        from_whom[t] = rows
    wrote = {k: [t for t, _ in states[1:]] for k, states in history.items()}
    wr = {(w, t) for t, rows in from_whom.items() for _, _, shown in rows for w in shown}
    causes = nx.DiGraph([*wr, *(p for p in so if p[0] in place and p[1] in place)])
    causes.add_nodes_from(order)
    for t, rows in from_whom.items():
        for nth, (k, writer, _) in enumerate(rows):
            seen: set[int] = set()
            if kind == "view":
                seen = {w for _, _, shown in rows[:nth] for w in shown}
            elif kind == "atomic":
                seen = {w for _, _, shown in rows for w in shown} | {a for a, b in so if b == t}
            elif kind == "causal":
                seen = set(nx.ancestors(causes, t))
            seen &= {*place} - {t}
            if any(place[u] > place.get(writer, -1) for u in seen if u in wrote.get(k, ())):
                return False
    return True


def allowed(txns: list[Txn], model: str, *, lists: bool) -> bool:
    """Is there an order of the acknowledged and some unknown transactions in which every read
    fits?"""
    kind, sessions = MODELS[model]
    must = [t for t, txn in enumerate(txns) if txn.outcome == OK]
    maybe = [t for t, txn in enumerate(txns) if txn.outcome == INFO]
    return any(
        _fits(txns, order, kind, sessions, lists)
        for n in range(len(maybe) + 1)
        for some in itertools.combinations(maybe, n)
        for order in itertools.permutations([*must, *some])
    )


def random_history(rng: random.Random, *, lists: bool) -> list[Txn]:
    """A store of which older states are read; now and then a transaction forgets or reorders what
    it did, reads what another did not finish, or shows a part of what was appended together."""
    keys, processes, lies = rng.randint(1, 2), rng.randint(1, 3), rng.choice([0.05, 0.25])
    write = "append" if lists else "w"
    fresh = itertools.count(1)
    states: dict[int, list[list[int]]] = {k: [[]] for k in range(keys)}
    txns: list[Txn] = []
    lives = [0] * processes
    for _ in range(rng.randint(2, 5)):
        mops: list[tuple[str, int, Any]] = []
        own: dict[int, list[int]] = defaultdict(list)
        back = {k: rng.choice([-1, -1, -1, rng.randrange(len(states[k]))]) for k in states}
        for _ in range(rng.randint(1, 4)):
            k = rng.randrange(keys)
            if rng.random() < 0.5:
                own[k].append(next(fresh))
                mops.append((write, k, own[k][-1]))
                continue
            told = states[k][back[k]] + own[k]
            if rng.random() < lies and told:
                told = list(told)
                what = rng.randrange(4)
                at = rng.randrange(len(told))
                if what == 0:
                    del told[at]
                elif what == 1:
                    told[at:] = told[at:][::-1]
                elif what == 2:
                    told = told[: len(told) - len(own[k])]
                else:
                    told = told[:at]
            mops.append(("r", k, told if lists else (told[-1] if told else None)))
        outcome = rng.choices([OK, INFO, FAIL], [8, 3, 1])[0]
        process = rng.randrange(processes)
        txns.append(Txn(process + 100 * lives[process], outcome, tuple(mops)))
        lives[process] += outcome == INFO
        if outcome != FAIL:
            for k, made in own.items():
                if rng.random() < lies:
                    made = [v for v in made if rng.random() < 0.6]
                states[k].append(states[k][-1] + made)
    return txns
