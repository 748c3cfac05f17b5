"""Minimal witnesses of a register violation, and their explanation in words.

`cut` ends the history where it can no longer be explained: operations invoked later do not count,
and those that completed later are unknown. That is sound because linearizability is prefix-closed.

A witness must be sound: its contradiction must not be one that an operation left out resolves.
Leaving out an operation that only observes is always sound. Leaving out one that stores v is sound
only if no operation that stays could owe its result to it: no read of v, no cas from v, and no cas
that found something other than w, unless v is w. It certainly owes nothing to a store that was
invoked after it completed, nor to one that a store which stays has certainly replaced: invoked
after the first completed, and completed before the observer's invocation. (Take a linearization of
everything. The last store before an observer that stays gave it its value, so it stays too; without
the operations left out, every observer still finds what it found.) `reduce` removes by this rule
alone, and of the stores of a value that stays observed it keeps one in any case, so that a stale
read does not look like one of a value that never was.

The result is 1-minimal in that sense: no further single operation can go. The search is delta
debugging (Zeller and Hildebrandt, TSE 28(2), 2002) with halving chunks and a limit on checks, in
csrc/lin/lin_reduce.c.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import UNSET, UnsetType

from checkers import _core
from checkers import columns as _native
from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    NEVER,
    READ,
    WRITE,
    WRITE_UNKNOWN,
    Columns,
)
from dstest.core.check import Stuck
from dstest.core.history import History
from dstest.core.op import NULL_IS_RESULT, Op

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CHECKS_MAX = 4_000
"""Checks of candidate witnesses: a few seconds at most for the usual microseconds each."""

CHECK_STEPS_MAX = 2_000_000
"""A candidate that costs more than this is kept as it is."""

RECENT = (64, 1_024, 16_384)
"""So many operations before the failure are tried alone first: most contradictions are recent."""

STATES_NAMED_MAX = 8
"""More possible values than this are counted, not listed."""


@dataclass(frozen=True, slots=True)
class Witness:
    """Rows of the columns that contradict each other, in order of invocation."""

    rows: Index
    minimal: bool


@dataclass(frozen=True, slots=True)
class Words:
    """How an object that is a register in other words is spoken of: "the register can hold: null",
    "it needs the register to hold 1". `something` stands for any value but null."""

    noun: str
    verb: str
    nothing: str = "null"
    something: str = ""

    def of(self, value: Any) -> str:
        """What it may do with this value."""
        return self.nothing if value is None else self.something or text(value)


REGISTER = Words("the register", "hold")


def cut(columns: Columns, key: int, bad: int) -> Columns:
    """The part of a key until row `bad` completes, as columns of their own."""
    part = columns.of_key(key)
    end = columns.complete[bad]
    kind, complete = columns.kind[part].copy(), columns.complete[part].copy()
    late = complete > end
    tells = (kind == READ) | (kind == CAS_FALSE)
    kind[late & (kind == WRITE)] = WRITE_UNKNOWN
    kind[late & (kind == CAS_TRUE)] = CAS_UNKNOWN
    complete[late] = NEVER
    keep = (columns.invoke[part] <= end) & ~(late & tells)
    return replace(
        columns,
        kind=kind[keep],
        a=columns.a[part][keep],
        b=columns.b[part][keep],
        invoke=columns.invoke[part][keep],
        complete=complete[keep],
        position=columns.position[part][keep],
        offsets=np.array([0, keep.sum()], np.int64),
        keys=[columns.keys[key]],
    )


def _stored(columns: Columns) -> Index:
    """Per row the value that it leaves in the register, -1 where it changes nothing."""
    kind, a, b = columns.kind, columns.a, columns.b
    cas = (kind == CAS_TRUE) | (kind == CAS_UNKNOWN)
    stored = np.where(cas, np.where(a == b, -1, b), a)
    return np.where((kind == READ) | (kind == CAS_FALSE), -1, stored).astype(np.int64)


class Rule:
    """The rule of this module. Times are ranks: a value and a time fit into one integer."""

    def __init__(self, columns: Columns) -> None:
        invoke, complete = columns.invoke, columns.complete
        self.kind = columns.kind
        self.a = columns.a.astype(np.int64)
        self.stored = _stored(columns)
        self.certain = (self.stored >= 0) & (complete != NEVER)
        ranks = np.unique(np.concatenate([invoke, complete, [NEVER]]))
        self.ranks = len(ranks)
        self.invoke = np.searchsorted(ranks, invoke)
        self.complete = np.searchsorted(ranks, complete)

    def _replaced(self, stores: Index, kept: Index) -> Index:
        """When each store has certainly been replaced by a kept one, as a rank."""
        by = kept[self.certain[kept]]
        soonest = np.minimum.accumulate(self.complete[by][::-1])[::-1]
        after = np.searchsorted(self.invoke[by], self.complete[stores], side="right")
        return np.append(soonest, self.ranks - 1)[after]

    def _owed(self, observers: Index, values: Index, stores: Index, replaced: Index) -> Mask:
        """Which stores, taken to hold `values`, may one of the observers have seen?"""
        order = np.lexsort((self.invoke[observers], self.a[observers]))
        seen = observers[order]
        base = self.a[seen] * self.ranks
        invoked = base + self.invoke[seen]
        lasts = np.maximum.accumulate(base + self.complete[seen])
        start = np.searchsorted(invoked, values * self.ranks)
        end = np.searchsorted(invoked, values * self.ranks + replaced, side="right")
        last = lasts[np.maximum(end, 1) - 1]
        owed: Mask = (end > start) & (last >= values * self.ranks + self.invoke[stores])
        return owed

    def without(self, rows: Index, drop: Mask) -> Index:
        """`rows` without those of `drop` that may go together."""
        kind, stored = self.kind[rows], self.stored[rows]
        equal = (kind == READ) | (kind == CAS_TRUE) | (kind == CAS_UNKNOWN)
        differ = kind == CAS_FALSE
        drop = drop.copy()
        while True:
            back = np.zeros(len(rows), np.bool_)
            asked = np.flatnonzero(drop & (stored >= 0))
            stores, values = rows[asked], stored[asked]
            replaced = self._replaced(stores, rows[~drop])
            observers = rows[~drop & equal]
            if len(observers):
                back[asked] |= self._owed(observers, values, stores, replaced)
                lost = np.isin(values, self.a[observers]) & ~np.isin(values, stored[~drop])
                back[asked[lost]] |= np.isin(asked[lost], _last_of_each(asked[lost], values[lost]))
            for value in np.unique(self.a[rows[~drop & differ]]):
                others = rows[~drop & differ & (self.a[rows] == value)]
                pretend = np.full(len(asked), value, np.int64)
                seen = self._owed(others, pretend, stores, replaced)
                back[asked] |= seen & (values != value)
            if not back.any():
                return rows[~drop]
            drop &= ~back


def _last_of_each(rows: Index, values: Index) -> Index:
    """The last row of each distinct value."""
    return rows[::-1][np.unique(values[::-1], return_index=True)[1]]


def illegal(
    columns: Columns, rows: Index, time_ns: int, memory_bytes: int, states: int = 0
) -> _native.Decision | None:
    """The decision about these rows alone where they are not linearizable, else None."""
    decision = _native.check_registers(
        columns.kind[rows],
        columns.a[rows],
        columns.b[rows],
        columns.invoke[rows],
        columns.complete[rows],
        np.array([0, len(rows)], np.int64),
        n_values=len(columns.values),
        limits=_native.Limits(
            time_ns=time_ns,
            memory_bytes=memory_bytes,
            steps_max=CHECK_STEPS_MAX,
            states=states,
            exact_states=states > 0,
        ),
    )
    return decision if decision.verdict[0] == _native.ILLEGAL else None


def reduce(columns: Columns, *, time_ns: int, memory_bytes: int) -> Witness:
    """A small sound witness for one illegal key, as `cut` left it."""
    stays = np.ones(len(columns.kind), np.uint8)
    stop = np.zeros(1, np.int32)
    minimal = False

    def call() -> None:
        nonlocal minimal
        minimal = _core.reduce_registers(
            columns.kind, columns.a, columns.b, columns.invoke, columns.complete, stays, stop,
            len(columns.values), 0, time_ns, memory_bytes, CHECK_STEPS_MAX, CHECKS_MAX,
        )  # fmt: skip

    _native.interruptible(call, stop, small=len(columns.kind) <= RECENT[0])
    return Witness(np.flatnonzero(stays), minimal)


def text(value: Any) -> str:
    return json.dumps(value, default=repr)


def phrase(op: Op) -> str:
    """`write 2 (op 7, process 3)`."""
    if op.op_type not in ("read", "write", "cas"):
        asked = "" if op.input is None else f" {text(op.input)}"
        quiet = op.output is None and (op.op_type not in NULL_IS_RESULT or op.complete_ts is None)
        told = "" if quiet else f" -> {text(op.output)}"
        what = f"{op.op_type}{asked}{told}"
    elif op.op_type == "read":
        what = f"read {text(op.output)}"
    elif op.op_type == "cas":
        swap = f"cas {text(op.input[0])} to {text(op.input[1])}"
        what = swap if op.output is None else f"{swap}, {'done' if op.output else 'refused'}"
    else:
        what = f"write {text(op.input)}"
    return f"{what} (op {op.op_id}, process {op.process_id})"


def _listed(parts: list[str]) -> str:
    shown = parts[:STATES_NAMED_MAX]
    more = f" and {len(parts) - len(shown)} more" if len(parts) > len(shown) else ""
    return ", ".join(shown) + more


def _why_not(columns: Columns, stuck: int, words: Words) -> str:
    """What the operation that cannot be placed asks for."""
    kind, wanted = int(columns.kind[stuck]), int(columns.a[stuck])
    told = columns.values[wanted]
    value = words.of(told)
    if words != REGISTER and kind in (READ, CAS_TRUE):
        return " ".join(filter(None, [f"it needs {words.noun} to", words.verb, value]))
    if kind == CAS_FALSE:
        return f"it needs any value other than {value}"
    if kind not in (READ, CAS_TRUE):
        return "wherever it takes effect, another operation's result contradicts it"
    if wanted != 0 and wanted not in _stored(columns):
        return f"it needs the value {value}, which no operation had stored by then"
    return f"it needs the value {value}"


class Explanation(NamedTuple):
    """A contradiction in sentences, and the operation that no order has a place for."""

    text: str
    culprit: int | str | UnsetType = UNSET
    stuck: Stuck | UnsetType = UNSET


def explain(
    columns: Columns,
    witness: Witness,
    history: History,
    *,
    memory_bytes: int,
    words: Words = REGISTER,
) -> Explanation:
    """Longest linearizable prefix, the values possible there, and why there is no next step."""
    rows = witness.rows
    count = f"{len(rows)} operation{'s' if len(rows) != 1 else ''}"
    key = columns.keys[0]
    lead = "No order" if key is None else f"On key {text(key)} no order"
    lead += f" explains the {count} of the witness."
    decision = illegal(columns, rows, 10**9, memory_bytes, states=64)
    if decision is None:
        return Explanation(lead)

    def op_at(row: int) -> Op:
        return history.ops[int(columns.position[row])]

    stuck = int(rows[decision.bad[0]])
    end = int(columns.complete[stuck])
    earlier = [
        int(r)
        for r in rows[np.argsort(columns.complete[rows], kind="stable")]
        if columns.complete[r] != NEVER and r != stuck
    ][: int(decision.prefix[0])]
    prefix = (
        f"Longest linearizable prefix: up to the completion of {phrase(op_at(earlier[-1]))}."
        if earlier
        else "Not even the first completion can be placed."
    )
    held = [columns.values[s] for s in decision.states if s >= 0]
    can = f"{words.noun} can {words.verb}".rstrip()
    beside = [
        phrase(op_at(int(r)))
        for r in rows
        if r != stuck and int(r) not in earlier and int(columns.invoke[r]) <= end
    ]
    running = (
        f"Still running then: {_listed(beside)}; none of them can make it fit."
        if beside
        else "No other operation is running then."
    )
    could, why = _listed(list(map(words.of, held))), _why_not(columns, stuck, words)
    said = (
        f"{lead} {prefix} There {can}: {could}. Next completes {phrase(op_at(stuck))}: {why}. "
        f"{running}"
    )
    held_by = could if words.verb else ""
    reason = Stuck(needs=why, noun=words.noun.removeprefix("the "), held=held_by)
    return Explanation(said, op_at(stuck).op_id, reason)
