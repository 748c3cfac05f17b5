"""A model brought into a state: by the steps of a trace, by a search towards it, or, where no way
is found, by making it.

The search takes first what is nearest: the state that differs from the wanted one in the fewest
fields.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.model import Model, Step, fields_of, show
from dstest.spec.taking import replay
from dstest.spec.trace import Trace, way_to


class Driven(msgspec.Struct, frozen=True, kw_only=True):
    """`how` it came there; a state that was `made` may be one that cannot be reached. Where it was
    `not found`, `trace` is one initial state, and `complete` says whether there are others to look
    at.

    `asked` counts the states that were looked at.
    """

    trace: Trace
    how: Literal["replayed", "found", "made", "not found"]
    asked: int
    complete: bool = False


def drive_along(
    model: Model, steps: Iterable[Step], events: int | None = None, start: Any = None
) -> Driven:
    """The first `events` steps of a trace from `start`, the first initial state where None.

    Raises ConfigError where one cannot be taken, or there are fewer."""
    wanted = list(steps)
    if events is not None and events > len(wanted):
        raise ConfigError(
            f"the trace has no {events} steps: it has {len(wanted)}",
            remedy=f"--events {len(wanted)} at most",
        )
    wanted = wanted if events is None else wanted[:events]
    done = replay(model, wanted, start)
    if done.refused is not None:
        raise ConfigError(
            f"step {done.refused}, {wanted[done.refused]}, is not enabled in"
            f" {show(done.trace.last)}",
            remedy=f"dstest spec why {wanted[done.refused].action}, or fewer events",
        )
    return Driven(trace=done.trace, how="replayed", asked=len(wanted) + 1)


def drive_to(
    model: Model,
    goal: Callable[[Any], bool] | Any,
    *,
    most_states: int = 200_000,
    make: bool = True,
) -> Driven:
    """`goal` is a state, or a function that is true of those wanted. A state to which no way is
    found is made, if it may be."""
    asked = goal if callable(goal) else None
    distance = _to(goal) if asked is None else lambda state: 0
    is_goal = asked or (lambda state: state == goal)
    order = itertools.count()
    before: dict[Any, tuple[Any, Step] | None] = {}
    todo: list[tuple[int, int, Any]] = []
    for state in model.initial:
        before[state] = None
        heapq.heappush(todo, (distance(state), next(order), state))
    while todo:
        _, _, state = heapq.heappop(todo)
        if is_goal(state):
            return Driven(trace=way_to(before, state), how="found", asked=len(before))
        for step, after in model.steps(state):
            if after not in before and len(before) < most_states:
                before[after] = (state, step)
                heapq.heappush(todo, (distance(after), next(order), after))
    complete = len(before) < most_states
    if asked is None and make:
        made = Trace((goal,))
        return Driven(trace=made, how="made", asked=len(before), complete=complete)
    here = Trace((model.initial[0],))
    return Driven(trace=here, how="not found", asked=len(before), complete=complete)


def _to(goal: Any) -> Callable[[Any], int]:
    """In how many fields a state differs; of tuples, in how many places."""

    def parts(state: Any) -> list[Any]:
        fields = fields_of(state)
        values = [state] if fields is None else list(fields.values())
        return [x for v in values for x in (v if isinstance(v, tuple) else (v,))]

    wanted = parts(goal)

    def distance(state: Any) -> int:
        mine = parts(state)
        differ = [a != b for a, b in zip(mine, wanted, strict=False)]
        return differ.count(True) + abs(len(mine) - len(wanted))

    return distance
