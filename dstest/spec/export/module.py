"""What of a specification is exported, in no language yet."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.declare import DeclaredAction, Spec, actions_of, invariants_of
from dstest.spec.export.translate import (
    BOOL,
    NOTHING,
    STATE,
    Kind,
    Language,
    Scope,
    Text,
    Translator,
    kind_of_hint,
    kind_of_value,
    wanted,
)
from dstest.spec.model import Model, fields_of
from dstest.spec.mutate import function_of

DONE: Final = "done()"
"""What says in which states a specification may stay."""


class ExportedAction(msgspec.Struct, frozen=True):
    """`domains` are per parameter a set and what is in it; `can` are the guards by name."""

    name: str
    domains: Mapping[str, Text]
    can: Mapping[str, str]
    do: str


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """`left_out` are invariants that the other language would say in another way, and `done()`."""

    name: str
    doc: str
    fields: Mapping[str, Kind]
    initial: tuple[str, ...]
    actions: tuple[ExportedAction, ...]
    invariants: Mapping[str, str]
    left_out: tuple[str, ...]


def exported(model: Model, language: Language) -> Exported:
    """Raises ConfigError for what has no counterpart there."""
    spec = model.spec
    if getattr(spec, "parts", None):
        raise ConfigError(
            f"{model.name} is made of parts, which are not exported", remedy="export its parts"
        )
    state_class = type(model.initial[0])
    hints = typing.get_type_hints(state_class)
    fields = {
        name: kind_of_hint(hints.get(name), f"{state_class.__name__}.{name}")
        for name in fields_of(model.initial[0]) or {}
    }
    if not fields:
        raise ConfigError(f"the states of {model.name} have no fields", remedy="a frozen dataclass")
    to = Translator(language)

    def scope(where: str, names: Mapping[str, Text]) -> Scope:
        return Scope("s", fields, state_class, spec, names, {}, f"{model.name}.{where}")

    def initial(state: object) -> str:
        parts = fields_of(state) or {}
        for name, value in parts.items():
            where = f"{state_class.__name__}.{name} of an initial state"
            wanted(Text("", kind_of_value(value, where)), fields[name], where)
        return language.record({name: to.value(value) for name, value in parts.items()})

    kinds = {one.id: one.kind for one in model.invariants}
    return Exported(
        name=model.name,
        doc=model.doc,
        fields=fields,
        initial=tuple(map(initial, model.initial)),
        actions=tuple(_action(spec, one, to, scope) for one in actions_of(spec)),
        invariants={
            one.id: wanted(
                to.function(one.holds, _of_state(one.holds, scope(one.id, {}))),
                BOOL,
                f"{model.name}.{one.id}",
            )
            for one in invariants_of(spec)
            if one.kind == "state"
        },
        left_out=(
            *(id_ for id_, kind in kinds.items() if kind != "state"),
            *([DONE] if type(spec).done is not Spec.done else []),
        ),
    )


def _of_state(function: typing.Any, scope: Scope) -> Scope:
    """An invariant may call the state as it likes."""
    node = function_of(function)
    names = [arg.arg for arg in node.args.args] if node is not None else []
    if len(names) == 2 and names[1] != scope.state:
        renamed = Text(scope.state, Kind("state"))
        return scope.with_name(names[1], renamed)
    return scope


def _action(
    spec: Spec, one: DeclaredAction, to: Translator, scope: typing.Callable[..., Scope]
) -> ExportedAction:
    domains: dict[str, Text] = {}
    for name, domain in one.domains.items():
        where = scope(f"{one.name}, {name}", {})
        if callable(domain):
            domains[name] = to.as_set(to.function(domain, where), where)
        else:
            domains[name] = to.set_constant(tuple(domain), where)
    params = {name: Text(to.word(name), of.kind.of or NOTHING) for name, of in domains.items()}
    return ExportedAction(
        one.name,
        {to.word(name): of for name, of in domains.items()},
        {
            g.name: wanted(
                to.function(g.holds, scope(f"{one.name}.{g.name}", params)),
                BOOL,
                f"{type(spec).__name__}.{one.name}.{g.name}",
            )
            for g in one.guards
        },
        wanted(
            to.function(one.update, scope(one.name, params)),
            STATE,
            f"{type(spec).__name__}.{one.name}",
        ),
    )
