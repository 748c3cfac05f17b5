"""Registers with compare-and-set whose values are unique (csrc/mon/mon_chain.h).

What the chains contradict is a violation whatever else happened: a linearization stays one when
whole chains go, and without operations that change nothing. So chains are left out until none can
go any more, and what is left is small enough for the search to say where it breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from checkers import _core
from checkers._columns import CAS_FALSE, CAS_TRUE, CAS_UNKNOWN, I64, U8, Columns
from checkers._native import ILLEGAL, STOPPED, in_halves, interruptible
from checkers.lin.witness import halving, marked


def chains(columns: Columns, memory_bytes: int) -> U8:
    """One verdict per key; what is neither OK nor ILLEGAL is left to the search."""
    verdict = np.full(len(columns.offsets) - 1, STOPPED, np.uint8)
    stop = np.zeros(1, np.int32)

    def part(keys: slice, rows: slice, own: I64, memory: int) -> None:
        _core.chains(
            columns.kind[rows], columns.a[rows], columns.b[rows], columns.invoke[rows],
            columns.complete[rows], own, verdict[keys], stop, len(columns.values), memory,
        )  # fmt: skip

    def call() -> None:
        in_halves(columns.offsets, memory_bytes, verdict, part)

    interruptible(call, stop, small=len(columns.kind) < 5_000)
    return verdict


def only(columns: Columns, rows: Any, offsets: I64, keys: Sequence[Any]) -> Columns:
    """These rows as columns of their own."""
    return replace(
        columns,
        kind=columns.kind[rows],
        a=columns.a[rows],
        b=columns.b[rows],
        invoke=columns.invoke[rows],
        complete=columns.complete[rows],
        position=columns.position[rows],
        offsets=offsets,
        keys=keys,
    )


def _whole(columns: Columns, rows: Any) -> Columns:
    return only(columns, rows, np.array([0, len(rows)], np.int64), columns.keys)


def _units(columns: Columns) -> I64:
    """The number of each operation's chain; a cas that found something else is one of its own."""
    root = np.arange(len(columns.values), dtype=np.int64)

    def find(value: int) -> int:
        while root[value] != value:
            root[value] = root[root[value]]
            value = int(root[value])
        return value

    links = (columns.kind == CAS_TRUE) | (columns.kind == CAS_UNKNOWN)
    for a, b in zip(columns.a[links].tolist(), columns.b[links].tolist(), strict=True):
        root[find(a)] = find(b)
    while not np.array_equal(root, root[root]):
        root = root[root]
    alone = np.flatnonzero(columns.kind == CAS_FALSE)
    unit: I64 = root[columns.a]
    unit[alone] = len(root) + alone
    return unit


def contradiction(columns: Columns, key: int, deadline: int, memory_bytes: int) -> Columns:
    """The chains of an illegal key that contradict themselves or each other."""
    where = columns.of_key(key)
    rows = np.arange(where.start, where.stop)
    part = only(columns, rows, np.array([0, len(rows)], np.int64), [columns.keys[key]])
    unit = _units(part)

    def illegal(units: I64) -> bool:
        nonlocal part, unit
        rows = np.flatnonzero(marked(unit, units))
        candidate = _whole(part, rows)
        if chains(candidate, memory_bytes)[0] != ILLEGAL:
            return False
        part, unit = candidate, unit[rows]
        return True

    units, _ = halving(np.unique(unit), illegal, deadline)
    return _whole(part, np.flatnonzero(marked(unit, units)))
