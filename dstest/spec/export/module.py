"""What of a specification is exported, in no language yet: its state, its actions with those of its
parts, and its invariants of states and of steps.

An argument is a parameter there, with its domain, where all of its values are of one kind.
Otherwise, and where what the action does with it has no counterpart unless it is known, there is
an action for each of its values.
"""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.compose import System
from dstest.spec.declare import DeclaredAction, DeclaredGuard, Spec, actions_of
from dstest.spec.export.kinds import (
    BOOL,
    NOTHING,
    Kind,
    Text,
    Unlike,
    fit,
    kind_of_class,
    set_of,
)
from dstest.spec.export.language import Language, wanted, written
from dstest.spec.export.translate import Translator
from dstest.spec.model import Args, Invariant, Model, Step, in_order, show

DONE: Final = "done()"
"""What says in which states a specification may stay."""

STATES_MAX: Final = 2_000
"""Looked at to find of what kind the values of a field are that is `Any`."""

INSTANCES_MAX: Final = 2_000
"""Actions that are made of one, for its arguments."""


class ExportedAction(msgspec.Struct, frozen=True, kw_only=True):
    """`of` is the action that it is, with these arguments where they are `fixed` by parameter.
    `domains` are per parameter a set and what is in it; `can` are the guards by name; `do` is the
    next state. `holds` are the invariants of steps by id, of `s`, the parameters, and `t`, the next
    state; one that holds of each such step is not among them."""

    name: str
    of: str
    fixed: Mapping[str, Any]
    domains: Mapping[str, Text]
    can: Mapping[str, str]
    do: str
    holds: Mapping[str, str]


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """`steps` are ids of invariants of steps. `left_out` are those that the other language would
    say in another way, and `done()`."""

    name: str
    doc: str
    state: Kind
    initial: tuple[str, ...]
    actions: tuple[ExportedAction, ...]
    invariants: Mapping[str, str]
    steps: tuple[str, ...]
    left_out: tuple[str, ...]


def exported(model: Model, language: Language) -> Exported:
    """Raises ConfigError for what has no counterpart there."""
    state = state_kind(model)
    if not state.items:
        raise ConfigError(f"the states of {model.name} have no fields", remedy="a frozen dataclass")
    to = _Exporter(model, state, language)
    where = f"an initial state of {model.name}"
    return Exported(
        name=model.name,
        doc=model.doc,
        state=state,
        initial=tuple(wanted(language, one, state, where) for one in model.initial),
        actions=tuple(one for action in model.actions for one in to.actions(action.name)),
        invariants={one.id: to.invariant(one) for one in model.of_kind("state")},
        steps=tuple(one.id for one in model.of_kind("action")),
        left_out=(
            *(one.id for one in model.of_kind("liveness", "sometimes")),
            *([DONE] if _says_done(model.spec) else []),
        ),
    )


def _says_done(spec: Spec) -> bool:
    """Does it, or one of its parts, say of a state that it may stay there?"""
    every = (spec, *_parts(spec).values())
    return any(type(one).done not in (Spec.done, System.done) for one in every)


def _parts(spec: Spec) -> Mapping[str, Spec]:
    return spec.parts if isinstance(spec, System) else {}


def state_kind(model: Model) -> Kind:
    """Of its states. Raises ConfigError for one that no language has."""
    try:
        kind = kind_of_class(type(model.initial[0]))
        for state in model.initial:
            kind = fit(kind, state)
        for state in _reached(model) if kind.is_open else ():
            kind = fit(kind, state)
    except Unlike as error:
        raise ConfigError(
            f"a field of the states of {model.name} is {error.args[0]} and {error.args[1]}, which"
            " is not exported",
            remedy="values of one type",
        ) from None
    return kind


def _reached(model: Model) -> Iterator[Any]:
    seen = dict.fromkeys(model.initial)
    for state in itertools.islice(_growing(seen), STATES_MAX):
        yield state
        if len(seen) < STATES_MAX:
            seen.update(dict.fromkeys(after for _, after in model.steps(state)))


