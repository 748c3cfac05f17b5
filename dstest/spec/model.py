"""A specification made ready to be executed: `Model`, with all functions of (state, arguments)."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.declare import (
    KINDS,
    DeclaredAction,
    DeclaredGuard,
    Kind,
    Spec,
    State,
    actions_of,
    constants_of,
    invariants_of,
)
from dstest.spec.wrong import remedy_for, require_taking, told

Args = tuple[Any, ...]

WHOLE: Final = "system"
"""Level of guards of a specification that is no part of another."""


class Step(msgspec.Struct, frozen=True):
    """An action with its arguments, in the order of its parameters."""

    action: str
    args: Args = ()

    def __str__(self) -> str:
        return f"{self.action}({', '.join(map(shown, self.args))})"


def truth(value: Any, what: str) -> bool:
    """The value, which is true or false. Raises ConfigError for anything else: what is only taken
    for true, as a generator is, holds whatever it was to say."""
    if value is True or value is False:
        return value
    raise ConfigError(
        f"{what} gave {shown(value)[:80]}, which is neither true nor false",
        remedy="return a bool, as in `bool(..)`, `all(..)`, `x == y`",
    )


class Guard(msgspec.Struct, frozen=True):
    """`level` is `system`, or `sub:NAME` for one of a part. `source` is the function as written."""

    name: str
    level: str
    holds: Callable[[Any, Args], bool]
    source: Callable[..., Any]

    def asked(self, state: Any, args: Args) -> bool:
        """Does it hold? Raises ConfigError where it gives neither true nor false."""
        return truth(self.holds(state, args), f"guard {self.label!r}")

    @property
    def label(self) -> str:
        """Unique in its action."""
        return self.name if self.level == WHOLE else f"{self.level}.{self.name}"


class Action(msgspec.Struct, frozen=True):
    """`choices` are all arguments that its domains allow in a state."""

    name: str
    params: tuple[str, ...]
    choices: Callable[[Any], Iterable[Args]]
    guards: tuple[Guard, ...]
    update: Callable[[Any, Args], State]
    weight: float
    doc: str
    sources: tuple[Callable[..., Any], ...]
    adversary: str = ""

    def enabled(self, state: State, args: Args) -> bool:
        """Do all of its guards hold? They are asked in their order, up to the first that does
        not: one may rely on those before it."""
        return all(guard.asked(state, args) for guard in self.guards)


class Invariant(msgspec.Struct, frozen=True):
    """`holds` is of a state; of kind `action` of (before, step, after)."""

    id: str
    text: str
    kind: Kind
    holds: Callable[..., bool]
    source: Callable[..., Any]

    def asked(self, *given: Any) -> bool:
        """Does it hold? Raises ConfigError where it gives neither true nor false."""
        return truth(self.holds(*given), f"invariant {self.id}")


class Model(msgspec.Struct, frozen=True):
    """`spec` is kept for its constants and texts."""

    name: str
    doc: str
    spec: Spec
    initial: tuple[Any, ...]
    actions: tuple[Action, ...]
    invariants: tuple[Invariant, ...]
    canonical: Callable[[Any], State]
    done: Callable[[Any], bool]

    def of_kind(self, *kinds: Kind) -> list[Invariant]:
        """The invariants of these kinds."""
        return [one for one in self.invariants if one.kind in kinds]

    def action(self, name: str) -> Action:
        """Raises ConfigError where there is none."""
        from dstest.core.near import meant

        found = next((one for one in self.actions if one.name == name), None)
        if found is None:
            raise ConfigError(
                f"{self.name} has no action {name!r}",
                remedy=meant(name, [one.name for one in self.actions]),
            )
        return found

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """All that can be done in a state, and the states that it leads to.

        Raises ConfigError where a guard, a domain or an update goes wrong, or gives what it must
        not.
        """
        kind = type(self.initial[0])
        try:
            for one in self.actions:
                guards, update = one.guards, one.update
                for args in one.choices(state):
                    for guard in guards:
                        held = guard.holds(state, args)
                        if held is not True:
                            truth(held, f"guard {guard.label!r} of {one.name}")
                            break
                    else:
                        step, after = Step(one.name, args), update(state, args)
                        if type(after) is not kind:
                            raise ConfigError(
                                f"{step} gave {shown(after)}, which is no {kind.__name__}",
                                remedy="an action returns the next state",
                            )
                        yield step, after
        except ConfigError:
            raise
        except Exception as error:
            raise self.gone_wrong(state, error) from None

    def gone_wrong(self, state: State, error: Exception) -> ConfigError:
        """What the model's own code raised, as an error of whoever wrote it."""
        return ConfigError(
            f"{self.name} goes wrong in {shown(state)}: {told(error)}",
            remedy=remedy_for(error, fields_of(state)),
        )


