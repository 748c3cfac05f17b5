"""Brute force on few transactions: can a store execute them and give the same answers?

A history is a list of Jepsen's op maps. Every order of steps is tried, so that it is for minimal
histories.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

OK, FAIL = "ok", "fail"

ORDERS: Final = {
    "strong-serializable": (False, "realtime"),
    "strong-session-serializable": (False, "session"),
    "serializable": (False, "plain"),
    "strong-snapshot-isolation": (True, "realtime"),
    "strong-session-snapshot-isolation": (True, "session"),
    "snapshot-isolation": (True, "plain"),
}


def executable(
    history: list[dict[str, Any]],
    model: str,
    outside: Callable[..., Any] | None = None,
    after: Callable[[Any, Any], Any] = lambda old, new: new,
) -> bool:
    """Can a store execute these op maps one step after the other, and give the same answers? Every
    order of steps is tried: a transaction takes its snapshot, later it commits, both at once where
    the model is no snapshot isolation; one whose outcome is not known may be left out. `outside`
    tells what a transaction found and left, `after` what a key holds after it."""
    snapshot, between = ORDERS[model]
    invoked: dict[Any, dict[str, Any]] = {}
    rows: list[tuple[Any, int, float, str, list[list[Any]]]] = []
    for at, event in enumerate(history):
        if event["type"] == "invoke":
            invoked[event["process"]] = {**event, "at": at}
            continue
        begun = invoked.pop(event["process"])
        end = float(at) if event["type"] == OK else float("inf")
        mops = event["value"] if event["type"] == OK else begun["value"]
        if event["type"] != FAIL:
            rows.append((event["process"], begun["at"], end, event["type"], mops))
    asked = [(outside or _outside)(mops, kind) for _, _, _, kind, mops in rows]
    if any(a is None for a in asked):
        return False
    needs = [
        {
            a
            for a, one in enumerate(rows)
            if (between == "realtime" and one[2] < row[1])
            or (between == "session" and one[0] == row[0] and one[2] < row[1])
        }
        for row in rows
    ]
    must = {n for n, row in enumerate(rows) if row[3] == OK}
    free = [n for n in range(len(rows)) if n not in must]
    return any(
        _runs(asked, needs, must | set(some), snapshot, after)
        for size in range(len(free) + 1)
        for some in itertools.combinations(free, size)
    )


def _outside(mops: list[list[Any]], kind: str) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
    """What a transaction read of others and what it left; None where its reads contradict."""
    reads: dict[Any, Any] = {}
    writes: dict[Any, Any] = {}
    for f, k, v in mops:
        if f == "w":
            writes[k] = v
        elif kind == OK and (writes if k in writes else reads).setdefault(k, v) != v:
            return None
    return reads, writes


def _runs(
    asked: list[Any],
    needs: list[set[int]],
    chosen: set[int],
    snapshot: bool,
    after: Callable[[Any, Any], Any],
) -> bool:
    seen: set[Any] = set()

    def stored(now: dict[Any, Any], writes: dict[Any, Any]) -> frozenset[Any]:
        return frozenset({**now, **{k: after(now.get(k), v) for k, v in writes.items()}}.items())

    def go(begun: frozenset[int], done: frozenset[int], store: Any, since: Any) -> bool:
        """`since`: of those that have begun, keys written by others meanwhile."""
        if done == chosen:
            return True
        state = (begun, done, store, since)
        if state in seen:
            return False
        seen.add(state)
        now, dirty = dict(store), dict(since)
        for t in chosen - begun:
            if not needs[t] & chosen <= done:
                continue
            reads, writes = asked[t]
            if any(now.get(k) != v for k, v in reads.items()):
                continue
            if snapshot:
                if go(begun | {t}, done, store, frozenset({**dirty, t: frozenset()}.items())):
                    return True
            elif go(begun | {t}, done | {t}, stored(now, writes), since):
                return True
        for t in begun - done if snapshot else ():
            writes = asked[t][1]
            if dirty[t] & writes.keys():
                continue
            left = {o: frozenset({*d, *writes}) for o, d in dirty.items() if o != t}
            if go(begun, done | {t}, stored(now, writes), frozenset(left.items())):
                return True
        return False

    return go(frozenset(), frozenset(), frozenset(), frozenset())


def in_an_order(history: list[dict[str, Any]], model: str) -> bool:
    """Can a store of lists execute these op maps one step after the other, every order of steps
    tried? See `executable`."""
    return executable(history, model, _of_lists, lambda old, new: (old or ()) + new)


def _of_lists(mops: list[list[Any]], kind: str) -> tuple[dict[Any, Any], dict[Any, Any]] | None:
    """The lists that a transaction found, and its appends; None where it contradicts itself."""
    found: dict[Any, Any] = {}
    appended: dict[Any, tuple[int, ...]] = {}
    for f, k, v in mops:
        if f == "append":
            appended[k] = (*appended.get(k, ()), v)
        elif kind == OK:
            own, told = appended.get(k, ()), tuple(v)
            if told[len(told) - len(own) :] != own:
                return None
            if found.setdefault(k, told[: len(told) - len(own)] or None) != (
                told[: len(told) - len(own)] or None
            ):
                return None
    return found, appended
