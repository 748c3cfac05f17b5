"""One behaviour that explains records, step by step: from an initial state up to the record that
was refused, or to the last one.

The search goes deep first: what completes takes effect in the state that is there, and only where
it cannot do so something else before it, what is under way or no record tells of. A configuration
that led nowhere is not entered again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from dstest.spec.mapping import GAP, Mapped
from dstest.spec.merge import Happening
from dstest.spec.model import Model, Spent, Step, Watch
from dstest.spec.taking import Taker
from dstest.spec.trace import Trace

CONFIGS_MAX: Final = 500_000

_Config = tuple[int, Any, frozenset[int]]
"""Events that are past, the state, and which operations under way have taken effect, by number."""


class Explained(msgspec.Struct, frozen=True):
    """`trace` is None where the search was given up, for the reason in `why`. `refused` are steps
    that the next record may stand for in its last state; none of them can be taken."""

    trace: Trace | None
    refused: tuple[Step, ...] = ()
    why: str = ""


def explained(
    model: Model, mapped: Mapped, events: list[Happening], place: int | None, watch: Watch
) -> Explained:
    """Events as a comparison has them, up to that of `place`, the record that was refused; all of
    them where it is None."""
    ends = [n for n, one in enumerate(events) if not one.begins and one.place == place]
    upto = ends[0] if place is not None and ends else len(events)
    search = _Search(Taker(model, mapped, watch=watch), mapped, events)
    try:
        trace = search.way(upto)
    except Spent as error:
        return Explained(None, why=str(error))
    if trace is None:
        return Explained(None, why=f"more than {CONFIGS_MAX} configurations were looked at")
    refused: tuple[Step, ...] = ()
    if upto < len(events) and events[upto].record.kind != GAP:
        refused = tuple(mapped.steps(events[upto].record, trace.last))
    return Explained(trace, refused)


class _Search:
    def __init__(self, taker: Taker, mapped: Mapped, events: list[Happening]) -> None:
        self._taker, self._mapped, self._events = taker, mapped, events
        self._hidden = sorted(taker.model.spec.hidden)
        self._open = self._under_way()

    def _under_way(self) -> list[list[Happening]]:
        """Before each event the invocations of those that may take effect then."""
        found: list[list[Happening]] = []
        there: dict[int, Happening] = {}
        for one in self._events:
            found.append(list(there.values()))
            if not one.begins:
                there.pop(one.number, None)
            elif one.record.known or not self._mapped.only_reads(one.record):
                there[one.number] = one
        return found

    def way(self, upto: int) -> Trace | None:
        """None where it would take too long."""
        before: dict[_Config, tuple[_Config, Step | None] | None] = {}
        todo: list[_Config] = []
        for state in self._taker.begin():
            first: _Config = (0, state, frozenset())
            before[first] = None
            todo.append(first)
        while todo:
            here = todo.pop()
            if here[0] == upto:
                return _path(before, here)
            after = [pair for pair in self._next(here) if pair[1] not in before]
            for step, there in reversed(after):
                before[there] = (here, step)
                todo.append(there)
            if len(before) > CONFIGS_MAX:
                return None
        return None

    def _next(self, here: _Config) -> Iterator[tuple[Step | None, _Config]]:
        """What can be next, the likeliest first."""
        at, state, done = here
        event = self._events[at]
        if event.begins:
            yield None, (at + 1, state, done)
            return
        if event.number in done:
            yield None, (at + 1, state, done - {event.number})
            return
        for step, after in self._ways(event, state):
            yield step, (at + 1, after, done)
        for other in self._open[at]:
            if other.number not in done and other.number != event.number:
                for step, after in self._ways(other, state):
                    yield step, (at, after, done | {other.number})
        for name in self._hidden:
            for step, after in self._all_of(name, state):
                yield step, (at, after, done)

    def _ways(self, event: Happening, state: Any) -> Iterator[tuple[Step, Any]]:
        record = event.record
        if record.kind == GAP:
            yield from self._all_of(self._taker.model.spec.crash, state)
            return
        holds = self._mapped.after(record)
        self._taker.watch.look()
        for step in self._mapped.steps(record, state):
            after, by = self._taker.take(state, step)
            if by is None and (holds is None or holds(after, record)):
                yield step, after

    def _all_of(self, name: str, state: Any) -> Iterator[tuple[Step, Any]]:
        for args in self._taker.model.action(name).choices(state):
            self._taker.watch.look()
            step = Step(name, args)
            after, by = self._taker.take(state, step)
            if by is None:
                yield step, after


def _path(before: dict[_Config, tuple[_Config, Step | None] | None], end: _Config) -> Trace:
    states, steps, here = [end[1]], list[Step](), end
    while (last := before[here]) is not None:
        here, step = last
        if step is not None:
            steps.append(step)
            states.append(here[1])
    return Trace(tuple(reversed(states)), tuple(reversed(steps)))
