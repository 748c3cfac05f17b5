"""A specification by its name, or from a file of a user's own (`load`), with or without clients
that keep to no rule: those are actions of it (`@action(adversary="stale")`) that send again, late,
in another order, what is no request, or end in the middle of one.

`System`: several specifications as one, by conjunction (Abadi and Lamport, "Conjoining
Specifications", 1995). No `canonical` of a part is used: names that parts share must be exchanged
in all of them at once, which only the system can say.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.registry import module_at
from dstest.spec import shipped
from dstest.spec.declare import (
    ADVERSARIES,
    DeclaredAction,
    Spec,
    State,
    actions_of,
    constants_of,
    error_text,
    is_marked,
)
from dstest.spec.model import (
    WHOLE,
    Action,
    Args,
    Guard,
    Invariant,
    Model,
    bound,
    guard_of,
    invariant_models,
    model_of,
    ready_model,
    show,
    truth,
    values_of,
)


class System(Spec):
    """The state has a field for each part. What the system declares itself is of the whole state.

    Raises ConfigError for a part that is no specification, or that has parts itself: what such a
    one says is not in its own methods alone.
    """

    parts: ClassVar[Mapping[str, Spec]] = {}
    """Name -> specification; names are words."""

    def __init__(self, **constants: Any) -> None:
        super().__init__(**constants)
        for name, part in self.parts.items():
            if not isinstance(part, Spec) or not name.isidentifier():
                raise ConfigError(
                    f"part {name!r} of {type(self).__name__} is no specification",
                    remedy="parts = {'word': SomeSpec()}",
                )
            if hasattr(part, "model"):
                raise ConfigError(
                    f"part {name!r} of {type(self).__name__} is a whole itself, which no part is",
                    remedy=f"its parts among those of {type(self).__name__}, and what it says of"
                    " the whole there",
                )
        self.state = dataclasses.make_dataclass(
            f"{type(self).__name__}State", [(n, Any) for n in self.parts], frozen=True, slots=True
        )

    def initial(self) -> Iterable[State]:
        """One of each part, in all ways."""
        for states in itertools.product(*(part.initial() for part in self.parts.values())):
            yield self.state(*states)

    def done(self, s: Any) -> bool:
        """Where all of its parts are."""
        return all(
            truth(part.done(getattr(s, name)), f"done() of {name}")
            for name, part in self.parts.items()
        )

    def model(self) -> Model:
        """As `model_of` gives it."""
        own = {one.name: one for one in actions_of(self)}
        of_parts = {name: {a.name: a for a in actions_of(p)} for name, p in self.parts.items()}
        names = dict.fromkeys(
            [*own, *itertools.chain.from_iterable(found for found in of_parts.values())]
        )
        actions = tuple(self._joined(name, own.get(name), of_parts) for name in names)
        return ready_model(self, actions, self._invariants())

    def _invariants(self) -> tuple[Invariant, ...]:
        """Of an id that several parts have, each is told by its part: `left.P1`."""
        found = list(invariant_models(self))
        of_parts = [(n, one) for n, part in self.parts.items() for one in invariant_models(part)]
        times = Counter(one.id for _, one in of_parts)
        for name, one in of_parts:
            holds = _of_field(one.holds, name, one.kind == "action")
            id_ = one.id if times[one.id] == 1 else f"{name}.{one.id}"
            found.append(Invariant(id_, one.text, one.kind, holds, one.source, name))
        return tuple(found)

    def _joined(
        self,
        name: str,
        own: DeclaredAction | None,
        of_parts: Mapping[str, Mapping[str, DeclaredAction]],
    ) -> Action:
        shares = {part: found[name] for part, found in of_parts.items() if name in found}
        declared = [*([own] if own else []), *shares.values()]
        params = tuple(dict.fromkeys(itertools.chain.from_iterable(a.domains for a in declared)))
        where = f"action {name!r}"
        guards: list[Guard] = []
        updates: list[tuple[str, Callable[[Any, Args], State]]] = []
        for part, one in shares.items():
            spec, level = self.parts[part], f"sub:{part}"
            for given in one.guards:
                made = guard_of(spec, given, params, f"{where} of {part}", level)
                guards.append(Guard(made.name, level, _inner(made.holds, part), made.source))
            updates.append((part, bound(spec, one.update, params, where)))
        last = None
        if own is not None:
            guards = [*(guard_of(self, g, params, where, WHOLE) for g in own.guards), *guards]
            last = bound(self, own.update, params, where)
        return Action(
            name,
            params,
            self._choices(params, own, shares, where),
            tuple(guards),
            _update(updates, last),
            max(one.weight for one in declared),
            next((one.doc for one in declared if one.doc), ""),
            tuple(one.update for one in declared),
            next((one.adversary for one in declared if one.adversary), ""),
        )

    def _choices(
        self,
        params: tuple[str, ...],
        own: DeclaredAction | None,
        shares: Mapping[str, DeclaredAction],
        where: str,
    ) -> Callable[[Any], Iterable[Args]]:
        """What all who name a parameter allow, in the order of the first of them."""
        ways: list[list[Callable[[Any], Iterable[Any]]]] = []
        for param in params:
            asked: list[Callable[[Any], Iterable[Any]]] = []
            if own is not None and param in own.domains:
                of = f"parameter {param!r} of {where}"
                asked.append(values_of(self, own.domains[param], of))
            for part, one in shares.items():
                if param in one.domains:
                    of = f"parameter {param!r} of {where} of {part}"
                    values = values_of(self.parts[part], one.domains[param], of)
                    asked.append(_seen_by(part, values))
            ways.append(asked)
        return lambda s: itertools.product(*(_common(asked, s) for asked in ways))


def _seen_by(part: str, values: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Iterable[Any]]:
    return lambda s: values(getattr(s, part))


def _common(asked: list[Callable[[Any], Iterable[Any]]], state: Any) -> Iterator[Any]:
    first, *others = (list(way(state)) for way in asked)
    return (value for value in first if all(value in other for other in others))


def _inner(holds: Callable[[Any, Args], bool], part: str) -> Callable[[Any, Args], bool]:
    return lambda s, a: holds(getattr(s, part), a)


def _of_field(holds: Callable[..., bool], part: str, of_steps: bool) -> Callable[..., bool]:
    if of_steps:
        return lambda before, step, after: holds(getattr(before, part), step, getattr(after, part))
    return lambda s: holds(getattr(s, part))


def _update(
    updates: list[tuple[str, Callable[[Any, Args], State]]],
    last: Callable[[Any, Args], State] | None,
) -> Callable[[Any, Args], State]:
    def changed(s: Any, a: Args) -> State:
        made = {part: way(getattr(s, part), a) for part, way in updates}
        for part, new in made.items():
            kind = type(getattr(s, part))
            if type(new) is not kind:
                raise ConfigError(
                    f"an action of {part} gave {show(new)}, which is no {kind.__name__}",
                    remedy="an action returns the next state",
                )
        after = dataclasses.replace(s, **made)
        return last(after, a) if last is not None else after

    return changed


def shipped_names() -> list[str]:
    """Those that come with dstest."""
    return sorted(one.name.replace("_", "-") for one in pkgutil.iter_modules(shipped.__path__))


def load(given: str, constants: Iterable[str] = (), *, actions: bool = True) -> Model:
    """`NAME` of one that comes with dstest, `FILE.py`, or `FILE.py:CLASS` where a file has several.
    Constants are `name=value`, as `constants_in` reads them. `actions` false: it needs none.

    Raises ConfigError where there is none, several, or one that cannot be made ready.
    """
    where, _, wanted = given.partition(":")
    module = _module(where)
    _require_in_classes(where, module)
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, Spec)
        and value not in (Spec, System)
        and value.__module__ == module.__name__
    }
    if wanted and wanted not in found:
        raise ConfigError(f"{where} has no specification {wanted!r}", remedy=meant(wanted, found))
    whole = [n for n, cls in found.items() if issubclass(cls, System)] or list(found)
    if not wanted and len(whole) != 1:
        raise ConfigError(
            f"{where} has {len(whole) or 'no'} specifications",
            remedy=f"{where}:CLASS, one of {', '.join(whole)}" if whole else "class X(Spec): ...",
        )
    cls = found[wanted or whole[0]]
    try:
        model = model_of(cls(**constants_in(constants, cls)))
        if actions and not model.actions:
            raise ConfigError(
                f"{model.name} has no action",
                remedy="mark methods with @action; dstest spec live does without",
            )
        return model
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{cls.__name__} cannot be made: {error_text(error)}",
            remedy="it must be made without arguments",
        ) from None


def of_logs(model: Model) -> Model:
    """With the constants that logs are held to it with, where none were given for them."""
    spec = model.spec
    others = {name: value for name, value in spec.for_logs.items() if name not in vars(spec)}
    given = {name: getattr(spec, name) for name in constants_of(type(spec)) if name in vars(spec)}
    return model_of(type(spec)(**given, **others)) if others else model


def _require_in_classes(where: str, module: ModuleType) -> None:
    """Raises ConfigError for a function of the file's own that is marked and stands in no class:
    nothing would read it."""
    for name, value in vars(module).items():
        if is_marked(value) and getattr(value, "__module__", None) == module.__name__:
            raise ConfigError(
                f"{where}: {name} is marked, and stands in no class",
                remedy="indent it, so that it is a method of the specification",
            )


def _module(where: str) -> ModuleType:
    if where.endswith(".py"):
        return module_at(Path(where).absolute())
    if where not in shipped_names():
        raise ConfigError(
            f"no specification called {where!r}",
            remedy=f"FILE.py[:CLASS], or {meant(where, shipped_names())}",
        )
    return import_module(f"{shipped.__name__}.{where.replace('-', '_')}")


def constants_in(given: Iterable[str], model_class: type[Spec]) -> dict[str, Any]:
    """`name=value` each, the value as Python writes it: `n=3`, `values=(1, 2)`, `mode=fast`.

    Raises ConfigError for one without a name or value, or of another type than the class has; where
    the class has None it may be anything.
    """
    known, found = constants_of(model_class), {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or name not in known:
            raise ConfigError(
                f"no constant {one!r} of {model_class.__name__}",
                remedy=f"NAME=VALUE: {meant(name, known)}",
            )
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        if known[name] is not None and type(value) is not type(known[name]):
            kind = type(known[name]).__name__
            raise ConfigError(f"{name}={text} is no {kind}", remedy=f"as in {name}={known[name]!r}")
        found[name] = value
    return found


def allowed(model: Model, kinds: str) -> Model:
    """The model with adversaries of these kinds alone: a list with commas, `all` or `none`.

    Raises ConfigError for a word that is no kind, for a kind of which the model has no action, and
    where no action is left.
    """
    if kinds == "all":
        return model
    if absent := lacking(model, kinds):
        raise ConfigError(
            f"{model.name} has no action of clients that do {', '.join(absent)}",
            remedy=f'an action with adversary="{absent[0]}", or another --adversary',
        )
    named = _named(kinds)
    kept = tuple(one for one in model.actions if not one.adversary or one.adversary in named)
    if not kept:
        raise ConfigError(
            f"{model.name} has adversaries and nothing else", remedy="--adversary all"
        )
    return msgspec.structs.replace(model, actions=kept)


def lacking(model: Model, kinds: str) -> list[str]:
    """Those of the kinds of which the model has no action: nothing would be shown about them.
    Raises ConfigError for a word that is no kind."""
    return sorted(_named(kinds) - {one.adversary for one in model.actions})


def _named(kinds: str) -> set[str]:
    named = set() if kinds in ("all", "none") else {part.strip() for part in kinds.split(",")}
    if strange := sorted(named - ADVERSARIES.keys()):
        raise ConfigError(
            f"no client does {strange[0]!r}", remedy=meant(strange[0], sorted(ADVERSARIES))
        )
    return named
