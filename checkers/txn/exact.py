"""What is decided of a register history, whatever the order of its versions was.

Serializability and snapshot isolation are decided by a search for an order (`order_search`), weaker
models by what their transactions see (`weak_models`). An order that proves a model proves all that
it implies; a model that is violated rules out all that imply it. Others are unknown: known versions
show too little. An anomaly is called after the weakest model that is violated; the shape of a cycle
that stands on an order which only the model forces is told, and is not the name.

A list-append history comes here where the graph has no cycle and no execution in its order (or as
real time goes) has proved it, since then each list is a register (`as_registers.py`).

A process that did two things at once has no order of them: session models that do not hold under a
stricter order are open then. In our own records that is so where an operation begins at the very
time stamp at which the one before it ended. All is open where nil is written, as only columns can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec.structs import replace

from checkers.txn import assignments, order_search, weak_models
from checkers.txn.as_registers import BYTES_PER_ELEMENT, registers_of, replacing
from checkers.txn.assignments import Assumed
from checkers.txn.columns import INFO, OK, TxnColumns
from checkers.txn.models import UNTESTED, canonical, implied_models
from checkers.txn.order_search import OrderAnswer
from checkers.txn.weak_models import Decision, Isolation
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns

MODELS: Final = (*order_search.MODELS, *weak_models.MODELS)
"""All that can be decided."""

WEAK: Final = frozenset(weak_models.MODELS)

_COMMITTED: Final = "strong-session-read-committed"
_ABOVE: Final = {"strong-session-read-uncommitted": (_COMMITTED,)}
"""What decides a model that cannot be decided itself, where it holds."""

SAME: Final = {"repeatable-read": "serializable"}
"""Registers have no predicates: what violates one violates the other (Adya 1999, PL-2.99)."""

INFERRED: Final = frozenset(
    {
        "read-uncommitted",
        "strong-session-read-uncommitted",
        "strong-read-uncommitted",
        "strong-read-committed",
    }
)
"""Of which the known versions tell all: writes that nobody compares may have any order."""


@dataclass
class Exact:
    """`decisions` of some of MODELS, and where they come from. `registers` are the columns that
    were judged, where these are not the history's own; of lists `list_order` is what was found of
    an order, and `open` says why a model is. `assumed` are weak models that are
    violated whichever writes open reads read from."""

    decisions: dict[str, Decision] = field(default_factory=dict)
    seen: Isolation | None = None
    assumed: dict[str, Assumed] = field(default_factory=dict)
    registers: TxnColumns | None = None
    orders: list[OrderAnswer] = field(default_factory=list)
    list_order: OrderAnswer | None = None
    open: dict[str, str] = field(default_factory=dict)

    def holds(self, model: str) -> bool | None:
        """Of any model of the lattice; None where that does not follow from what was decided."""
        name = SAME.get(canonical(model), canonical(model))
        if any(d == "valid" and name in implied_models(m) for m, d in self.decisions.items()):
            return True
        below = implied_models(name)
        if any(d == "violated" and m in below for m, d in self.decisions.items()):
            return False
        return None

    def why_open(self, model: str) -> str | None:
        """Why it was not decided, where somebody tried."""
        name = canonical(model)
        if name in self.open:
            return self.open[name]
        for order in self.orders:
            if order.decisions.get(name) == "open":
                return order.why_open
        if self.seen is not None and self.seen.decisions.get(name) == "open":
            return self.seen.why_open
        return None

    def involved(self, model: str) -> list[int]:
        """Transactions in what refuted the order that a model needs."""
        looks = [*self.orders, *([self.list_order] if self.list_order else [])]
        return next((o.involved[model] for o in looks if model in o.involved), [])


def _weakest_above(model: str, among: Iterable[str]) -> set[str]:
    above = {m for m in among if model in implied_models(m)}
    return {m for m in above if not (implied_models(m) - {m}) & above}


def models_to_search(asked: Iterable[str]) -> list[str]:
    """Models that are searched for an order first: those asked, and for one that is not decided the
    weakest that implies it."""
    wanted = set()
    for name in map(canonical, asked):
        model = SAME.get(name, name)
        if model in order_search.MODELS:
            wanted.add(model)
        elif model not in weak_models.MODELS and model not in INFERRED:
            wanted |= _weakest_above(model, order_search.MODELS)
    return [m for m in order_search.MODELS if m in wanted]


_AHEAD: Final = {
    "serializable": ("strong-session-serializable",),
    "snapshot-isolation": ("strong-session-serializable", "strong-session-snapshot-isolation"),
}
"""What implies a model and is tried before it: the order of sessions leaves less to choose."""

_AHEAD_SHARE: Final = 0.2
"""Of the time budget, for each of them."""


def _without_time(model: str) -> str:
    """The strongest with an order that a model implies and real time says nothing to."""
    return next(
        m for m in order_search.MODELS if m in order_search.TIMELESS & implied_models(model)
    )


class _Clock:
    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._started_ns = monotonic_ns()

    def left(self) -> Budget:
        spent_s = (monotonic_ns() - self._started_ns) / 1e9
        return replace(self._budget, time_s=max(0.0, self._budget.time_s - spent_s))


def _follows(c: TxnColumns) -> bool:
    """Does a transaction of unknown end follow an acknowledged one in its session?"""
    unknown = np.flatnonzero((c.outcome == INFO) & (c.process >= 0))
    done = np.flatnonzero((c.outcome == OK) & (c.process >= 0))
    first = np.full(int(c.process.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, c.process[done], c.complete_pos[done])
    return bool((first[c.process[unknown]] < c.invoke_pos[unknown]).any())


def open_sessions(c: TxnColumns, asked: Iterable[str]) -> dict[str, str]:
    """Models of sessions that inference leaves open, each with the reason: it relates acknowledged
    transactions alone."""
    names = {canonical(model) for model in asked} & {*_ABOVE}
    if not names or not _follows(c):
        return {}
    return {
        name: "unknown transactions follow others in their sessions, and "
        f"{', '.join(_ABOVE[name])}, which implies it, does not hold"
        for name in names
    }


def look_at_lists(c: TxnColumns, asked: Sequence[str], budget: Budget) -> Exact:
    """What is asked of a list-append history whose lists agree: weak models, and those that need
    an order of its transactions."""
    found, clock = Exact(), _Clock(budget)
    names = {canonical(model) for model in asked}
    below = {m for name in names & set(UNTESTED) & WEAK for m in implied_models(name)}
    if _follows(c):
        # Inference relates acknowledged transactions of a session alone.
        below |= {_COMMITTED for name in names if _COMMITTED in (name, *_ABOVE.get(name, ()))}
    weak = [m for m in weak_models.MODELS if m in below]
    strong = models_to_search(asked)
    if weak and len(c.elem) * BYTES_PER_ELEMENT > budget.memory_mb * 2**20:
        found.open |= dict.fromkeys(weak, f"{len(c.elem)} elements of lists need more memory")
    elif weak:
        found.registers, known = registers_of(c)
        found.seen = weak_models.decide(found.registers, weak, clock.left(), known)
        found.decisions |= found.seen.decisions
    for name, why in open_sessions(c, asked).items():
        if any(found.decisions.get(m) not in (None, "valid") for m in _ABOVE[name]):
            found.open[name] = why
    if strong:
        registers, silent = replacing(c)
        if silent:
            why = f"{silent} unknown transactions have no invocation, and took effect"
            found.open |= dict.fromkeys(set(strong) - order_search.TIMELESS, why)
            strong = sorted({_without_time(model) for model in strong})
        order = found.list_order = order_search.decide(registers, strong, clock.left())
        found.decisions |= order.decisions
        found.open |= dict.fromkeys(
            (m for m, said in order.decisions.items() if said == "open"), order.why_open
        )
    return found


def _decide_weak(c: TxnColumns, weak: Sequence[str], budget: Budget, found: Exact) -> None:
    if c.open:
        answer = assignments.decide(c, weak, budget)
        found.seen, found.assumed = answer.seen, answer.assumed
        found.open |= answer.open
    else:
        found.seen = weak_models.decide(c, weak, budget)
    found.decisions |= found.seen.decisions


def look(c: TxnColumns, asked: Sequence[str], budget: Budget) -> Exact:
    """Decides what is asked; where that is violated, also what it implies. Raises ValueError for
    columns that break the rules of csrc/txn/txn.h, or write a value twice to its key."""
    found, clock = Exact(), _Clock(budget)
    first = models_to_search(asked)
    for ahead in dict.fromkeys(name for model in first for name in _AHEAD.get(model, ())):
        if ahead not in first and any(found.holds(model) is None for model in first):
            share = replace(budget, time_s=budget.time_s * _AHEAD_SHARE)
            found.orders.append(order_search.decide(c, [ahead], share))
            found.decisions |= found.orders[-1].decisions
    first = [model for model in first if not found.holds(model)]
    if first:
        found.orders.append(order_search.decide(c, first, clock.left()))
        found.decisions |= found.orders[-1].decisions
    if all(found.holds(model) for model in asked):
        return found
    names = {SAME.get(name, name) for name in map(canonical, asked)}
    below = {m for name in names for m in implied_models(name)}
    if c.open:  # inference leaves open reads out, so that it shows no model to hold
        for model in names & INFERRED:
            below |= _weakest_above(model, weak_models.MODELS)
    weak = [m for m in weak_models.MODELS if m in below and found.holds(m) is None]
    if weak:
        _decide_weak(c, weak, clock.left(), found)
    strong = [
        m for m in order_search.MODELS if m in below and found.holds(m) is None and m not in first
    ]
    if strong:
        found.orders.append(order_search.decide(c, strong, clock.left()))
        found.decisions |= found.orders[-1].decisions
    return found
