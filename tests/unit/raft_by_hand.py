"""The states of `dstest.spec.shipped.raft`, counted another way: plain tuples and loops, written
from figure 2 of the paper and not from the specification. Servers are 0, 1, ..; a log is the terms
of its entries, and begins with that of who votes (term 0)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

__all__ = ["counted"]


class World(NamedTuple):
    """Of each server: term, vote, whether it leads, log, what it promised, what it committed."""

    term: tuple[int, ...]
    vote: tuple[int | None, ...]
    leads: tuple[bool, ...]
    log: tuple[tuple[int, ...], ...]
    disk: tuple[int, ...]
    commit: tuple[int, ...]
    granted: frozenset[tuple[int, int, int]] = frozenset()
    asked: frozenset[tuple[int, int, tuple[int, int]]] = frozenset()
    led: frozenset[tuple[int, int, tuple[int, ...], int]] = frozenset()
    """Term, its leader, the leader's log in it, and what it has committed."""
    acks: frozenset[tuple[int, int, int]] = frozenset()
    applied: int = 0


def put(row: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*row[:at], value, *row[at + 1 :])


def elections(w: World, me: int, terms: int) -> Iterator[World]:
    everyone = range(len(w.term))
    mine, last = w.term[me], (w.log[me][-1], len(w.log[me]))
    for newer in range(mine + 1, max(w.term) + 1):
        yield w._replace(
            term=put(w.term, me, newer), vote=put(w.vote, me, None), leads=put(w.leads, me, False)
        )
    if mine < terms and not w.leads[me]:
        yield w._replace(
            term=put(w.term, me, mine + 1),
            vote=put(w.vote, me, me),
            granted=w.granted | {(mine + 1, me, me)},
            asked=w.asked | {(mine + 1, me, last)},
        )
    for term, who, theirs in w.asked:
        if term == mine and theirs >= last and w.vote[me] in (None, who):
            yield w._replace(vote=put(w.vote, me, who), granted=w.granted | {(term, who, me)})
    for voters in combinations(everyone, len(w.term) // 2 + 1):
        if {(mine, me, one) for one in voters} <= w.granted and not w.leads[me]:
            others = frozenset(one for one in w.led if one[0] != mine)
            row = (mine, me, w.log[me], w.commit[me])
            yield w._replace(leads=put(w.leads, me, True), led=others | {row})
    if w.leads[me]:
        yield w._replace(leads=put(w.leads, me, False))


def with_led(w: World, term: int, **changes: Any) -> frozenset[Any]:
    (one,) = [one for one in w.led if one[0] == term]
    made = (term, one[1], changes.get("log", one[2]), changes.get("commit", one[3]))
    return w.led - {one} | {made}


def entries(w: World, me: int, length: int) -> Iterator[World]:
    mine, log = w.term[me], w.log[me]
    leader = next((one for one in w.led if one[0] == mine), None)
    if w.leads[me] and len(log) < length:
        grown = (*log, mine)
        yield w._replace(log=put(w.log, me, grown), led=with_led(w, mine, log=grown))
    if leader is None:
        return
    theirs = leader[2]
    if not w.leads[me]:
        for first in range(2, len(log) + 2):
            if log[: first - 1] != theirs[: first - 1]:
                continue
            for end in range(first, len(theirs) + 1):
                if first <= len(log) and log[first - 1] == theirs[first - 1]:
                    continue
                yield w._replace(
                    log=put(w.log, me, theirs[:end]),
                    disk=put(w.disk, me, min(w.disk[me], first - 1)),
                    commit=put(w.commit, me, min(w.commit[me], first - 1)),
                )
    for upto in range(1, len(log) + 1):
        if log[:upto] != theirs[:upto]:
            continue
        told = max([n for t, v, n in w.acks if (t, v) == (mine, me)], default=0)
        yield w._replace(
            disk=put(w.disk, me, max(w.disk[me], upto)),
            acks=w.acks - {(mine, me, told)} | {(mine, me, max(told, upto))},
        )
        if upto <= w.commit[me]:
            continue
        if not w.leads[me]:
            if upto <= leader[3]:
                yield w._replace(commit=put(w.commit, me, upto))
        elif log[upto - 1] == mine:
            have = {v for t, v, n in w.acks if t == mine and n >= upto}
            if 2 * len(have) > len(w.term):
                yield w._replace(commit=put(w.commit, me, upto), led=with_led(w, mine, commit=upto))


def rest(w: World, me: int, length: int) -> Iterator[World]:
    for kept in range(max(w.disk[me], 0), len(w.log[me]) + 1):
        yield w._replace(
            leads=put(w.leads, me, False),
            log=put(w.log, me, w.log[me][:kept]),
            commit=put(w.commit, me, 0),
        )
    for first in range(1, w.applied + 2):
        for end in range(first, w.commit[me] + 1):
            yield w._replace(applied=max(w.applied, end))


def counted(servers: int, terms: int, length: int) -> tuple[int, int]:
    """States and steps."""
    first = World(
        term=(0,) * servers,
        vote=(None,) * servers,
        leads=(False,) * servers,
        log=((0,),) * servers,
        disk=(1,) * servers,
        commit=(0,) * servers,
    )
    seen, todo, steps = {first}, [first], 0
    while todo:
        w = todo.pop()
        for me in range(servers):
            for after in (*elections(w, me, terms), *entries(w, me, length), *rest(w, me, length)):
                steps += 1
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
    return len(seen), steps
