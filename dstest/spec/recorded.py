"""Traces of what was recorded: written by `dstest spec conform --out`, read by all that read
traces. Their arguments are those of records, and need not be in the domains of the specification:
they are values as they are shown, and are read as such.
"""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.compose import of_logs
from dstest.spec.explained import Explained
from dstest.spec.model import Action, Args, FrozenDict, Model, Step, fields_of, show
from dstest.spec.trace import (
    StoredTrace,
    WrittenStep,
    constants_shown,
    read_trace,
    steps_in,
    trace_data,
)


def recorded_bytes(model: Model, found: Explained) -> bytes:
    """The file. `found` has a trace."""
    assert found.trace is not None
    params = {one.name: one.params for one in model.actions}
    refused = [
        {
            "action": one.action,
            "args": dict(zip(params[one.action], map(show, one.args), strict=True)),
        }
        for one in found.refused
    ]
    data = {**trace_data(model, found.trace), "recorded": True, "refused": refused}
    return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"


def read_for(model: Model, path: Path) -> tuple[Model, StoredTrace]:
    """The trace in a file; and the model to go on with. Of a recorded one, its action that was
    refused is asked with the arguments of that record alone. Raises ConfigError for what is no
    trace of this model."""
    file = read_trace(path)
    if not file.recorded:
        return model, steps_in(model, file)
    if model.spec.server_log and file.constants != constants_shown(model):
        model = of_logs(model)
    read = steps_in(_taking(model, file.steps, besides=True), file)
    refused = tuple(Step(row.action, _args(model, row)) for row in file.refused)
    read = msgspec.structs.replace(read, refused=refused)
    return _taking(model, file.refused, besides=False), read


def _taking(model: Model, steps: Iterable[WrittenStep], *, besides: bool) -> Model:
    """The model, its actions with these arguments, besides those of the domains or alone."""
    more: dict[str, dict[Args, None]] = {}
    for row in steps:
        more.setdefault(row.action, {})[_args(model, row)] = None
    actions = tuple(
        msgspec.structs.replace(one, choices=_with(one, more[one.name], besides))
        if one.name in more
        else one
        for one in model.actions
    )
    return msgspec.structs.replace(model, actions=actions)


def _args(model: Model, row: WrittenStep) -> Args:
    params = model.action(row.action).params
    return tuple(value_of(row.args.get(param, ""), model) for param in params)


def _with(action: Action, more: Iterable[Args], besides: bool) -> Callable[[Any], Iterable[Args]]:
    def choices(state: Any) -> Iterable[Args]:
        return dict.fromkeys(itertools.chain(more, action.choices(state) if besides else ()))

    return choices


def value_of(text: str, model: Model) -> Any:
    """A value as `show` writes it: plain ones, tuples, sets, maps, and records of classes that are
    named where the specification is. Raises ConfigError for any other text."""
    names = vars(sys.modules[type(model.spec).__module__])
    try:
        value = _built(ast.parse(text, mode="eval").body, names)
        if show(value) == text:
            return value
    except (SyntaxError, ValueError, TypeError, RecursionError):
        pass
    raise ConfigError(f"{text!r} is no value of {model.name}", remedy="the file as it was written")


def _built(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Tuple(elts=parts):
            return tuple(_built(one, names) for one in parts)
        case ast.Set(elts=parts):
            return frozenset(_built(one, names) for one in parts)
        case ast.Dict(keys=[]):
            return frozenset()  # sets and maps that are empty are shown alike
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            return FrozenDict((_built(k, names), _built(v, names)) for k, v in pairs if k)
        case ast.Call(func=ast.Name(id=name), args=[], keywords=given):
            made = names.get(name)
            if isinstance(made, type):
                value = made(**{str(one.arg): _built(one.value, names) for one in given})
                if fields_of(value) is not None:
                    return value
    raise ValueError("no value")
