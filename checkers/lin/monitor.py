"""Near-linear decisions where every value is put at most once (csrc/mon/).

A monitor's answer counts only where its rules hold. A take of unknown outcome may have taken any
value that nobody else took, or none: queues and stacks give such takes to the values that must be
out by some instant (csrc/mon/mon_maybe.h); a priority queue that is illegal without them, and legal
without the values that nobody took, is left to the search. Peeks are left out and can only make
"ok" wrong. What none of this settles is left to the search.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from checkers import _core
from checkers.columns import I32, I64, ILLEGAL, NEVER, OK, STOPPED, U8, in_halves, interruptible
from checkers.lin.containers import LOOK, MAYBE, NOTHING, PUT, TAKE, Container
from checkers.lin.model import Call
from checkers.lin.search import Coded

__all__ = [
    "LOOK",
    "MAYBE",
    "NOTHING",
    "PUT",
    "REGISTER",
    "TAKE",
    "UNFIT",
    "Parts",
    "monitor",
    "parts_of",
    "verdicts",
]

UNFIT = 8
QUEUE, STACK, PRIORITY, REGISTER = range(4)
_MONITORS: Final = {"queue": QUEUE, "stack": STACK, "priority": PRIORITY}
"""By the shape of a model."""


class Parts:
    """What each operation of a container does to which value; MAYBE = a take of unknown outcome.
    `unit` is equal for operations on one value of one key."""

    def __init__(self, coded: Coded) -> None:
        model = coded.model
        assert isinstance(model, Container)
        self.model = _MONITORS[model.exact_shape]
        self.kind: U8
        self.value: I32
        if coded.told is not None:
            self.kind, self.value = coded.told["kind"], coded.told["value"]
            self.n_values = int(self.value.max(initial=0)) + 1
            return
        values = sorted({v for c in coded.calls if (v := _value(model, c)) is not None}, key=_rank)
        number = {v: i for i, v in enumerate(values)}
        kinds = [_kind(model, call) for call in coded.calls]
        ids = [number.get(_value(model, call), 0) for call in coded.calls]
        self.n_values = max(1, len(values))
        self.kind = np.array(kinds, np.uint8)[coded.classes]
        self.value = np.array(ids, np.int32)[coded.classes]

    def of(self, rows: I64) -> Parts:
        """The parts of these operations."""
        own = Parts.__new__(Parts)
        own.model, own.n_values = self.model, self.n_values
        own.kind, own.value = self.kind[rows], self.value[rows]
        return own


def _rank(value: Any) -> Any:
    """Numbers in their order; the order of others does not matter, and need not exist."""
    return (0, value, "") if isinstance(value, int | float) else (1, 0, repr(value))


def _value(model: Container, call: Call) -> Any:
    if call.op_type == "peek":
        return None
    return call.input if call.op_type == model.put else call.output


def _kind(model: Container, call: Call) -> int:
    if call.op_type == model.put:
        return PUT
    if call.op_type == "peek":
        return LOOK
    if not call.known:
        return MAYBE
    return NOTHING if call.output is None else TAKE


def parts_of(coded: Coded) -> Parts | None:
    """The parts of a container's operations, None for models without a monitor."""
    return Parts(coded) if coded.model.exact_shape in _MONITORS and coded.calls else None


def monitor(
    kind: U8, value: I32, invoke: I64, complete: I64, offsets: I64, n_values: int, model: int,
    memory_bytes: int,
) -> U8:  # fmt: skip
    """One verdict per key; `UNFIT` where the rules of csrc/mon/mon.h do not hold."""
    verdict = np.full(len(offsets) - 1, STOPPED, np.uint8)
    stop = np.zeros(1, np.int32)

    def part(keys: slice, rows: slice, own: I64, memory: int) -> None:
        _core.monitor(
            kind[rows], value[rows], invoke[rows], complete[rows], own, verdict[keys], stop,
            n_values, model, memory,
        )  # fmt: skip

    def call() -> None:
        in_halves(offsets, memory_bytes, verdict, part)

    interruptible(call, stop, small=len(kind) < 5_000)
    return verdict


def some(coded: Coded, parts: Parts, keep: Any, memory_bytes: int) -> U8:
    """The monitor's verdicts on the operations that `keep` marks."""
    counts = np.concatenate([[0], np.cumsum(keep)])
    return monitor(
        parts.kind[keep],
        parts.value[keep],
        coded.invoke[keep],
        coded.complete[keep],
        counts[coded.offsets].astype(np.int64),
        parts.n_values,
        parts.model,
        memory_bytes,
    )


def _have(coded: Coded, marked: Any) -> Any:
    """Which keys have an operation that is marked?"""
    counts = np.concatenate([[0], np.cumsum(marked)])
    return counts[coded.offsets[1:]] > counts[coded.offsets[:-1]]


def verdicts(coded: Coded, parts: Parts, memory_bytes: int) -> U8:
    """`OK` and `ILLEGAL` are certain; `UNFIT` leaves a key to the search."""
    look = parts.kind == LOOK
    found = some(coded, parts, ~look, memory_bytes)
    found[_have(coded, look) & (found == OK)] = UNFIT
    found[(found != OK) & (found != ILLEGAL)] = UNFIT
    return found


def first_break(coded: Coded, parts: Parts, key: int, memory_bytes: int) -> int:
    """The operation of a key whose completion is the first that no order explains, found by
    halving: what completes later is of unknown outcome by then. -1 where the monitor does not know.
    """
    where = coded.of_key(key)
    rows = np.arange(where.start, where.stop)
    if (parts.kind[rows] == LOOK).any():
        return -1
    ends = rows[coded.complete[rows] != NEVER]
    ends = ends[np.argsort(coded.complete[ends], kind="stable")]

    def verdict(last: int) -> int:
        later = np.zeros(len(rows), np.bool_)
        later[ends[last + 1 :] - where.start] = True
        kind = np.where(later & (parts.kind[rows] == TAKE), MAYBE, parts.kind[rows])
        begun = coded.invoke[rows] <= coded.complete[ends[last]]
        keep = begun & ~(later & (kind == NOTHING))
        complete = np.where(later, NEVER, coded.complete[rows])[keep]
        bounds = np.array([0, keep.sum()], np.int64)
        kind, value, invoke = kind[keep], parts.value[rows][keep], coded.invoke[rows][keep]
        return int(
            monitor(kind, value, invoke, complete, bounds, parts.n_values, parts.model,
                    memory_bytes)[0]
        )  # fmt: skip

    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        found = verdict(middle)
        if found not in (OK, ILLEGAL):
            return -1
        low, high = (low, middle) if found == ILLEGAL else (middle + 1, high)
    return int(ends[low]) if len(ends) and verdict(low) == ILLEGAL else -1
