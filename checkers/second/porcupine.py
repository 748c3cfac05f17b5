"""Linearizability by the algorithm of Wing and Gong as Lowe and Porcupine have it, in plain Python.

Calls and returns stand in one list in order of time. The first call that the object allows is
linearized and taken out, with its return; where a return comes first whose call was not, the last
choice is undone. What was linearized together with the state that it led to is remembered, so that
nothing is tried twice (Lowe, "Testing for linearizability", Concurrency and Computation 29(4),
2017; Athalye's Porcupine).

An object that may be in several states after an operation is in the set of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkers.second.objects import Run, judged, object_of, outcomes, tokens_of
from dstest.core.op import Op


@dataclass(eq=False, slots=True)
class _Entry:
    """A call (`back` is its return, None where it never came) or a return (`call` is False)."""

    at: int
    call: bool
    back: _Entry | None = None
    before: _Entry | None = None
    after: _Entry | None = None


def _entries(ops: list[Op]) -> _Entry:
    """The list, behind a head that is no entry. At one instant calls come before returns: what
    touches overlaps."""
    placed: list[tuple[int, bool, int, _Entry]] = []
    for at, op in enumerate(ops):
        call = _Entry(at, call=True)
        placed.append((op.invoke_ts, False, at, call))
        if not op.timeout_marker and op.complete_ts is not None:
            call.back = _Entry(at, call=False)
            placed.append((op.complete_ts, True, at, call.back))
    head = last = _Entry(-1, call=False)
    for *_, entry in sorted(placed, key=lambda row: row[:3]):
        last.after, entry.before = entry, last
        last = entry
    return head


def _take(entry: _Entry) -> None:
    for one in (entry, entry.back):
        if one is not None and one.before is not None:
            one.before.after = one.after
            if one.after is not None:
                one.after.before = one.before


def _put_back(entry: _Entry) -> None:
    for one in (entry.back, entry):
        if one is not None and one.before is not None:
            one.before.after = one
            if one.after is not None:
                one.after.before = one


class _Object:
    """The states that it may be in; each is written down once."""

    def __init__(self, model: str, run: Run, ops: list[Op]) -> None:
        self._model, self._run = model, run
        self._tokens = tokens_of(ops)

    def step(self, states: dict[str, Any], op: Op) -> dict[str, Any]:
        """By how they are written; empty where no state allows the operation."""
        return {
            repr(after): after
            for state in states.values()
            for after in outcomes(self._model, self._run, state, op, self._tokens)
        }


def linearizable(model: str, ops: list[Op], *, permits: int = 0, steps_max: int) -> bool | None:
    """Is there a linearization of the operations of one object? None after `steps_max` steps. An
    operation of unknown outcome need not be in it."""
    run, first = object_of(model, permits)
    ops = judged(ops)
    thing, states = _Object(model, run, ops), {repr(first): first}
    head = _entries(ops)
    left = sum(not op.timeout_marker and op.complete_ts is not None for op in ops)
    taken: list[tuple[_Entry, dict[str, Any]]] = []
    done = steps = 0
    known: set[tuple[int, frozenset[str]]] = set()
    entry = head.after
    while left:
        if entry is not None and entry.call:
            steps += 1
            if steps > steps_max:
                return None
            after = thing.step(states, ops[entry.at])
            mark = (done | 1 << entry.at, frozenset(after))
            if after and mark not in known:
                known.add(mark)
                taken.append((entry, states))
                states, done = after, mark[0]
                left -= entry.back is not None
                _take(entry)
                entry = head.after
            else:
                entry = entry.after
            continue
        if not taken:
            return False
        entry, states = taken.pop()
        done &= ~(1 << entry.at)
        left += entry.back is not None
        _put_back(entry)
        entry = entry.after
    return True
