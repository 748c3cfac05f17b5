"""Minimal witnesses of a register violation, and their explanation in words.

A witness must be sound: whoever reads only its operations must see a contradiction that the
operations left out cannot resolve. Leaving out an operation that only observes is always sound.
Leaving out one that stores v is sound only if no operation that stays could owe its result to v:
no read of v, no cas from v, and no cas that found something other than w, unless v is w. (Take a
linearization of everything: the operation before an observer that stays, and that gave it its
value, then stays too.) `reduce` removes by this rule alone, so a write whose value is read by the
witness is always in the witness.

The result is 1-minimal in that sense: no further single operation can go. The search is delta
debugging (Zeller and Hildebrandt, TSE 28(2), 2002) with halving chunks and a limit on checks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers import _native
from checkers._columns import CAS_FALSE, CAS_TRUE, CAS_UNKNOWN, NEVER, READ, Columns
from dstest.core.clock import monotonic_ns
from dstest.core.history import History
from dstest.core.op import Op

__all__ = ["Witness", "explain", "reduce"]

Index = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CHECKS_MAX = 4_000
"""Checks of candidate witnesses: a few seconds at most for the usual microseconds each."""

CHECK_STEPS_MAX = 2_000_000
"""A candidate that costs more than this is kept as it is."""

STATES_NAMED_MAX = 8
"""More possible values than this are counted, not listed."""


@dataclass(frozen=True, slots=True)
class Witness:
    """Rows of the columns that contradict each other, in order of invocation."""

    rows: Index
    minimal: bool


def _stored(columns: Columns, rows: Index) -> Index:
    """Per row the value that it leaves in the register, -1 where it changes nothing."""
    kind, a, b = columns.kind[rows], columns.a[rows], columns.b[rows]
    cas = (kind == CAS_TRUE) | (kind == CAS_UNKNOWN)
    stored = np.where(cas, np.where(a == b, -1, b), a)
    return np.where((kind == READ) | (kind == CAS_FALSE), -1, stored).astype(np.int64)


def _without(columns: Columns, rows: Index, drop: Mask) -> Index:
    """`rows` without those of `drop` that may go together under the rule of this module."""
    kind, a = columns.kind[rows], columns.a[rows]
    stored = _stored(columns, rows)
    observes = (kind == READ) | (kind == CAS_TRUE) | (kind == CAS_UNKNOWN)
    differs = kind == CAS_FALSE
    drop = drop.copy()
    while True:
        needed = np.isin(stored, a[~drop & observes])
        for value in np.unique(a[~drop & differs]):
            needed |= stored != value
        back = drop & needed & (stored >= 0)
        if not back.any():
            return rows[~drop]
        drop &= ~back


def _illegal(
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


def reduce(columns: Columns, key: int, bad: int, *, time_ns: int, memory_bytes: int) -> Witness:
    """A small sound witness for an illegal key, whose row `bad` could not be placed."""
    deadline = monotonic_ns() + time_ns
    part = columns.of_key(key)
    rows = np.arange(part.start, part.stop, dtype=np.int64)
    checks = 0

    def still_illegal(candidate: Index) -> bool:
        nonlocal checks
        checks += 1
        left = max(1, deadline - monotonic_ns())
        return _illegal(columns, candidate, left, memory_bytes) is not None

    early = _without(columns, rows, columns.invoke[rows] > columns.complete[bad])
    if len(early) < len(rows) and still_illegal(early):
        rows = early
    chunk = max(1, len(rows) // 2)
    while True:
        before, at = len(rows), 0
        while at < len(rows):
            if checks >= CHECKS_MAX or monotonic_ns() >= deadline:
                return Witness(rows, minimal=False)
            drop = np.zeros(len(rows), np.bool_)
            drop[at : at + chunk] = True
            candidate = _without(columns, rows, drop)
            if len(candidate) < len(rows) and still_illegal(candidate):
                rows = candidate
            else:
                at += chunk
        if chunk == 1 and len(rows) == before:
            return Witness(rows, minimal=True)
        chunk = max(1, chunk // 2)


def _text(value: Any) -> str:
    return json.dumps(value, default=repr)


def _phrase(op: Op) -> str:
    """`write 2 (op 7, process 3)`."""
    if op.op_type == "read":
        what = f"read {_text(op.output)}"
    elif op.op_type == "cas":
        swap = f"cas {_text(op.input[0])} to {_text(op.input[1])}"
        what = swap if op.output is None else f"{swap}, {'done' if op.output else 'refused'}"
    else:
        what = f"write {_text(op.input)}"
    return f"{what} (op {op.op_id}, process {op.process_id})"


def _listed(parts: list[str]) -> str:
    shown = parts[:STATES_NAMED_MAX]
    more = f" and {len(parts) - len(shown)} more" if len(parts) > len(shown) else ""
    return ", ".join(shown) + more


def _why_not(columns: Columns, rows: Index, stuck: int) -> str:
    """What the operation that cannot be placed asks for."""
    kind, wanted = int(columns.kind[stuck]), int(columns.a[stuck])
    value = _text(columns.values[wanted])
    if kind == CAS_FALSE:
        return f"it needs any value other than {value}"
    if kind not in (READ, CAS_TRUE):
        return "wherever it takes effect, another operation's result contradicts it"
    if wanted != 0 and wanted not in _stored(columns, rows):
        return f"it needs the value {value}, which no operation ever stored"
    return f"it needs the value {value}"


def explain(
    columns: Columns, key: int, witness: Witness, history: History, *, memory_bytes: int
) -> str:
    """Longest linearizable prefix, the values possible there, and why there is no next step."""
    rows = witness.rows
    count = f"{len(rows)} operation{'s' if len(rows) != 1 else ''}"
    lead = f"On key {_text(columns.keys[key])} the {count} of the witness fit into no one order."
    decision = _illegal(columns, rows, 10**9, memory_bytes, states=64)
    if decision is None:
        return lead

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
        f"Longest linearizable prefix: up to the completion of {_phrase(op_at(earlier[-1]))}."
        if earlier
        else "Not even the first completion can be placed."
    )
    states = _listed([_text(columns.values[s]) for s in decision.states if s >= 0])
    beside = [
        _phrase(op_at(int(r)))
        for r in rows
        if r != stuck and int(r) not in earlier and int(columns.invoke[r]) <= end
    ]
    running = (
        f"Still running then: {_listed(beside)}; none of them can make it fit."
        if beside
        else "No other operation is running then."
    )
    return (
        f"{lead} {prefix} There the register can hold: {states}. Next completes "
        f"{_phrase(op_at(stuck))}: {_why_not(columns, rows, stuck)}. {running}"
    )
