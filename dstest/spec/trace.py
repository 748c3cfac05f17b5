"""A behaviour: states with the steps between them, as data and as text."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from dstest.spec.declare import State
from dstest.spec.model import Model, Step, fields_of, shown


class Trace(msgspec.Struct, frozen=True):
    """`states` is one longer than `steps`; a state is followed by what was done in it."""

    states: tuple[Any, ...]
    steps: tuple[Step, ...] = ()

    @property
    def last(self) -> Any:
        """Where it ends."""
        return self.states[-1]

    def then(self, step: Step, state: State) -> Trace:
        """With one step more."""
        return Trace((*self.states, state), (*self.steps, step))


def way_to(before: Mapping[Any, tuple[Any, Step] | None], end: Any) -> Trace:
    """The way that a search came by: `before` has, for each state, the one before it with what was
    done there, None for one in which it began."""
    states, steps = [end], list[Step]()
    while (last := before[states[-1]]) is not None:
        states.append(last[0])
        steps.append(last[1])
    return Trace(tuple(reversed(states)), tuple(reversed(steps)))


def walk_from(model: Model, start: Any, rng: random.Random, steps: int) -> Trace:
    """A random walk without a look at invariants, of so many steps at most."""
    trace = Trace((start,))
    for _ in range(steps):
        ways = list(model.steps(trace.last))
        if not ways:
            break
        trace = trace.then(*rng.choice(ways))
    return trace


def changed(before: Any, after: Any) -> str:
    """The fields that are others, `name: old -> new`; the whole state where it has no fields."""
    old, new = fields_of(before), fields_of(after)
    if old is None or new is None:
        return f"{shown(before)} -> {shown(after)}" if before != after else ""
    return ", ".join(
        f"{name}: {shown(old[name])} -> {shown(value)}"
        for name, value in new.items()
        if old.get(name) != value
    )


def lines(trace: Trace) -> list[str]:
    """For people: the first state, and each step with what it changed."""
    said = [f"     begins in {shown(trace.states[0])}"]
    pairs = zip(trace.states, trace.states[1:], strict=False)
    for number, (step, (before, after)) in enumerate(zip(trace.steps, pairs, strict=True), 1):
        said.append(f"{number:4} {step}  {changed(before, after) or 'changes nothing'}")
    return said


def as_data(model: Model, trace: Trace) -> dict[str, Any]:
    """For JSON: arguments by their names, states as text."""
    params = {one.name: one.params for one in model.actions}
    return {
        "initial": shown(trace.states[0]),
        "steps": [
            {
                "action": step.action,
                "args": {n: shown(v) for n, v in zip(params[step.action], step.args, strict=True)},
                "state": shown(state),
            }
            for step, state in zip(trace.steps, trace.states[1:], strict=True)
        ],
    }