def _growing(seen: dict[Any, None]) -> Iterator[Any]:
    """Those that are put into it meanwhile as well."""
    at = 0
    while at < len(seen):
        for state in list(itertools.islice(seen, at, None)):
            at += 1
            yield state


class _Share(msgspec.Struct, frozen=True):
    """What the whole (`part` is empty), or a part of it, has of an action."""

    part: str
    spec: Spec
    action: DeclaredAction

    def label(self, guard: DeclaredGuard) -> str:
        return f"sub:{self.part}.{guard.name}" if self.part else guard.name


class _Exporter:
    """One model into one language."""

    def __init__(self, model: Model, state: Kind, language: Language) -> None:
        self.model, self.state, self.to = model, state, language
        self.translator = Translator(language)
        self._shares: dict[str, list[_Share]] = {}
        for part, spec in [("", model.spec), *_parts(model.spec).items()]:
            for one in actions_of(spec):
                self._shares.setdefault(one.name, []).append(_Share(part, spec, one))

    def actions(self, name: str) -> list[ExportedAction]:
        """One, or one for each of its arguments."""
        domains = {param: self._domain(name, param) for param in self.model.action(name).params}
        known = {param: rows for param, rows in domains.items() if rows is not None}
        kinds, split = dict[str, Kind](), list[str]()
        for param, rows in known.items():
            kind = _kind_of_all(rows)
            if kind is None:
                split.append(param)
            else:
                kinds[param] = kind
        tried: ConfigError | None = None
        left = [param for param in known if param not in split]
        for more in ([], *([param] for param in left), left):
            apart = [*split, *more]
            rest = {param: kind for param, kind in kinds.items() if param not in apart}
            try:
                return self._instances(name, rest, {param: known[param] for param in apart})
            except ConfigError as error:
                tried = tried or error
        assert tried is not None
        raise tried

    def _domain(self, name: str, param: str) -> list[Any] | None:
        """What a parameter may be; None where that is another set in each state."""
        found: list[Any] | None = None
        for share in self._shares[name]:
            if param not in share.action.domains:
                continue
            domain = share.action.domains[param]
            if callable(domain):
                asked = inspect.signature(domain).parameters
                if "s" in asked:
                    return None
                domain = domain(share.spec) if asked else domain()
            rows = list(dict.fromkeys(in_order(domain)))
            found = rows if found is None else [one for one in found if one in rows]
        return found

    def _instances(
        self, name: str, kinds: Mapping[str, Kind], split: Mapping[str, list[Any]]
    ) -> list[ExportedAction]:
        if math.prod(map(len, split.values())) > INSTANCES_MAX:
            raise ConfigError(
                f"{self.model.name}.{name} would be more than {INSTANCES_MAX} actions,"
                " which is not exported",
                remedy="arguments of one type, or fewer of them (--set)",
            )
        if not split:
            return [self._action(name, name, kinds, {})]
        every = itertools.product(*split.values())
        return [
            self._action(f"{name}_{number}", name, kinds, dict(zip(split, args, strict=True)))
            for number, args in enumerate(every, 1)
        ]

    def _action(
        self, called: str, name: str, kinds: Mapping[str, Kind], fixed: Mapping[str, Any]
    ) -> ExportedAction:
        params = self.model.action(name).params
        domains: dict[str, Text] = {}
        values: dict[str, Any] = dict(fixed)
        for param in params:
            if param not in fixed:
                word = self.to.word(param)
                domains[word] = self._set(name, param, kinds.get(param))
                values[param] = Text(word, domains[word].kind.held)
        words = ["s", "t", *domains]
        can: dict[str, str] = {}
        for share in self._shares[name]:
            names = self._names(share.part, share.spec, "s", values)
            for guard in share.action.guards:
                where = f"{_name(share.spec)}.{name}.{guard.name}"
                self.translator.begin(words)
                value = self.translator.function(guard.holds, names, where)
                can[share.label(guard)] = wanted(self.to, value, BOOL, where)
        self.translator.begin(words)
        return ExportedAction(
            name=called,
            of=name,
            fixed=fixed,
            domains=domains,
            can=can,
            do=self._next(name, values),
            holds=self._steps(name, values, words),
        )

    def _names(
        self, part: str, spec: Spec, state: str, values: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {"self": spec, "s": self._at(part, state), **values}

    def _at(self, part: str, state: str) -> Text:
        """The state of a part, of the whole where there is none."""
        if not part:
            return Text(state, self.state)
        return Text(self.to.field(state, part), self.state.item(part) or NOTHING)

    def _set(self, name: str, param: str, kind: Kind | None) -> Text:
        """What a parameter may be, as a set there."""
        if kind is not None:
            rows = frozenset(self._domain(name, param) or ())
            return Text(written(self.to, rows, set_of(kind)), set_of(kind))
        whole: Text | None = None
        for share in self._shares[name]:
            if param not in share.action.domains:
                continue
            where, domain = f"{_name(share.spec)}.{name}, {param}", share.action.domains[param]
            if callable(domain):
                self.translator.begin(["s"])
                names = self._names(share.part, share.spec, "s", {})
                domain = self.translator.function(domain, names, where)
            found = self.translator.set_of_rows(domain, where)
            if whole is not None:
                found = Text(self.to.of_sets("&", whole.text, found.text), whole.kind)
            whole = found
        assert whole is not None
        return whole

    def _next(self, name: str, values: Mapping[str, Any]) -> str:
        own, made = None, dict[str, str]()
        for share in self._shares[name]:
            if not share.part:
                own = share
                continue
            names = self._names(share.part, share.spec, "s", values)
            where = f"{_name(share.spec)}.{name}"
            value = self.translator.function(share.action.update, names, where)
            text = wanted(self.to, value, self.state.item(share.part) or NOTHING, where)
            if text != names["s"].text:
                made[share.part] = text
        parts = self.to.changed("s", made) if made else "s"
        if own is None:
            return parts
        where = f"{_name(own.spec)}.{name}"
        word = self.translator.fresh("then") if made else "s"
        names = self._names("", own.spec, word, values)
        value = self.translator.function(own.action.update, names, where)
        text = wanted(self.to, value, self.state, where)
        if not made:
            return text
        return parts if text == word else self.to.let(word, parts, text)

    def _steps(self, name: str, values: Mapping[str, Any], words: list[str]) -> dict[str, str]:
        step = Step(name, tuple(values[param] for param in self.model.action(name).params))
        found: dict[str, str] = {}
        for one in self.model.of_kind("action"):
            self.translator.begin(words)
            given = [self._at(one.part, "s"), step, self._at(one.part, "t")]
            text = self._said(one, given)
            if text != self.to.literal(True):
                found[one.id] = text
        return found

    def invariant(self, one: Invariant) -> str:
        """Of `s`."""
        self.translator.begin(["s"])
        return self._said(one, [self._at(one.part, "s")])

    def _said(self, one: Invariant, given: list[Any]) -> str:
        spec = _parts(self.model.spec).get(one.part, self.model.spec)
        names = list(inspect.signature(one.source).parameters)
        where = f"{_name(spec)}.{one.id}"
        values = dict(zip(names, [spec, *given], strict=True))
        return wanted(self.to, self.translator.function(one.source, values, where), BOOL, where)


def _name(spec: Spec) -> str:
    return type(spec).__name__


def _kind_of_all(rows: Iterable[Any]) -> Kind | None:
    """None where they are of several kinds, or of one that no language has."""
    kind = NOTHING
    try:
        for one in rows:
            kind = fit(kind, one)
    except (Unlike, ConfigError):
        return None
    return kind


def instance_of(
    whole: Exported, model: Model, name: str, args: Args
) -> tuple[ExportedAction, list[Any]]:
    """The action that a step is there, and its arguments that are not fixed."""
    given = dict(zip(model.action(name).params, args, strict=True))
    for one in whole.actions:
        if one.of == name and all(given[param] == value for param, value in one.fixed.items()):
            return one, [value for param, value in given.items() if param not in one.fixed]
    raise ConfigError(f"{name}{show(args)} is not exported", remedy="arguments of its domains")
