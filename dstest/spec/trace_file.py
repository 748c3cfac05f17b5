"""Traces as files of JSON: `{"spec": NAME, "constants": {..}, "steps": [{"action", "args"}]}`.

Arguments are text, as they are shown; what they mean is found among what the action may take in the
state that it stands in. So a trace is read by the model that it was written with, or one near it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.model import Action, Args, Model, Step, shown
from dstest.spec.trace import Trace, as_data

__all__ = ["Written", "read_trace", "steps_in", "to_bytes", "written"]


class WrittenStep(msgspec.Struct, frozen=True):
    """Argument by the name of its parameter, as text. `state` is for people."""

    action: str
    args: dict[str, str] = {}
    state: str = ""


class Written(msgspec.Struct, frozen=True):
    """A file of a trace."""

    spec: str
    steps: tuple[WrittenStep, ...]
    initial: str = ""
    constants: dict[str, str] = {}


def written(model: Model, trace: Trace) -> dict[str, Any]:
    """As data."""
    constants = {name: shown(value) for name, value in vars(model.spec).items() if name != "state"}
    return {"spec": model.name, "constants": constants, **as_data(model, trace)}


def to_bytes(model: Model, trace: Trace) -> bytes:
    """The file."""
    return msgspec.json.format(msgspec.json.encode(written(model, trace)), indent=2) + b"\n"


def read_trace(path: Path) -> Written:
    """Raises ConfigError where it is no trace."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Written)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="a file of a trace") from None
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path} is no trace: {error}", remedy="one that `dstest spec explore --out` wrote"
        ) from None


def steps_in(model: Model, file: Written) -> list[Step]:
    """As steps of the model, from its first initial state, or that which the file names.

    Raises ConfigError for an action or an argument that the model does not have. A step that is not
    enabled is no error here: its arguments are looked for in the state before it, and those after
    it in that same state.
    """
    named = [one for one in model.initial if shown(one) == file.initial]
    state = (named or list(model.initial))[0]
    found = []
    for number, row in enumerate(file.steps):
        action = model.action(row.action)
        args = _args(action, row, state, number)
        found.append(Step(action.name, args))
        if action.enabled(state, args):
            state = action.update(state, args)
    return found


def _args(action: Action, row: WrittenStep, state: Any, number: int) -> Args:
    wanted = tuple(row.args.get(name) for name in action.params)
    for args in action.choices(state):
        if tuple(map(shown, args)) == wanted:
            return args
    raise ConfigError(
        f"step {number}: {action.name} cannot take {row.args}",
        remedy=f"{action.name}({', '.join(action.params)}), with values of its domains",
    )
