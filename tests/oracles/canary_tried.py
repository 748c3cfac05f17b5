"""How many broken copies of a history a judge rejects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dstest.core.check import CheckResult
from dstest.core.history import History
from dstest.judge.mutants.families import MUTATORS, try_copies
from dstest.judge.mutants.shapes import Mutant

REGISTERS = MUTATORS["linearizable"]
KINDS = tuple(REGISTERS.kinds)


def canary(
    history: History,
    check: Callable[[History], CheckResult],
    seed: int,
    mutants_max: int = 8,
    make: Callable[[History, int, int], Iterator[Mutant]] = REGISTERS.make,
) -> tuple[int, int, list[dict[str, Any]]]:
    """(killed, total, a row per copy)."""
    rows = try_copies(make(history, seed, mutants_max), check)
    return sum(row["valid"] is False for row in rows), len(rows), rows
