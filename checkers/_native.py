"""The wire to the C core: arrays in, arrays out, with a budget and Ctrl-C that works."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkers import _core
from checkers._columns import I32, I64, U8

__all__ = [
    "ILLEGAL",
    "MEMORY",
    "OK",
    "STEPS",
    "STOPPED",
    "UNDECIDED",
    "Decision",
    "Limits",
    "check_registers",
    "interruptible",
]

OK, ILLEGAL, TIME, MEMORY, STOPPED, STEPS = range(6)
UNDECIDED = {
    TIME: "time budget spent",
    MEMORY: "memory budget spent",
    STOPPED: "stopped",
    STEPS: "step limit reached",
}

_OPS_WORTH_A_THREAD = 5_000
"""With fewer, and a limit on steps, the call is over before anybody could press Ctrl-C."""


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

    def call() -> None:
        _core.check_registers(
            kind, a, b, invoke, complete, offsets,
            decision.verdict, decision.bad, decision.prefix, decision.steps, decision.states,
            stop, n_values, 0, limits.time_ns, limits.memory_bytes, limits.steps_max,
            limits.exact_states,
        )  # fmt: skip

    interruptible(call, stop, small=limits.steps_max > 0 and len(kind) < _OPS_WORTH_A_THREAD)
    return decision
