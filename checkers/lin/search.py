"""The wire to the C search: states numbered, steps remembered, budgets kept."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers import _core
from checkers._columns import I64, U8
from checkers._native import MEMORY, STEPS, STOPPED, Limits, interruptible
from checkers.lin.encode import Coded, compact
from checkers.lin.model import Affine, Call, Model

STATES_MAX = 64
_STATE_BYTES = 200
"""What a numbered state costs; states may use half of the memory budget."""


@dataclass(frozen=True, slots=True)
class Found:
    """One element per key; csrc/aut/aut.h defines them. `states` are the model's own: of an illegal
    key those possible where it ends, of another all those possible at its end; None where too many
    are."""

    verdict: U8
    bad: I64
    prefix: I64
    steps: I64
    states: list[list[Any] | None]


class _Full(Exception):
    """The states outgrew the memory budget."""


class Steps:
    """A model's states as numbers, in order of discovery; they may use `bytes_max`."""

    def __init__(self, model: Model, calls: Sequence[Call], bytes_max: int) -> None:
        self.model = model
        self.calls = calls
        self.states: list[Hashable] = []
        self._ids: dict[Hashable, int] = {}
        self._left = bytes_max

    def id_of(self, state: Hashable) -> int:
        """The number of a state, made on first sight."""
        found = self._ids.get(state)
        if found is None:
            self._left -= _STATE_BYTES + 8 * _size(state)
            if self._left < 0:
                raise _Full
            found = self._ids[state] = len(self.states)
            self.states.append(state)
        return found

    def __call__(self, state: int, class_: int) -> tuple[int, ...]:
        after = self.model.step(self.states[state], self.calls[class_])
        return tuple(dict.fromkeys(map(self.id_of, after)))


def _affine(coded: Coded) -> list[Affine] | None:
    rows = [coded.model.affine(call) for call in coded.calls]
    found = [row for row in rows if row is not None]
    return found if found and len(found) == len(rows) else None


def _columns(rows: list[Affine] | None) -> list[I64]:
    table = np.array(rows or [], np.int64).reshape(-1, 3)
    return [np.ascontiguousarray(table[:, i]) for i in range(3)]


def _size(state: Any) -> int:
    return len(state) if isinstance(state, tuple | frozenset | str) else 1


def search(coded: Coded, limits: Limits, begin: list[Any] | None = None) -> Found:
    """Decides every key, from one of the states `begin` (default: the model's first). Raises
    ValueError for columns that break the rules of csrc/aut/aut.h, and whatever the model's `step`
    raises."""
    n_keys = len(coded.offsets) - 1
    if len(coded.calls) > len(coded.classes):
        coded = compact(coded)
    result = Found(
        verdict=np.full(n_keys, STOPPED, np.uint8),
        bad=np.full(n_keys, -1, np.int64),
        prefix=np.zeros(n_keys, np.int64),
        steps=np.zeros(n_keys, np.int64),
        states=[],
    )
    rows = _affine(coded)
    steps = Steps(coded.model, coded.calls, limits.memory_bytes // 2)
    first = [coded.model.initial] if begin is None else begin
    states = np.zeros(n_keys * STATES_MAX, np.int64)
    counts = np.zeros(n_keys, np.int64)
    stop = np.zeros(1, np.int32)
    low, high, delta = _columns(rows)

    def call() -> None:
        _core.check_automaton(
            coded.classes, coded.invoke, coded.complete, coded.offsets, coded.pure,
            low, high, delta, result.verdict, result.bad, result.prefix, result.steps,
            states, counts, stop, initial, None if rows else steps, limits.time_ns,
            limits.memory_bytes, limits.steps_max,
        )  # fmt: skip

    try:
        initial = np.array([s if rows else steps.id_of(s) for s in first], np.int64)
        interruptible(call, stop, small=limits.steps_max > 0 and len(coded.classes) < 5_000)
    except _Full:
        result.verdict[result.verdict == STOPPED] = MEMORY
        result.verdict[result.verdict > STEPS] = MEMORY
    for key in range(n_keys):
        ids = states[key * STATES_MAX : key * STATES_MAX + max(0, counts[key])].tolist()
        known = ids if rows else [steps.states[i] for i in ids]
        result.states.append(known if counts[key] >= 0 else None)
    return result
