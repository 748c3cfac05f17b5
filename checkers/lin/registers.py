"""Registers, and what is one in other words, by the search of csrc/lin_*.c.

Register histories of unique writes are first shown to the zone monitor (csrc/mon_register.c);
what it accepts is linearizable, the rest goes to the search, which can say where it breaks.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from checkers import _native, _witness
from checkers._columns import CAS_FALSE, READ, U8, WRITE, WRITE_UNKNOWN, Columns, encode
from checkers.lin import monitor
from checkers.lin.judged import Judged, anomaly_of
from dstest.core.check import Anomaly, Budget
from dstest.core.clock import monotonic_ns
from dstest.core.history import History

__all__ = ["decide", "judge"]

FIRST_STEPS: Final = 4_000_000
"""Steps that each key gets before any key gets more, so that one hard key cannot starve the
rest: some tens of milliseconds."""

ANOMALIES_MAX: Final = 16
"""Illegal keys that get a witness of their own; the others are counted in the reason."""

WITNESS_TIME_NS: Final = 5_000_000_000
"""For reducing one witness; spent only where a reduction is hard."""

WITNESSES_TIME_NS: Final = 20_000_000_000
"""For reducing all of them, and never more than the budget's time."""


def _part(columns: Columns, key: int, limits: _native.Limits) -> _native.Decision:
    where = columns.of_key(key)
    return _native.check_registers(
        columns.kind[where],
        columns.a[where],
        columns.b[where],
        columns.invoke[where],
        columns.complete[where],
        np.array([0, where.stop - where.start], np.int64),
        n_values=len(columns.values),
        limits=limits,
    )


def zones(columns: Columns, memory_bytes: int) -> U8:
    """The zone monitor's verdict per key; UNFIT where a key has anything but reads and unique
    writes."""
    parts = np.full(CAS_FALSE + 8, monitor.NOTHING, np.uint8)
    parts[[WRITE, WRITE_UNKNOWN, READ]] = [monitor.PUT, monitor.PUT, monitor.TAKE]
    return monitor.monitor(
        parts[columns.kind],
        columns.a,
        columns.invoke,
        columns.complete,
        columns.offsets,
        len(columns.values),
        monitor.REGISTER,
        memory_bytes,
    )


def _search(columns: Columns, limits: _native.Limits) -> _native.Decision:
    return _native.check_registers(
        columns.kind,
        columns.a,
        columns.b,
        columns.invoke,
        columns.complete,
        columns.offsets,
        n_values=len(columns.values),
        limits=limits,
    )


def _first(columns: Columns, limits: _native.Limits) -> _native.Decision:
    """The monitor where it accepts all keys, else the search with few steps each."""
    swaps = (columns.kind != READ) & (columns.kind != WRITE) & (columns.kind != WRITE_UNKNOWN)
    if not swaps.any() and (zones(columns, limits.memory_bytes) == _native.OK).all():
        n_keys = len(columns.offsets) - 1
        return _native.Decision(
            verdict=np.zeros(n_keys, np.uint8),
            bad=np.full(n_keys, -1, np.int64),
            prefix=np.diff(columns.offsets),
            steps=np.zeros(n_keys, np.int64),
            states=np.zeros(0, np.int32),
        )
    return _search(columns, limits)


def decide(columns: Columns, budget: Budget) -> _native.Decision:
    """All keys with few steps each, then the hard ones one by one with what time is left."""
    deadline = monotonic_ns() + int(budget.time_s * 1e9)
    memory_bytes = budget.memory_mb * 2**20
    decision = _first(columns, _native.Limits(int(budget.time_s * 1e9), memory_bytes, FIRST_STEPS))
    hard = np.flatnonzero(decision.verdict == _native.STEPS)
    for done, key in enumerate(hard):
        left = max(0, deadline - monotonic_ns()) // (len(hard) - done)
        again = _part(columns, int(key), _native.Limits(left, memory_bytes))
        decision.verdict[key] = again.verdict[0]
        decision.steps[key] += again.steps[0]
        decision.prefix[key] = again.prefix[0]
        if again.bad[0] >= 0:
            decision.bad[key] = columns.offsets[key] + again.bad[0]
    return decision


def _anomalies(
    columns: Columns,
    history: History,
    illegal: list[int],
    bad: list[int],
    budget: Budget,
    words: _witness.Words,
) -> list[Anomaly]:
    """One anomaly for each of the first illegal keys."""
    deadline = monotonic_ns() + min(WITNESSES_TIME_NS, int(budget.time_s * 1e9))
    memory_bytes = budget.memory_mb * 2**20
    found = []
    for key in illegal[:ANOMALIES_MAX]:
        part = _witness.cut(columns, key, bad[key])
        time_ns = min(WITNESS_TIME_NS, max(0, deadline - monotonic_ns()))
        witness = _witness.reduce(part, time_ns=time_ns, memory_bytes=memory_bytes)
        ops = [history.ops[int(p)] for p in part.position[witness.rows]]
        text = _witness.explain(part, witness, history, memory_bytes=memory_bytes, words=words)
        found.append(anomaly_of(part.keys[0], ops, history, witness.minimal, text))
    return found


def judge(
    history: History,
    model: str,
    budget: Budget,
    *,
    shown: History | None = None,
    words: _witness.Words = _witness.REGISTER,
) -> Judged:
    """Judges a register history. `shown` has the operations that witnesses name, one for each of
    `history`, where those stand for others."""
    columns = encode(history, model)
    decision = decide(columns, budget)
    undecided = dict(columns.blocked)
    illegal: list[int] = []
    for key, verdict in enumerate(decision.verdict.tolist()):
        if key in undecided or verdict == _native.OK:
            continue
        if verdict == _native.ILLEGAL:
            illegal.append(key)
        else:
            undecided[key] = _native.UNDECIDED[verdict]
    sizes = np.diff(columns.offsets)
    observers = (columns.kind <= CAS_FALSE) & (columns.kind != WRITE)
    bad = decision.bad.tolist()
    return Judged(
        keys=columns.keys,
        undecided=undecided,
        illegal=len(illegal),
        anomalies=_anomalies(columns, shown or history, illegal, bad, budget, words)
        if illegal
        else [],
        consumed=int(sum(sizes[k] for k in range(len(sizes)) if k not in undecided)),
        excluded=columns.excluded,
        tested=bool(observers.any()),
    )
