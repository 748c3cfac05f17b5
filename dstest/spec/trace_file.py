"""Traces as files of JSON: `{"spec": NAME, "constants": {..}, "steps": [{"action", "args"}]}`.

Arguments are text, as they are shown; what they mean is found among what the action may take in the
state that it stands in. So a trace is read by the model that it was written with, or one near it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.compose import System
from dstest.spec.declare import constants_of
from dstest.spec.model import Action, Args, Model, Step, fields_of, shown
from dstest.spec.trace import Trace, as_data


class WrittenStep(msgspec.Struct, frozen=True):
    """Argument by the name of its parameter, as text. `state` is the one after it, as text; empty
    where a file does not say it."""

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
    return {"spec": model.name, "constants": constants_shown(model), **as_data(model, trace)}


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


class Read(msgspec.Struct, frozen=True):
    """Where a trace begins, its steps, and the states after them as the file has them."""

    start: Any
    steps: tuple[Step, ...]
    states: tuple[str, ...] = ()


def steps_in(model: Model, file: Written) -> Read:
    """As steps of the model, from the state in which the file begins.

    Raises ConfigError for a trace of another specification, with other constants, that begins where
    the model does not, without steps, or with an action or argument that the model does not have. A
    step that is not enabled is no error here: its arguments are looked for in the state before it,
    and those after it in that same state.
    """
    _require_same(model, file)
    starts = [one for one in model.initial if shown(one) == file.initial]
    if not starts:
        raise ConfigError(
            f"{model.name} does not begin in {file.initial!r}",
            remedy=f"a trace of it, which begins in {shown(model.initial[0])}",
        )
    state = starts[0]
    found = []
    for number, row in enumerate(file.steps):
        action = model.action(row.action)
        args = _args(action, row, state, number)
        found.append(Step(action.name, args))
        if action.enabled(state, args):
            state = action.update(state, args)
    return Read(starts[0], tuple(found), tuple(row.state for row in file.steps))


def difference(read: Read, states: Sequence[Any]) -> str | None:
    """Where the states that its steps lead to, the first one before them, are others than those in
    the file: the step, the fields, and both values. None where they are the same."""
    for number, (wanted, state) in enumerate(zip(read.states, states[1:], strict=False)):
        if wanted and shown(state) != wanted:
            return f"step {number}, {read.steps[number]}: {_other_fields(wanted, state)}"
    return None


def require_same_states(read: Read, states: Sequence[Any]) -> None:
    """Raises ConfigError for a trace that leads elsewhere than it did."""
    found = difference(read, states)
    if found is not None:
        raise ConfigError(
            f"the trace leads to other states than it did: {found}",
            remedy="the specification, or the file, was changed since; make the trace again",
        )


def _other_fields(wanted: str, state: Any) -> str:
    mine = fields_of(state)
    there = _fields_in(wanted)
    if mine is None or there is None or set(mine) != set(there):
        return f"is {shown(state)}, and {wanted} in the file"
    return ", ".join(
        f"{name} is {shown(value)}, and {there[name]} in the file"
        for name, value in mine.items()
        if shown(value) != there[name]
    )


def _fields_in(text: str) -> dict[str, str] | None:
    """Of `Name(a=1, b=(2, 3))`: the text of each field."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(call, ast.Call):
        return None
    return {
        one.arg: ast.get_source_segment(text, one.value) or ""
        for one in call.keywords
        if one.arg is not None
    }


def _require_same(model: Model, file: Written) -> None:
    if file.spec != model.name:
        raise ConfigError(f"a trace of {file.spec}, not of {model.name}", remedy="its own SPEC")
    mine, theirs = constants_shown(model), dict(file.constants)
    if isinstance(model.spec, System):
        theirs.pop("parts", None)  # older files had where the parts lay in memory
    if other := sorted(n for n in {*mine, *theirs} if mine.get(n) != theirs.get(n)):
        given = [
            f"{name}={theirs.get(name, '?')}"
            if "." in name
            else f"--set '{name}={theirs.get(name, '?')}'"
            for name in other
        ]
        raise ConfigError(
            f"the trace has other constants: {', '.join(other)}", remedy=" ".join(given)
        )
    if not file.steps:
        raise ConfigError("the trace has no step", remedy="one of at least one step")


def constants_shown(model: Model) -> dict[str, str]:
    """All of them, as they are; those of a part as `part.name`."""
    spec = model.spec
    parts = spec.parts if isinstance(spec, System) else {}
    return {
        f"{before}{name}": shown(getattr(one, name))
        for before, one in [("", spec), *((f"{part}.", one) for part, one in parts.items())]
        for name in constants_of(type(one))
    }


def _args(action: Action, row: WrittenStep, state: Any, number: int) -> Args:
    wanted = tuple(row.args.get(name) for name in action.params)
    for args in action.choices(state):
        if tuple(map(shown, args)) == wanted:
            return args
    raise ConfigError(
        f"step {number}: {action.name} cannot take {row.args}",
        remedy=f"{action.name}({', '.join(action.params)}), with values of its domains",
    )