def shown(value: Any) -> str:
    """A value of a state or an argument, the same in each process: sets in order."""
    if isinstance(value, frozenset | set):
        return "{" + ", ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "(" + ", ".join(map(shown, value)) + ("," if len(value) == 1 else "") + ")"
    fields = fields_of(value)
    if fields is not None:
        inner = ", ".join(f"{name}={shown(one)}" for name, one in fields.items())
        return f"{type(value).__name__}({inner})"
    return repr(value)


def fields_of(value: Any) -> dict[str, Any] | None:
    """Name -> value of a dataclass, a struct or a named tuple; None for anything else."""
    names = getattr(value, "__dataclass_fields__", None)
    names = names or getattr(value, "__struct_fields__", None) or getattr(value, "_fields", None)
    if names is None or isinstance(value, type):
        return None
    return {name: getattr(value, name) for name in names}


def bound(spec: Spec, function: Callable[..., Any], params: tuple[str, ...], where: str) -> Any:
    """The function as one of (state, arguments), by the names of its parameters.

    Raises ConfigError for a name that is no parameter of the action.
    """
    places = {"self": "spec", "s": "s"} | {n: f"a[{i}]" for i, n in enumerate(params)}
    named = list(inspect.signature(function).parameters)
    if strange := [name for name in named if name not in places]:
        raise ConfigError(
            f"{where} asks for {', '.join(strange)}",
            remedy=f"self, s, and what its action names: {', '.join(params) or 'nothing'}",
        )
    call = f"lambda s, a: call({', '.join(f'{n}={places[n]}' for n in named)})"
    if named == list(places)[: len(named)]:
        call = f"lambda s, a: call({', '.join(places[n] for n in named)})"
    return eval(call, {"call": function, "spec": spec})


def guard_of(
    spec: Spec, given: DeclaredGuard, params: tuple[str, ...], of: str, level: str
) -> Guard:
    """A guard of the action `of`."""
    holds = bound(spec, given.holds, params, f"guard {given.name!r} of {of}")
    return Guard(given.name, level, holds, given.holds)


def in_order(found: Iterable[Any]) -> Iterable[Any]:
    """A set by the text of what it holds: its own order is another in each process, and a seed
    would walk other ways. That of whole numbers is not."""
    if isinstance(found, frozenset | set) and any(type(one) is not int for one in found):
        return sorted(found, key=shown)
    return found


def values_of(spec: Spec, domain: Any, where: str) -> Callable[[Any], Iterable[Any]]:
    """What a parameter may be in a state. Raises ConfigError for a domain that can be read once
    only, and for a fixed one that a constant given anew does not change."""
    if callable(domain):
        asked = bound(spec, domain, (), where)
        return lambda s: in_order(asked(s, ()))
    if not isinstance(domain, Collection):
        raise ConfigError(
            f"{where} is a {type(domain).__name__}, which is empty when it was read once",
            remedy="a tuple, a range, or a function of self and s",
        )
    for name, value in constants_of(type(spec)).items():
        if value is domain and name in vars(spec):
            raise ConfigError(
                f"{where} is {name} as the class has it, and another value was given",
                remedy=f"a function, so that it follows: lambda self: self.{name}",
            )
    fixed = tuple(in_order(domain))
    return lambda s: fixed


