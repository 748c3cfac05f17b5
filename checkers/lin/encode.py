"""A history as integer columns under a model: one class per distinct call, grouped by key.

Operations that a sound rule leaves out are counted by reason: `fail` (provably no effect) and
`unknown-<op_type>` (told nobody anything and changed nothing). A key with an operation that is not
the model's is blocked with a reason: leaving out just that operation could hide what explains a
later result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from checkers._columns import I32, I64, NEVER, U8
from checkers.lin.model import Call, Columns, Model, freeze, whole
from dstest.core.op import Op


@dataclass(frozen=True, slots=True)
class Coded:
    """Operations of all keys, key after key, in order of invocation within a key.

    `classes` indexes `calls`; `position` points into the history's operations; `offsets` has one
    element more than `keys`. `blocked` maps a key's number to the reason; its operations are left
    out.
    """

    model: Model
    classes: I32
    invoke: I64
    complete: I64
    position: I64
    offsets: I64
    keys: list[Any]
    calls: Sequence[Call]
    pure: U8
    excluded: dict[str, int]
    blocked: dict[int, str]
    told: Columns | None = None
    """Per operation what a model read in a table (`Model.tabled`), by name."""
    tells: bool | None = None
    """Does some result put the object to the test? None: look at the calls."""

    def of_key(self, key: int) -> slice:
        """Where the operations of the key with this number are."""
        return slice(int(self.offsets[key]), int(self.offsets[key + 1]))


def only(coded: Coded, rows: I64, key: int = 0) -> Coded:
    """These operations of one key, as columns of their own."""
    return replace(
        coded,
        classes=coded.classes[rows],
        invoke=coded.invoke[rows],
        complete=coded.complete[rows],
        position=coded.position[rows],
        offsets=np.array([0, len(rows)], np.int64),
        keys=[coded.keys[key]],
        blocked={},
        told=None if coded.told is None else {k: v[rows] for k, v in coded.told.items()},
    )


def compact(coded: Coded) -> Coded:
    """The same with no call that no operation makes."""
    used, classes = np.unique(coded.classes, return_inverse=True)
    return replace(
        coded,
        classes=classes.astype(np.int32),
        calls=[coded.calls[c] for c in used.tolist()],
        pure=coded.pure[used],
    )


class _Reader:
    """Calls to numbers; remembers malformed ones by key."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.calls: list[Call] = []
        self._ids: dict[Call, int] = {}

    def class_of(self, op: Op, known: bool, gone: bool) -> int | str:
        """The number of an operation's call, or why it is none of the model's. `gone`: its process
        does nothing afterwards, and nothing else of it is unknown."""
        name = f"op {op.op_id} ({op.op_type})"
        if op.op_type not in self.model.op_types:
            return f"{name} is not an operation of model {self.model.name}"
        call = self.model.read(whole(op), known)
        if isinstance(call, str):
            return f"{name}: {call}"
        if gone and not known and self.model.anonymous(call):
            call = call._replace(process=None)
        number = self._ids.get(call)
        if number is None:
            number = self._ids[call] = len(self.calls)
            self.calls.append(call)
        return number


def encode(model: Model, ops: Sequence[Op], keys_of: Sequence[Any] | None = None) -> Coded:
    """Columns of `ops`. `keys_of` gives each operation's object where that is not its key."""
    reader = _Reader(model)
    numbers: dict[Any, int] = {}
    keys: list[Any] = []
    excluded: Counter[str] = Counter()
    blocked: dict[int, str] = {}
    rows: list[tuple[int, int, int, int, int]] = []
    foreign: str | None = None
    gone = _gone(ops) if model.owned else set()
    for position, op in enumerate(ops):
        key = op.key if keys_of is None else keys_of[position]
        frozen = freeze(key)
        number = numbers.setdefault(frozen, len(keys))
        if number == len(keys):
            keys.append(key)
        known = not op.timeout_marker and op.complete_ts is not None
        if known and op.error is not None and op.op_type in model.op_types:
            excluded["fail"] += 1
            continue
        class_ = reader.class_of(op, known, op.process_id in gone)
        end = op.complete_ts if known and op.complete_ts is not None else NEVER
        if isinstance(class_, str):
            blocked.setdefault(number, class_)
            if key is None and op.op_type not in model.op_types:
                foreign = class_
        elif not -(2**62) <= op.invoke_ts <= end or (known and end >= 2**62):
            blocked.setdefault(number, f"op {op.op_id} ({op.op_type}) has impossible times")
        elif not known and model.pure(reader.calls[class_]):
            excluded[f"unknown-{op.op_type}"] += 1
        else:
            rows.append((number, op.invoke_ts, position, class_, end))
    if foreign is not None and len(keys) > 1:
        blocked = dict.fromkeys(range(len(keys)), foreign)  # it names no key: it may touch any
    return _arrange(model, rows, keys, reader.calls, dict(excluded), blocked)


def _gone(ops: Sequence[Op]) -> set[int | str]:
    """Processes of which one operation alone is of unknown outcome, invoked after all others had
    completed."""
    unknown: dict[int | str, int | None] = {}
    ended: dict[int | str, int] = {}
    for op in ops:
        process = op.process_id
        if op.timeout_marker or op.complete_ts is None:
            unknown[process] = None if process in unknown else op.invoke_ts
        else:
            ended[process] = max(op.complete_ts, ended.get(process, op.complete_ts))
    return {p for p, at in unknown.items() if at is not None and ended.get(p, at - 1) < at}


def _arrange(
    model: Model,
    rows: list[tuple[int, int, int, int, int]],
    keys: list[Any],
    calls: list[Call],
    excluded: dict[str, int],
    blocked: dict[int, str],
) -> Coded:
    table = np.array(rows, np.int64).reshape(-1, 5)
    if blocked:
        table = table[~np.isin(table[:, 0], list(blocked))]
    table = table[np.lexsort((table[:, 2], table[:, 1], table[:, 0]))]
    return Coded(
        model=model.among(calls),
        classes=table[:, 3].astype(np.int32),
        invoke=np.ascontiguousarray(table[:, 1]),
        complete=np.ascontiguousarray(table[:, 4]),
        position=np.ascontiguousarray(table[:, 2]),
        offsets=np.searchsorted(table[:, 0], np.arange(len(keys) + 1)).astype(np.int64),
        keys=keys,
        calls=calls,
        pure=np.array([model.pure(call) for call in calls], np.uint8),
        excluded=excluded,
        blocked=blocked,
    )
