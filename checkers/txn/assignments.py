"""Weak models of histories whose reads are open (`columns.OpenReads`): is there a write for each of
them such that the model holds?

Some assignment of writes to reads is judged as if it were known (`weak_models`). A circle that it
ends in stands on some of these reads: not all of them read what was assumed, a *nogood*. The next
assignment breaks none of the nogoods (de Moura et al., "Lazy theorem proving", SAT 2002, on
constraints of finite domains). A model is violated where the nogoods leave no assignment, or where
what is known without the open reads violates it already.

The first assignment is what an order of transactions says that proves a stronger model, of the
history but for a few transactions that are in its way; else the nearest write before each read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec.structs import replace as with_fields

from checkers.txn import order_search, weak_models
from checkers.txn.columns import I64, READ, TxnColumns
from checkers.txn.models import implied_models
from checkers.txn.weak_models import Decision, Isolation, Step
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns

Nogood = frozenset[tuple[int, int]]
"""Reads, each with the number of a candidate, that not all read from these."""

GUIDES: Final = ("strong-session-serializable", "strong-session-snapshot-isolation")
"""Models whose order is a first assignment."""

ROUNDS_MAX: Final = 12
"""So often are transactions taken out that are in the way of such an order."""

GUIDE_SHARE: Final = 0.25
"""Of the time that is left."""

TRIES_MAX: Final = 20_000
"""Steps of one search for an assignment that breaks no nogood."""

_TORN: Final = frozenset(m for m in weak_models.MODELS if "read-atomic" in implied_models(m))
"""Models in which a transaction reads what it wrote itself."""


class _Over(Exception):
    """Time or steps have been spent first."""


@dataclass
class Found:
    """As `Isolation`, of open reads; `cycles` are of the history without them. `open` says why a
    model was left open; `assumed` is of models that are violated for no such cycle."""

    seen: Isolation
    open: dict[str, str] = field(default_factory=dict)
    assumed: dict[str, Assumed] = field(default_factory=dict)


@dataclass
class Assumed:
    """One way to say who read from whom, in `columns`, and the cycle that it ends in; `reads` are
    all open reads that it takes to show that every way ends in one."""

    columns: TxnColumns
    cycle: list[Step]
    reads: list[int]


def _assigned(c: TxnColumns, choice: I64) -> TxnColumns:
    """The columns of an assignment."""
    value, known = c.mop_value.copy(), c.mop_known.copy()
    value[c.open.read] = c.mop_value[c.open.write[c.open.first[:-1] + choice]]
    known[c.open.read] = 1
    return replace(c, mop_value=value, mop_known=known)


def _without_reads(c: TxnColumns, txns: Iterable[int]) -> TxnColumns:
    """Nobody knows what these transactions read."""
    some = np.zeros(c.txns, np.bool_)
    some[list(txns)] = True
    of = np.repeat(some, np.diff(c.mop_start))
    known = np.where(of & (c.mop_kind == READ), 0, c.mop_known).astype(c.mop_known.dtype)
    once = c.open.once[~of[c.open.read[c.open.once]]]
    none = c.open.torn[:0]
    return replace(c, mop_known=known, open=replace(c.open, once=once, torn=none, unlike=none))


def _guided(c: TxnColumns, model: str, deadline_ns: int, budget: Budget) -> dict[int, int] | None:
    """By open read its candidate in an order of most transactions, where one is found soon."""
    torn = np.concatenate([c.open.torn, c.open.unlike])
    gone = set((np.searchsorted(c.mop_start, torn, side="right") - 1).tolist())
    for _ in range(ROUNDS_MAX):
        left_s = (deadline_ns - monotonic_ns()) / 1e9
        if left_s <= 0:
            return None
        part = _without_reads(c, gone)
        found = order_search.decide(part, [model], with_fields(budget, time_s=left_s))
        if found.decisions[model] == "valid":
            return found.sources
        involved = set(found.involved.get(model, ()))
        if found.decisions[model] != "violated" or not involved - gone:
            return None
        gone |= involved
    return None


def _nearest(c: TxnColumns) -> I64:
    """By open read the candidate that comes last before it in the history, else the first."""
    reads, sizes = c.open, np.diff(c.open.first)
    reader = np.repeat(reads.read, sizes)
    before = (reads.write < reader).astype(np.int64)
    count = np.add.reduceat(before, reads.first[:-1])
    nearest: I64 = np.maximum(count - 1, 0)
    return nearest


class _Nogoods:
    """What not all holds, and an assignment that breaks none of it."""

    def __init__(self, sizes: Sequence[int], choice: list[int]) -> None:
        self.sizes, self.choice = sizes, choice
        self.all: list[Nogood] = []
        self.of: dict[int, list[int]] = {}
        self.broken: list[int] = []

    def add(self, nogood: Nogood) -> None:
        for read, _ in nogood:
            self.of.setdefault(read, []).append(len(self.all))
        self.all.append(nogood)

    def _breaks(self, read: int, candidate: int, choice: dict[int, int]) -> bool:
        """Does this candidate break a nogood together with what is chosen?"""
        for n in self.of.get(read, ()):
            if (read, candidate) in self.all[n] and all(
                choice.get(other) == c for other, c in self.all[n] if other != read
            ):
                return True
        return False

    def step(self, nogood: Nogood) -> bool:
        """Tries to keep a new nogood by one change."""
        now = {r: self.choice[r] for n in self._near(nogood) for r, _ in self.all[n]}
        for read, _ in sorted(nogood):
            for candidate in range(self.sizes[read]):
                if candidate != now[read] and not self._breaks(read, candidate, now):
                    self.choice[read] = candidate
                    return True
        return False

    def _near(self, nogood: Nogood) -> set[int]:
        return {n for read, _ in nogood for n in self.of[read]}

    def search(self) -> bool:
        """Finds an assignment that breaks none; False where there is none. Raises _Over."""
        order = sorted(self.of, key=lambda read: (-len(self.of[read]), read))
        chosen: dict[int, int] = {}
        tried: list[int] = []
        steps = 0
        while len(tried) < len(order):
            read = order[len(tried)]
            tried.append(-1)
            while not self._next(read, tried, chosen):
                tried.pop()
                chosen.pop(read, None)
                if not tried:
                    return False
                read = order[len(tried) - 1]
                chosen.pop(read, None)
            if (steps := steps + 1) > TRIES_MAX:
                raise _Over
        for read, candidate in chosen.items():
            self.choice[read] = candidate
        return True

    def _next(self, read: int, tried: list[int], chosen: dict[int, int]) -> bool:
        """The next candidate of the last of `tried`, beginning with the one that it has."""
        has = self.choice[read]
        ways = [has, *(n for n in range(self.sizes[read]) if n != has)]
        for at in range(tried[-1] + 1, len(ways)):
            if not self._breaks(read, ways[at], chosen):
                tried[-1], chosen[read] = at, ways[at]
                return True
        return False


class _Search:
    def __init__(self, c: TxnColumns, budget: Budget) -> None:
        self._c, self._budget = c, budget
        self._deadline_ns = monotonic_ns() + int(budget.time_s * 1e9)
        self._txn_of = np.searchsorted(c.mop_start, c.open.read, side="right") - 1
        self._writer_of = np.searchsorted(c.mop_start, c.open.write, side="right") - 1
        self._reads_of: dict[int, list[int]] = {}
        for n, txn in enumerate(self._txn_of.tolist()):
            self._reads_of.setdefault(txn, []).append(n)
        self._tried = 0
        self._nogoods = _Nogoods(np.diff(c.open.first).tolist(), [])

    def left(self) -> Budget:
        left_s = max(0.0, (self._deadline_ns - monotonic_ns()) / 1e9)
        return with_fields(self._budget, time_s=left_s)

    def _start(self) -> list[int]:
        choice = _nearest(self._c)
        for model in GUIDES:
            share = int(self.left().time_s * GUIDE_SHARE * 1e9)
            found = _guided(self._c, model, monotonic_ns() + share, self._budget)
            if found:
                choice[list(found)] = list(found.values())
                break
        self._like(choice)
        return [int(n) for n in choice]

    def _like(self, choice: I64) -> None:
        """Reads that repeat one of their transaction read what it does."""
        c, once = self._c, self._c.open.once
        place = self._txn_of * (len(c.key_names) + 1) + c.mop_key[c.open.read]
        if not len(once):
            return
        order = np.argsort(place[once])
        at = np.searchsorted(place[once][order], place)
        first = once[order[np.minimum(at, len(once) - 1)]]
        same = (place[first] == place) & (c.open.value[first] == c.open.value)
        choice[same] = choice[first[same]]

    def _used(self, first: int, then: int, key: int = -1) -> Iterable[tuple[int, int]]:
        """Open reads by which `then` read from `first`, as is assumed."""
        for read in self._reads_of.get(then, ()):
            candidate = self._nogoods.choice[read]
            if self._writer_of[self._c.open.first[read] + candidate] == first and (
                key < 0 or self._c.mop_key[self._c.open.read[read]] == key
            ):
                yield read, candidate

    def nogood(self, cycle: Sequence[Step]) -> Nogood:
        """The assumptions that a cycle stands on."""
        found: set[tuple[int, int]] = set()
        for step in cycle:
            if step.reason == "read":
                found.update(self._used(step.txn, step.to))
            elif step.reason in ("seen", "initial"):
                if step.reason == "seen":
                    found.update(self._used(step.to, step.reader, step.key))
                for a, b in pairwise(step.way or (step.txn, step.reader)):
                    found.update(self._used(a, b))
        return frozenset(found)

    def decide(self, model: str) -> tuple[Decision, Assumed | None]:
        """Of one model that is not violated without the open reads."""
        nogoods = self._nogoods
        if not nogoods.choice:
            nogoods.choice = self._start()
        mine: list[Nogood] = []
        while (left := self.left()).time_s > 0:
            columns = _assigned(self._c, np.array(nogoods.choice, np.int64))
            seen = weak_models.decide(columns, [model], left)
            self._tried += 1
            if seen.decisions[model] != "violated":
                return seen.decisions[model], None
            cycle = next((y for m, y in seen.cycles.items() if m in implied_models(model)), [])
            nogood = self.nogood(cycle)
            if not nogood:
                return "open", None  # never seen: what is known has no cycle
            nogoods.add(nogood)
            mine.append(nogood)
            try:
                if not nogoods.step(nogood) and not nogoods.search():
                    reads = sorted({read for n in mine for read, _ in n})
                    return "violated", Assumed(columns, cycle, reads)
            except _Over:
                break
        return "open", None

    @property
    def why_open(self) -> str:
        """Why a model was not decided."""
        return (
            f"{len(self._c.open.read)} reads returned what several transactions wrote, and none of "
            f"{self._tried} ways to say which satisfied it before time was over"
        )

    def forget(self) -> None:
        """Nogoods of a model that a weaker one need not keep."""
        kept = self._nogoods
        self._nogoods = _Nogoods(kept.sizes, kept.choice)


def decide(c: TxnColumns, models: Iterable[str], budget: Budget) -> Found:
    """Decides weak `models` of columns with open reads."""
    search = _Search(c, budget)
    asked = [m for m in weak_models.MODELS if m in set(models)]
    seen = weak_models.decide(c, asked, budget)
    found = Found(replace(seen, decisions=dict(seen.decisions)))
    decisions = found.seen.decisions
    settled: list[str] = []
    for model in asked:
        if any(decisions[m] == "valid" and model in implied_models(m) for m in settled):
            decisions[model] = "valid"
        elif len(c.open.torn) and model in _TORN:
            decisions[model] = "violated"
        elif seen.decisions[model] == "valid":
            decisions[model], assumed = search.decide(model)
            if assumed is not None:
                found.assumed[model] = assumed
            if decisions[model] == "open":
                found.open[model] = search.why_open
            search.forget()
        settled.append(model)
    return found
