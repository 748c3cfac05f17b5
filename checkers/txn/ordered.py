"""The wire to the search for an order of transactions: columns in, an answer per model out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers import _core
from checkers.txn._native import NO_HASHES, SMALL, STATUS, in_core, positions
from checkers.txn.columns import TxnColumns
from checkers.txn.decided import NO_ORDER, Decision
from dstest.core.check import Budget

__all__ = ["MODELS", "Ordered", "decide"]

MODELS: Final = (
    "strong-serializable",
    "strong-session-serializable",
    "serializable",
    "strong-snapshot-isolation",
    "strong-session-snapshot-isolation",
    "snapshot-isolation",
)
"""In the order of `enum ord_model`."""

_ANSWERS: Final[tuple[Decision, ...]] = ("open", "valid", "violated", "open")


@dataclass(frozen=True, slots=True)
class Ordered:
    """`decisions` of the models asked. `order` has the transactions in an order of commits that
    proves `order_model`, where any model holds; `involved` what refuted the others. `faults` are
    reads that no order explains."""

    status: int
    decisions: dict[str, Decision]
    order_model: str | None
    order: list[int]
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


def decide(c: TxnColumns, models: Iterable[str], budget: Budget) -> Ordered:
    """Decides those `models` (of MODELS). Raises ValueError for columns that break the rules of
    csrc/txn/txn.h, and where a value was written twice to its key."""
    stop = np.zeros(1, np.int32)
    invoke, complete, n_positions = positions(c)
    asked = sorted(MODELS.index(model) for model in models)
    (
        status, answers, order_model, order, involved, faults, overlapping, nil_writes, pairs,
        choices, conflicts,
    ) = in_core(
        lambda: _core.check_order(
            c.outcome, c.process, invoke, complete, c.mop_start, c.mop_kind, c.mop_key,
            c.mop_value, c.mop_known, c.elem_start, c.elem, NO_ORDER, NO_HASHES, stop,
            len(c.key_names), len(c.value_names), int(c.process.max(initial=-1)) + 1,
            n_positions, sum(1 << m for m in asked),
            int(budget.time_s * 1e9), budget.memory_mb * 2**20,
        ),
        stop,
        small=c.txns < SMALL,
    )  # fmt: skip
    found = np.frombuffer(answers, np.int64).tolist()
    return Ordered(
        status=status,
        decisions={MODELS[m]: _ANSWERS[found[m]] for m in asked},
        order_model=MODELS[order_model] if order_model >= 0 else None,
        order=np.frombuffer(order, np.int64).tolist(),
        involved=dict(_involved(np.frombuffer(involved, np.int64).tolist())),
        faults=faults,
        overlapping=overlapping,
        nil_writes=nil_writes,
        pairs=pairs,
        choices=choices,
        conflicts=conflicts,
    )
