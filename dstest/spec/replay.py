"""A sequence of steps done again, and where it cannot go on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.model import Action, Model, Step
from dstest.spec.trace import Trace

Accepts = Callable[[Model], bool]
"""Is what was to be possible possible in this model?"""


class Replayed(msgspec.Struct, frozen=True):
    """`trace` is as far as it went; `refused` is the number of the step that was not enabled, from
    0, None where all were done."""

    trace: Trace
    refused: int | None = None


def replay(model: Model, steps: Iterable[Step], start: Any = None) -> Replayed:
    """From `start`, the first initial state where None.

    Raises ConfigError for a step of no action, or with another number of arguments.
    """
    trace = Trace((model.initial[0] if start is None else start,))
    for number, step in enumerate(steps):
        action = model.action(step.action)
        if len(step.args) != len(action.params):
            raise ConfigError(
                f"step {number}: {step} has {len(step.args)} arguments",
                remedy=f"{action.name}({', '.join(action.params)})",
            )
        if not action.enabled(trace.last, step.args):
            return Replayed(trace, number)
        trace = trace.then(step, action.update(trace.last, step.args))
    return Replayed(trace)


def without_guards(model: Model, dropped: Collection[str]) -> Model:
    """The model as it would be without these guards, by `action.label`."""

    def kept(action: Action) -> Action:
        guards = tuple(g for g in action.guards if f"{action.name}.{g.label}" not in dropped)
        return msgspec.structs.replace(action, guards=guards)

    return msgspec.structs.replace(model, actions=tuple(map(kept, model.actions)))
