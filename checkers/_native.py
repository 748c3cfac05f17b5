"""The wire to the C core: arrays in, arrays out, with a budget and Ctrl-C that works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers import _core
from checkers._columns import I32, I64, U8
from dstest.core.clock import monotonic_ns

OK, ILLEGAL, TIME, MEMORY, STOPPED, STEPS = range(6)
UNDECIDED = {
    TIME: "time budget spent",
    MEMORY: "memory budget spent",
    STOPPED: "stopped",
    STEPS: "step limit reached",
}

_OPS_WORTH_A_THREAD = 5_000
"""With fewer, and a limit on steps, the call is over before anybody could press Ctrl-C."""

OPS_WORTH_TWO = 50_000
"""With fewer a second thread does not pay."""


@dataclass(frozen=True, slots=True)
class Limits:
    """`time_ns` and `memory_bytes` for the whole call; `steps_max` per key, 0 = none.

    `states` is how many possible values to report per illegal key; with `exact_states` also those
    that no operation observes are named (at the price of a larger search).
    """

    time_ns: int
    memory_bytes: int
    steps_max: int = 0
    states: int = 0
    exact_states: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """One element per key; csrc/lin/lin.h defines them. `states` has `Limits.states` columns."""

    verdict: U8
    bad: I64
    prefix: I64
    steps: I64
    states: I32


def interruptible(call: Callable[[], None], stop: I32, *, small: bool = False) -> None:
    """Runs `call` in a thread; an exception here (Ctrl-C) raises the stop flag and waits for it.
    A `small` one is over before anybody could press Ctrl-C and runs here."""
    if small:
        call()
        return
    failed: list[BaseException] = []

    def target() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=target, name="checkers._core")
    thread.start()
    try:
        thread.join()
    except BaseException:
        stop[0] = 1
        thread.join()
        raise
    if failed:
        raise failed[0]


def in_halves(
    offsets: I64, memory_bytes: int, verdict: U8, part: Callable[[slice, slice, I64, int], None]
) -> None:
    """Either half of the keys in a thread of its own, or all of them in this one where that would
    not pay. `part` is told keys, operations, where each key begins among those, and how much memory
    it has. Keys for which half of the memory was too little, by their `verdict`, are looked at
    again with all of it: two threads leave no more open than one."""
    n_keys, n_ops = len(offsets) - 1, int(offsets[-1])
    middle = int(np.searchsorted(offsets, n_ops // 2))
    at = int(offsets[middle]) if 0 < middle < n_keys else 0
    if n_ops < OPS_WORTH_TWO or not n_ops // 8 <= at <= n_ops - n_ops // 8:
        part(slice(0, n_keys), slice(0, None), offsets, memory_bytes)
        return
    failed: list[BaseException] = []

    def second() -> None:
        try:
            part(slice(middle, n_keys), slice(at, n_ops), offsets[middle:] - at, memory_bytes // 2)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=second, name="checkers._core")
    thread.start()
    try:
        part(slice(0, middle), slice(0, at), offsets[: middle + 1], memory_bytes // 2)
    finally:
        thread.join()
    if failed:
        raise failed[0]
    # Together first, which is dear only once; then each alone, which takes the least memory.
    for found in (_runs, _each):
        for first, last in found(verdict == MEMORY):
            rows = slice(int(offsets[first]), int(offsets[last]))
            part(slice(first, last), rows, offsets[first : last + 1] - rows.start, memory_bytes)


def _each(marked: Any) -> list[tuple[int, int]]:
    return [(at, at + 1) for at in np.flatnonzero(marked).tolist()]


def _runs(marked: Any) -> list[tuple[int, int]]:
    """Where marks begin and end that stand side by side."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).view(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def check_registers(
    kind: U8,
    a: I32,
    b: I32,
    invoke: I64,
    complete: I64,
    offsets: I64,
    *,
    n_values: int,
    limits: Limits,
) -> Decision:
    """Decides every key. Raises ValueError for columns that break the rules of csrc/lin/lin.h."""
    n_keys = len(offsets) - 1
    decision = Decision(
        verdict=np.full(n_keys, STOPPED, np.uint8),
        bad=np.full(n_keys, -1, np.int64),
        prefix=np.zeros(n_keys, np.int64),
        steps=np.zeros(n_keys, np.int64),
        states=np.full(n_keys * limits.states, -1, np.int32),
    )
    stop = np.zeros(1, np.int32)
    deadline = monotonic_ns() + limits.time_ns

    def part(keys: slice, rows: slice, own: I64, memory_bytes: int) -> None:
        bad = decision.bad[keys]
        states = slice(keys.start * limits.states, keys.stop * limits.states)
        _core.check_registers(
            kind[rows], a[rows], b[rows], invoke[rows], complete[rows], own,
            decision.verdict[keys], bad, decision.prefix[keys], decision.steps[keys],
            decision.states[states], stop, n_values, 0, max(0, deadline - monotonic_ns()),
            memory_bytes, limits.steps_max, limits.exact_states,
        )  # fmt: skip
        bad[bad >= 0] += rows.start

    def call() -> None:
        in_halves(offsets, limits.memory_bytes, decision.verdict, part)

    interruptible(call, stop, small=limits.steps_max > 0 and len(kind) < _OPS_WORTH_A_THREAD)
    return decision
