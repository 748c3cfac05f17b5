"""A queue, first in and first out, of elements that differ: each enters once and leaves once.

| operation | input | output |
|---|---|---|
| enqueue | the element | |
| dequeue | | the oldest element, null where there is none |

Of operations on several keys, each key is a queue of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dstest.spec import Record, Spec, Step, action, invariant, maps, when


@dataclass(frozen=True, slots=True)
class State:
    """The oldest of those that wait is the first."""

    waiting: tuple[Any, ...] = ()
    gone: frozenset[Any] = frozenset()


class Queue(Spec):
    """First in, first out, nothing twice."""

    per_key = True

    elements: tuple[Any, ...] = (1, 2, 3, 4)
    """What enters where all states are explored; records bring elements of their own."""

    def initial(self) -> Iterable[State]:
        yield State()

    def done(self, s: State) -> bool:
        return True

    @action(element=lambda self: self.elements)
    @when("never there", lambda s, element: element not in s.waiting and element not in s.gone)
    def enqueue(self, s: State, element: Any) -> State:
        """It is the youngest."""
        return State((*s.waiting, element), s.gone)

    @action(element=lambda self: self.elements)
    @when("oldest", lambda s, element: bool(s.waiting) and s.waiting[0] == element)
    def dequeue(self, s: State, element: Any) -> State:
        """The oldest leaves."""
        return State(s.waiting[1:], s.gone | {element})

    @action()
    @when("nothing waits", lambda s: not s.waiting)
    def find_empty(self, s: State) -> State:
        """A dequeue that finds nothing changes nothing."""
        return s

    @invariant("QUE1", "nothing is there twice, nor again when it has left")
    def once(self, s: State) -> bool:
        return len(set(s.waiting)) == len(s.waiting) and not s.gone.intersection(s.waiting)

    @invariant("QUE2", "nothing is lost", kind="action")
    def kept(self, before: State, step: Step, after: State) -> bool:
        return {*before.waiting, *before.gone} <= {*after.waiting, *after.gone}

    @invariant("QUE3", "those that wait keep their order", kind="action")
    def ordered(self, before: State, step: Step, after: State) -> bool:
        if step.action == "dequeue":
            return (*step.args, *after.waiting) == before.waiting
        return after.waiting[: len(before.waiting)] == before.waiting

    @invariant("QUE4", "it is empty when it is said to be", kind="action")
    def empty(self, before: State, step: Step, after: State) -> bool:
        return step.action != "find_empty" or not before.waiting

    @invariant("QUE5", "elements wait behind one another", kind="sometimes")
    def behind(self, s: State) -> bool:
        return len(s.waiting) > 1

    @maps("enqueue")
    def of_enqueue(self, record: Record) -> Iterator[Step]:
        yield Step("enqueue", (record.input,))

    @maps("dequeue", too_late=lambda s, record: record.output in s.gone)
    def of_dequeue(self, record: Record, s: State) -> Iterator[Step]:
        """Where the answer was lost, it is the oldest that has left, if anything has."""
        if not record.known:
            yield from (Step("dequeue", (oldest,)) for oldest in s.waiting[:1])
        elif record.output is None:
            yield Step("find_empty")
        else:
            yield Step("dequeue", (record.output,))
