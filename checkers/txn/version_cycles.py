"""Which transactions order the versions of a key in a circle, of which the core tells two versions.

Each source of version orders (`_native.SOURCES`) says of transactions on one key that what one left
there comes before what another one found, or before what it wrote itself.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from checkers.txn._native import SOURCES
from checkers.txn.columns import FAIL, I64, NIL, OK, READ, WRITE, TxnColumns

TXNS_MAX: Final = 2000
"""Transactions on a key among which a circle is looked for."""


class Step(NamedTuple):
    """Version `before` comes before `after`: `first` left the one, and `second` found the other,
    which `source` puts behind it; both are one transaction where it replaced what it had read."""

    before: int
    after: int
    first: int
    second: int
    source: str


class _Use(NamedTuple):
    """What a transaction did to the key: the version that it read first, before it wrote, and the
    one that it left; None where there is none."""

    txn: int
    read: int | None
    wrote: int | None

    @property
    def found(self) -> int | None:
        plain = self.read is None or (self.read == NIL and self.wrote is not None)
        return self.wrote if plain else self.read

    @property
    def left(self) -> int | None:
        return self.read if self.wrote is None else self.wrote


def _uses(c: TxnColumns, key: int) -> list[_Use]:
    uses: dict[int, _Use] = {}
    txn = 0
    for mop in (c.mop_key == key).nonzero()[0].tolist():
        while c.mop_start[txn + 1] <= mop:
            txn += 1
        known = c.mop_kind[mop] == WRITE or (c.outcome[txn] == OK and bool(c.mop_known[mop]))
        if c.outcome[txn] == FAIL or not known:
            continue
        value = int(c.mop_value[mop])
        use = uses.get(txn)
        if c.mop_kind[mop] == READ:
            uses[txn] = use or _Use(txn, value, None)
        else:
            uses[txn] = _Use(txn, None if use is None else use.read, value)
    return list(uses.values())


def _steps(c: TxnColumns, uses: list[_Use], sources: int, order: I64) -> Iterator[Step]:
    """All that the sources say."""
    acknowledged = [u for u in uses if c.outcome[u.txn] == OK]
    if sources & SOURCES["wfr-keys?"]:
        for u in uses:
            yield from _step(u, u, u.read, u.wrote, "wfr-keys?")
    if sources & SOURCES["sequential-keys?"]:
        last: dict[int, _Use] = {}
        for u in sorted(acknowledged, key=lambda u: int(c.complete_pos[u.txn])):
            process = int(c.process[u.txn])
            if process >= 0:
                if process in last:
                    yield from _step(
                        last[process], u, last[process].left, u.found, "sequential-keys?"
                    )
                last[process] = u
    if sources & SOURCES["linearizable-keys?"]:
        for a in acknowledged:
            for b in uses:
                if c.complete_pos[a.txn] < c.invoke_pos[b.txn]:
                    yield from _step(a, b, a.left, b.found, "linearizable-keys?")
    if sources & SOURCES["transaction-order"] and len(order):
        ranked = [u for u in uses if u.wrote is not None and order[u.txn] >= 0]
        ranked.sort(key=lambda u: int(order[u.txn]))
        for a, b in itertools.pairwise(ranked):
            yield from _step(a, b, a.wrote, b.wrote, "transaction-order")


def _step(a: _Use, b: _Use, before: int | None, after: int | None, source: str) -> Iterator[Step]:
    if before is not None and after is not None and before != after:
        yield Step(before, after, a.txn, b.txn, source)


def circle(
    c: TxnColumns, key: int, version: int, other: int, sources: int, order: I64
) -> list[Step]:
    """Steps from `version` by way of `other` back to it; empty where none were found."""
    uses = _uses(c, key)
    if len(uses) > TXNS_MAX:
        return []
    after: dict[int, list[Step]] = {}
    for step in _steps(c, uses, sources, order):
        after.setdefault(step.before, []).append(step)
    there, back = _path(after, version, other), _path(after, other, version)
    return [*there, *back] if there and back else []


def _path(after: dict[int, list[Step]], start: int, goal: int) -> list[Step]:
    """The fewest steps from one version to another; empty where there is no way."""
    came: dict[int, Step | None] = {start: None}
    waiting = deque([start])
    while waiting and goal not in came:
        for step in after.get(waiting.popleft(), ()):
            if step.after not in came:
                came[step.after] = step
                waiting.append(step.after)
    steps: list[Step] = []
    at = came.get(goal)
    while at is not None:
        steps.append(at)
        at = came[at.before]
    return steps[::-1]
