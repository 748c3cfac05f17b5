"""The wire to the search for an order of transactions: columns in, an answer per model out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from checkers import _core
from checkers.txn._native import SMALL, STATUS, in_core
from checkers.txn.as_registers import Writers, neighbourhood, part_of
from checkers.txn.columns import I64, OpenReads, TxnColumns
from checkers.txn.weak_models import ANSWERS, Decision, call_of
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns

MODELS: Final = (
    "strong-serializable",
    "strong-session-serializable",
    "serializable",
    "strong-snapshot-isolation",
    "strong-session-snapshot-isolation",
    "snapshot-isolation",
)
"""In the order of `enum ord_model`."""

TIMELESS: Final = frozenset(MODELS) - {"strong-serializable", "strong-snapshot-isolation"}
"""What real time says nothing to."""

SLACKS: Final = (100, 1000, 10_000)
"""Events that what is put the other way round may lie apart: without a bound orders wander far."""

RADII: Final = (32, 256)
"""Transactions before and after each one involved that are looked at."""

NEARBY: Final = Budget(time_s=2.0, memory_mb=512)


@dataclass(frozen=True, slots=True)
class OrderAnswer:
    """`decisions` of the models asked. `order` has the transactions in an order of commits that
    proves `order_model`, where any model holds, and `sources` of open reads (by number) which of
    their candidates they read from in it; `involved` what refuted the others. `faults` are
    reads that no order explains."""

    status: int
    decisions: dict[str, Decision]
    order_model: str | None
    order: list[int]
    sources: dict[int, int]
    involved: dict[str, list[int]]
    faults: int
    overlapping: int
    nil_writes: int
    pairs: int
    choices: int
    conflicts: int

    @property
    def why_open(self) -> str:
        """Why anything is left open."""
        if self.status:
            return (
                f"{STATUS[self.status]} after {self.conflicts} of {self.choices} choices among "
                f"{self.pairs} pairs of versions were taken back"
            )
        if self.nil_writes:
            return "nil was written, so that a read of nil does not tell which value it was"
        return (
            f"{self.overlapping} transactions began before the one before them in their process "
            "had ended"
        )


def _involved(rows: list[int]) -> Iterator[tuple[str, list[int]]]:
    at = 0
    while at < len(rows):
        model, count = rows[at : at + 2]
        yield MODELS[model], rows[at + 2 : at + 2 + count]
        at += 2 + count


def _sources(reads: OpenReads, first: I64, at: I64) -> dict[int, int]:
    which = np.searchsorted(first, at, side="right") - 1
    return dict(zip(reads.once[which].tolist(), (at - first[which]).tolist(), strict=True))


def _contradicted(c: TxnColumns, asked: Iterable[str]) -> OrderAnswer:
    """What reads say that contradict their own transaction, whoever wrote what they returned."""
    return OrderAnswer(
        status=0, decisions=dict.fromkeys(asked, "violated"), order_model=None, order=[],
        sources={}, involved={}, faults=len(c.open.torn) + len(c.open.unlike), overlapping=0,
        nil_writes=0, pairs=0, choices=0, conflicts=0,
    )  # fmt: skip


def _call(c: TxnColumns, asked: Iterable[str], budget: Budget, slack: int) -> OrderAnswer:
    stop = np.zeros(1, np.int32)
    wanted = sorted(MODELS.index(model) for model in asked)
    shared = call_of(c, sum(1 << m for m in wanted), budget, stop)
    read, first, write = c.open.some(c.open.once)
    (
        status, answers, order_model, order, sources, involved, faults, overlapping, nil_writes,
        pairs, choices, conflicts,
    ) = in_core(
        lambda: _core.check_order(shared, slack, read, first, write), stop, small=c.txns < SMALL
    )  # fmt: skip
    found = np.frombuffer(answers, np.int64).tolist()
    return OrderAnswer(
        status=status,
        decisions={MODELS[m]: ANSWERS[found[m]] for m in wanted},
        order_model=MODELS[order_model] if order_model >= 0 else None,
        order=np.frombuffer(order, np.int64).tolist(),
        sources=_sources(c.open, first, np.frombuffer(sources, np.int64)),
        involved=dict(_involved(np.frombuffer(involved, np.int64).tolist())),
        faults=faults,
        overlapping=overlapping,
        nil_writes=nil_writes,
        pairs=pairs,
        choices=choices,
        conflicts=conflicts,
    )


def _nearby_violated(
    c: TxnColumns, found: OrderAnswer, models: Iterable[str], deadline_ns: int
) -> list[str]:
    """Those models that are violated in the neighbourhood of what was involved: a part of the
    history shows what it can without the orders that were left out."""
    writers = Writers(c)
    shown = []
    for model in models:
        for radius in RADII:
            mops = neighbourhood(c, writers, found.involved.get(model, []), radius)
            left_s = max(0.0, (deadline_ns - monotonic_ns()) / 1e9)
            budget = replace(NEARBY, time_s=min(NEARBY.time_s, left_s))
            part = _call(part_of(c, mops), [model], budget, 0)
            if part.decisions[model] == "violated":
                shown.append(model)
                break
    return shown


def _ordered(found: OrderAnswer, earlier: OrderAnswer) -> OrderAnswer:
    """What was found last, with the order that proved a model before."""
    model, order, sources = earlier.order_model, earlier.order, earlier.sources
    return dataclasses.replace(found, order_model=model, order=order, sources=sources)


def decide(c: TxnColumns, models: Iterable[str], budget: Budget) -> OrderAnswer:
    """Decides those `models` (of MODELS). Raises ValueError for columns that break the rules of
    csrc/txn/txn.h, and where a value was written twice to its key."""
    deadline_ns = monotonic_ns() + int(budget.time_s * 1e9)
    if len(c.open.torn) or len(c.open.unlike):
        return _contradicted(c, models)
    found = _call(c, models, budget, SLACKS[0])
    decisions, involved = dict(found.decisions), dict(found.involved)
    for slack in (*SLACKS[1:], 0):
        left = [m for m, said in decisions.items() if said == "open" and m in TIMELESS]
        if not left or found.status or found.nil_writes:
            break
        for model in _nearby_violated(c, found, left, deadline_ns):
            decisions[model] = "violated"
            left.remove(model)
        left_s = max(0.0, (deadline_ns - monotonic_ns()) / 1e9)
        if left:
            again = _call(c, left, replace(budget, time_s=left_s), slack)
            decisions |= again.decisions
            involved |= again.involved
            found = again if again.order_model or not found.order_model else _ordered(again, found)
    return dataclasses.replace(found, decisions=decisions, involved=involved)
