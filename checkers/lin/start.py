"""What objects start with: one value for every key, or a JSON object with a value by key.

    --initial 0                       every register holds 0
    --initial '{"x": 0, "y": 1}'      x holds 0, y holds 1

A model says what its value may be (`Model.starts`). Keys that are no texts are named by their JSON.
A key that is not named starts as usual; where one is named that never occurs, and one that occurs
is not, somebody has mistaken a name, and that is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from checkers._findings import USUAL, Start, start_of
from checkers.lin import catalogue, maps, objects, registers, tables
from checkers.lin.model import Model, freeze, micro_ops
from checkers.lin.search import Judgement, merge
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError
from dstest.core.history import History
from dstest.core.op import Op

__all__ = ["judge_from", "start_of"]


def _start_at(model: Model, value: Any) -> Model:
    try:
        return model if value is USUAL else model.begun(value)
    except ValueError as error:
        raise ConfigError(
            f"the initial state {json.dumps(value, default=repr)[:80]} is none of model "
            f"{model.name}: {error}",
            remedy=f"--initial is {model.starts or 'not for this model'}; or a JSON object with "
            "that by key",
        ) from None


def _registers(ops: Iterable[Op]) -> list[Any]:
    """The registers that occur, each once."""
    found: dict[Any, Any] = {}
    for op in ops:
        rows = micro_ops(op.input) if op.op_type == "txn" else None
        for key in [op.key] if rows is None else [key for _, key, _ in rows]:
            found.setdefault(freeze(key), key)
    return list(found.values())


def _groups(history: History, start: Start, known: frozenset[str]) -> list[tuple[Any, History]]:
    """Parts of a history by what their keys start with. What names no key and is no operation of
    the model may have touched any, so that it is in each part."""
    values: dict[Any, Any] = {}
    rows: dict[Any, list[Op]] = {}
    loose = []
    for op in history.ops:
        if op.key is None and op.op_type not in known:
            loose.append(op)
            continue
        value = start.of(op.key)
        at = USUAL if value is USUAL else freeze(value)
        values.setdefault(at, value)
        rows.setdefault(at, []).append(op)
    if len(values) < 2:
        return [(next(iter(values.values()), start.every), history)]
    parts = []
    for at, ops in rows.items():
        mine = sorted([*ops, *loose], key=lambda op: op.invoke_ts) if loose else ops
        parts.append((values[at], replace(history, ops=mine)))
    return parts


def _elements(history: History, start: Start) -> list[tuple[Any, History]]:
    """A set's operations by whether their element was in it from the start."""
    rows: dict[bool, list[Op]] = {False: [], True: []}
    sets: dict[Any, frozenset[Any]] = {}
    model = catalogue.make("set", {})
    for op in history.ops:
        key = freeze(op.key)
        if key not in sets:
            sets[key] = _start_at(model, start.of(op.key)).initial
        rows[freeze(op.input) in sets[key]].append(op)
    return [(True if there else None, replace(history, ops=ops)) for there, ops in rows.items()]


def _one(model: str, history: History, value: Any, budget: Budget, reduced: bool) -> Judgement:
    """Judges objects that all start with one value. `reduced`: as registers, as the whole history
    is."""
    if model in catalogue.REGISTERS:
        start = None if value is USUAL else value
        return registers.judge(history, model, budget, start=start)
    same = tables.to_register(model, history) if reduced else None
    if same is None and model == "kv-map" and value in (USUAL, None, ""):
        return maps.judge(history, budget) if value != "" else maps.judge_empty(history, budget)
    if same is None:
        made = _start_at(catalogue.make(model, history.header.options), value)
        return objects.judge(made, history, budget)
    start = None if value is USUAL else value
    words = tables.WORDS[model]
    return registers.judge(
        same, "cas-register", budget, shown=history, words=words, of=model, start=start
    )


def judge_from(history: History, model: str, budget: Budget, start: Start) -> Judgement:
    """Judges a history whose objects do not start as usual. Raises ConfigError where the model
    cannot start so."""
    keys = _registers(history.ops) if model == "multi-register" else {op.key for op in history.ops}
    start.require_named(keys)
    made = catalogue.make(model, history.header.options)
    reduced = tables.to_register(model, history) is not None
    if model == "multi-register" and not reduced:
        value = [(key, told) for key in keys if (told := start.of(key)) is not USUAL]
        return objects.judge(_start_at(made, value), history, budget)
    parts = (
        _elements(history, start)
        if model == "set" and reduced
        else _groups(history, start, catalogue.OP_TYPES[model])
    )
    deadline = monotonic_ns() + int(budget.time_s * 1e9)
    found = []
    for value, part in parts:
        if not part.ops:
            continue
        if model not in ("set", "multi-register"):
            _start_at(made, value)
        left = replace(budget, time_s=max(0.0, (deadline - monotonic_ns()) / 1e9))
        found.append(_one(model, part, value, left, reduced))
    return merge(found)