def choices_of(spec: Spec, domains: Mapping[str, Any], of: str) -> Callable[[Any], Iterable[Args]]:
    """All arguments, the last parameter changing fastest."""
    ways = [values_of(spec, d, f"parameter {n!r} of {of}") for n, d in domains.items()]
    if not ways:
        return lambda s: ((),)
    if len(ways) == 1:
        only = ways[0]
        return lambda s: ((value,) for value in only(s))
    return lambda s: itertools.product(*(way(s) for way in ways))


def _action(spec: Spec, given: DeclaredAction) -> Action:
    params = tuple(given.domains)
    where = f"action {given.name!r}"
    guards = tuple(guard_of(spec, one, params, where, WHOLE) for one in given.guards)
    return Action(
        given.name,
        params,
        choices_of(spec, given.domains, where),
        guards,
        bound(spec, given.update, params, where),
        given.weight,
        given.doc,
        (given.update,),
        given.adversary,
    )


def require_unique(names: Iterable[str], what: str) -> None:
    """Raises ConfigError for a name that is there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"{what} {name!r} is there twice", remedy="rename one of them")
        seen.add(name)


def invariant_models(spec: Spec) -> tuple[Invariant, ...]:
    """The invariants of a class, their functions bound to it."""
    found = []
    for one in invariants_of(spec):
        if one.kind not in KINDS:
            raise ConfigError(
                f"invariant {one.id} is of no kind {one.kind!r}", remedy=", ".join(KINDS)
            )
        holds = one.holds.__get__(spec)
        given = ("before", "step", "after") if one.kind == "action" else ("s",)
        require_taking(holds, given, f"invariant {one.id}, of kind {one.kind},")
        found.append(Invariant(one.id, one.text, one.kind, holds, one.holds))
    return tuple(found)


def model_of(spec: Spec) -> Model:
    """Raises ConfigError for what is no specification: no action, no initial state, a guard's name
    twice in an action, a state that is not frozen."""
    build = getattr(spec, "model", None)
    if build is not None:
        model: Model = build()
    else:
        actions = tuple(_action(spec, one) for one in actions_of(spec))
        model = finished(spec, actions, invariant_models(spec))
    return model


def finished(spec: Spec, actions: tuple[Action, ...], invariants: tuple[Invariant, ...]) -> Model:
    """With its initial states, and looked at."""
    name = type(spec).__name__
    if not actions:
        raise ConfigError(f"{name} has no action", remedy="mark methods with @action")
    for one in actions:
        require_unique((guard.label for guard in one.guards), f"{name}.{one.name}: guard")
    require_unique((one.id for one in invariants), f"{name}: invariant")
    for method, given in (("initial", ()), ("canonical", ("s",)), ("done", ("s",))):
        require_taking(getattr(spec, method), given, f"{method}() of {name}")
    try:
        starts = spec.initial()
        if starts is None or fields_of(starts) is not None:
            raise ConfigError(
                f"initial() of {name} {'gives nothing' if starts is None else 'returns a state'}",
                remedy="it yields states: `yield` in the place of `return`",
            )
        initial = tuple(starts)
        for state in initial:
            hash(state)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{name} cannot begin: {told(error)}",
            remedy=f"initial() yields states that are frozen and can be hashed; "
            f"{remedy_for(error)}",
        ) from None
    if not initial:
        raise ConfigError(f"{name} has no initial state", remedy="initial() yields at least one")
    doc = inspect.cleandoc(type(spec).__doc__ or "")
    done = _strict(spec.done, f"done() of {name}")
    return Model(name, doc, spec, initial, actions, invariants, spec.canonical, done)


def _strict(asked: Callable[[Any], Any], what: str) -> Callable[[Any], bool]:
    return lambda s: truth(asked(s), what)
