"""Registers whose clients crashed in many writes and cas: guesses of the search.

Histories are executions of a real register, so that the truth is known; what is wrong has a read of
a value that nobody stored.
"""

from __future__ import annotations

import heapq
import random
from typing import NamedTuple

import numpy as np
import pytest

from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    ILLEGAL,
    NEVER,
    OK,
    READ,
    WRITE,
    WRITE_UNKNOWN,
    Limits,
    check_registers,
)

pytestmark = pytest.mark.slow

Row = tuple[int, int, int, int, int]
"""Invocation, completion, kind, and the values of the operation."""


class Shape(NamedTuple):
    """`unknown` is a share, half of which took effect; values are 1 to `values`, at first 0."""

    ops: int
    processes: int
    values: int
    unknown: float
    steps_max: int


FEW = Shape(10_000, 10, 5, 0.01, 40_000_000)
MANY = Shape(1_000, 100, 50, 0.3, 300_000_000)
LONG = Shape(40_000, 10, 5, 0.002, 60_000_000)


def instants(shape: Shape, dice: random.Random) -> list[tuple[float, float, float]]:
    """When each takes effect, begins and ends, of clients that never rest."""
    free = [(dice.random(), process) for process in range(shape.processes)]
    heapq.heapify(free)
    found = []
    for _ in range(shape.ops):
        at, process = heapq.heappop(free)
        begin = at + dice.random() * 0.2
        end = begin + 0.2 + dice.random() * 1.6
        found.append((begin + dice.random() * (end - begin), begin, end))
        heapq.heappush(free, (end, process))
    return sorted(found)


def executed(shape: Shape, seed: int) -> list[Row]:
    """Operations in order of invocation."""
    dice = random.Random(seed)
    held, rows = 0, []
    for _, begin, end in instants(shape, dice):
        unknown = dice.random() < shape.unknown
        takes_place = not unknown or dice.random() < 0.5
        times = int(begin * 1e6), NEVER if unknown else int(end * 1e6)
        to = 1 + dice.randrange(shape.values)
        draw = dice.random()
        if draw < 1 / 3:
            if not unknown:
                rows.append((*times, READ, held, 0))
        elif draw < 2 / 3:
            rows.append((*times, WRITE_UNKNOWN if unknown else WRITE, to, 0))
            held = to if takes_place else held
        else:
            wanted = held if dice.random() < 0.5 else 1 + dice.randrange(shape.values)
            told = CAS_TRUE if wanted == held else CAS_FALSE
            rows.append((*times, CAS_UNKNOWN if unknown else told, wanted, to))
            held = to if takes_place and wanted == held else held
    return sorted(rows)


def verdict(rows: list[Row], shape: Shape) -> int:
    invoke, complete, kind, a, b = np.array(rows, np.int64).T
    limits = Limits(200 * 10**9, 2**30, shape.steps_max)
    found = check_registers(
        kind.astype(np.uint8),
        a.astype(np.int32),
        b.astype(np.int32),
        np.ascontiguousarray(invoke),
        np.ascontiguousarray(complete),
        np.array([0, len(rows)], np.int64),
        n_values=shape.values + 2,
        limits=limits,
    )
    return int(found.verdict[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", [FEW, MANY, LONG])
@pytest.mark.parametrize("seed", range(4))
def test_what_happened_is_found_among_many_unknown_operations(shape: Shape, seed: int) -> None:
    assert verdict(executed(shape, seed), shape) == OK


@pytest.mark.parametrize("shape", [FEW, MANY])
def test_what_nobody_stored_is_not_explained_by_unknown_operations(shape: Shape) -> None:
    rows = executed(shape, 0)
    at = max(i for i, row in enumerate(rows) if row[2] == READ)
    rows[at] = (*rows[at][:3], shape.values + 1, 0)
    found = verdict(rows, shape._replace(steps_max=400_000_000))
    assert found == ILLEGAL if shape is FEW else found != OK
