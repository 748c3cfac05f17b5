"""The wire to the exact checker of weak isolation: columns in, an answer per model out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from checkers import _core
from checkers.txn._native import FINDINGS, NO_HASHES, SMALL, STATUS, in_core, positions
from checkers.txn.columns import I32, TxnColumns
from dstest.core.check import Budget

MODELS: Final = (
    "strong-session-causal",
    "strong-session-read-atomic",
    "strong-session-monotonic-atomic-view",
    "causal-cerone",
    "read-atomic",
    "monotonic-atomic-view",
    "strong-session-read-committed",
    "read-committed",
)
"""In the order of `enum iso_model`."""

Decision = Literal["valid", "violated", "open"]

ANSWERS: Final[tuple[Decision, ...]] = ("open", "valid", "violated", "open")
_REASONS: Final = ("session", "read", "seen", "initial", "known")

NO_ORDER: Final = np.empty(0, np.int64)

Known = tuple[I32, I32]

NOTHING_KNOWN: Final[Known] = (np.empty(0, np.int32), np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class Step:
    """`txn` comes before `to`: `session`, `read`, or because `reader` read `key` from `to` (from
    the `initial` value) and saw `txn`, which wrote it; `way` is how it saw it."""

    txn: int
    to: int
    reason: str
    reader: int
    key: int
    way: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Isolation:
    """`decisions` of the models asked; `cycles` of those that are violated by one; `counts` of what
    violates alone. `status` is an index into `_native.STATUS`."""

    status: int
    decisions: dict[str, Decision]
    counts: dict[str, int]
    cycles: dict[str, list[Step]]
    reads: int
    stale: int
    demands: int
    overlapping: int
    nil_writes: int

    @property
    def why_open(self) -> str:
        """Why anything is left open."""
        if self.status:
            return f"{STATUS[self.status]} first"
        if self.nil_writes:
            return "nil was written, so that a read of nil does not tell which value it was"
        if self.overlapping:
            return (
                f"{self.overlapping} transactions began before the one before them in their "
                "process had ended"
            )
        return "what stale reads demand needs more memory than there is"


def _cycles(rows: list[int]) -> Iterator[tuple[str, list[Step]]]:
    at = 0
    while at < len(rows):
        model, count = rows[at : at + 2]
        at += 2
        steps = []
        for _ in range(count):
            txn, to, reason, reader, key, length = rows[at : at + 6]
            at += 6 + length
            way = tuple(rows[at - length : at])
            steps.append(Step(txn, to, _REASONS[reason], reader, key, way))
        yield MODELS[model], steps


def call_of(
    c: TxnColumns, models: int, budget: Budget, stop: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> tuple[Any, ...]:
    """What the exact checkers of the core take: `models` has a bit for each that is asked."""
    invoke, complete, n_positions = positions(c)
    return (
        c.outcome, c.process, invoke, complete, c.mop_start, c.mop_kind, c.mop_key,
        c.mop_value, c.mop_known, c.elem_start, c.elem, NO_ORDER, NO_HASHES, stop,
        len(c.key_names), len(c.value_names), int(c.process.max(initial=-1)) + 1,
        n_positions, models, int(budget.time_s * 1e9), budget.memory_mb * 2**20,
    )  # fmt: skip


def decide(
    c: TxnColumns, models: Iterable[str], budget: Budget, known: Known = NOTHING_KNOWN
) -> Isolation:
    """Decides those `models` (of MODELS). `known` are pairs of transactions: the first one's
    version of some key is the earlier one.

    Raises ValueError for columns that break the rules of csrc/txn/txn.h, and where a value was
    written twice to its key.
    """
    stop = np.zeros(1, np.int32)
    asked = sorted(MODELS.index(model) for model in models)
    call = call_of(c, sum(1 << m for m in asked), budget, stop)
    status, answers, counts, steps, reads, stale, demands, overlapping, nil_writes = in_core(
        lambda: _core.check_isolation(call, *known), stop, small=c.txns < SMALL
    )
    found = np.frombuffer(answers, np.int64).tolist()
    return Isolation(
        status=status,
        decisions={MODELS[m]: ANSWERS[found[m]] for m in asked},
        counts=dict(zip(FINDINGS, np.frombuffer(counts, np.int64).tolist(), strict=True)),
        cycles=dict(_cycles(np.frombuffer(steps, np.int64).tolist())),
        reads=reads,
        stale=stale,
        demands=demands,
        overlapping=overlapping,
        nil_writes=nil_writes,
    )
