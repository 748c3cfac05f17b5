"""A specification made ready to be executed: `Model`, with all functions of (state, arguments);
`FrozenDict`, a mapping that can be part of a state; and what an execution counts and may spend: how
often each invariant was evaluated (`Count`), time and memory (`Watch`), so that it comes back with
what it has when either is used up.
"""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    ValuesView,
)
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, overload

import msgspec

from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.spec.declare import (
    KINDS,
    DeclaredAction,
    DeclaredGuard,
    Kind,
    Spec,
    State,
    actions_of,
    constants_of,
    error_text,
    invariants_of,
    remedy_for,
    require_taking,
)

Args = tuple[Any, ...]

WHOLE: Final = "system"
"""Level of guards of a specification that is no part of another."""

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V", bound=Hashable)
_T = TypeVar("_T")

WITHIN_S: Final = 600.0

MEMORY_MB: Final = 4096
"""Of the whole process, resident."""

_EVERY: Final = 64
"""Steps between two looks at the clock."""

_TELL_S: Final = 10.0
"""Between two lines of progress."""


class Step(msgspec.Struct, frozen=True):
    """An action with its arguments, in the order of its parameters."""

    action: str
    args: Args = ()

    def __str__(self) -> str:
        return f"{self.action}({', '.join(map(show, self.args))})"


def truth(value: Any, what: str) -> bool:
    """The value, which is true or false. Raises ConfigError for anything else: what is only taken
    for true, as a generator is, holds whatever it was to say."""
    if value is True or value is False:
        return value
    raise ConfigError(
        f"{what} gave {show(value)[:80]}, which is neither true nor false",
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
    """`holds` is of a state; of kind `action` of (before, step, after). `part` is that of a system
    whose state `source` is of, empty where it is the whole."""

    id: str
    text: str
    kind: Kind
    holds: Callable[..., bool]
    source: Callable[..., Any]
    part: str = ""

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
                                f"{step} gave {show(after)}, which is no {kind.__name__}",
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
            f"{self.name} goes wrong in {show(state)}: {error_text(error)}",
            remedy=remedy_for(error, fields_of(state)),
        )


def show(value: Any) -> str:
    """A value of a state or an argument, the same in each process: sets in order."""
    if isinstance(value, frozenset | set):
        return "{" + ", ".join(sorted(map(show, value))) + "}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return "(" + ", ".join(map(show, value)) + ("," if len(value) == 1 else "") + ")"
    fields = fields_of(value)
    if fields is not None:
        inner = ", ".join(f"{name}={show(one)}" for name, one in fields.items())
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
        return sorted(found, key=show)
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
        model = ready_model(spec, actions, invariant_models(spec))
    return model


def ready_model(
    spec: Spec, actions: tuple[Action, ...], invariants: tuple[Invariant, ...]
) -> Model:
    """With its initial states, and looked at."""
    name = type(spec).__name__
    if not actions and type(spec).sampled is Spec.sampled:
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
            f"{name} cannot begin: {error_text(error)}",
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


class FrozenDict(Mapping[_K, _V], Generic[_K, _V]):
    """Keys and values can be hashed. `with_` and `without` give another one; what it costs to hash
    that is the cost of the items that differ."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[_K, _V] | Iterable[tuple[_K, _V]] = ()) -> None:
        self._items: dict[_K, _V] = dict(items)
        self._hash = 0
        for item in self._items.items():
            self._hash ^= hash(item)

    def __getitem__(self, key: _K) -> _V:
        return self._items[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def items(self) -> ItemsView[_K, _V]:
        return self._items.items()

    def values(self) -> ValuesView[_V]:
        return self._items.values()

    @overload
    def get(self, key: _K, /) -> _V | None: ...
    @overload
    def get(self, key: _K, /, default: _V | _T) -> _V | _T: ...
    def get(self, key: _K, /, default: Any = None) -> Any:
        return self._items.get(key, default)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrozenDict):
            return NotImplemented
        return self._hash == other._hash and self._items == other._items

    def __repr__(self) -> str:
        pairs = sorted((show(key), show(value)) for key, value in self._items.items())
        return "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"

    def with_(self, changes: Mapping[_K, _V]) -> FrozenDict[_K, _V]:
        """With these items, instead of those that had their keys."""
        made = self._copied()
        for key, value in changes.items():
            if key in made._items:
                made._hash ^= hash((key, made._items[key]))
            made._items[key] = value
            made._hash ^= hash((key, value))
        return made

    def without(self, key: _K) -> FrozenDict[_K, _V]:
        """Without one that is there. Raises KeyError."""
        made = self._copied()
        made._hash ^= hash((key, made._items.pop(key)))
        return made

    def _copied(self) -> FrozenDict[_K, _V]:
        made: FrozenDict[_K, _V] = FrozenDict()
        made._items, made._hash = dict(self._items), self._hash
        return made


class Count(msgspec.Struct):
    """Evaluations of one invariant."""

    passed: int = 0
    failed: int = 0


def new_counts(invariants: Iterable[Invariant]) -> dict[str, Count]:
    """Id -> a count that begins at nothing."""
    return {one.id: Count() for one in invariants}


def vacuous(counts: dict[str, Count]) -> list[str]:
    """Ids of what was never evaluated."""
    return [id_ for id_, count in counts.items() if count.passed + count.failed == 0]


class Spent(Exception):
    """Time or memory is used up; its text says which, and how to allow more."""


class Watch:
    """`within_s` counts from when it is made. `tell` is given a line of progress now and then.

    What runs inside one guard, update or mapping is not interrupted.
    """

    def __init__(
        self,
        within_s: float = WITHIN_S,
        memory_mb: int = MEMORY_MB,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self._within_s, self._memory_mb, self._tell = within_s, memory_mb, tell
        self._began_ns = self._told_ns = monotonic_ns()
        self._looks = 0
        self.doing = ""
        """In words, for progress."""

    def look(self) -> None:
        """Raises Spent. Cheap: most calls only count."""
        self._looks += 1
        if self._looks % _EVERY:
            return
        now_ns = monotonic_ns()
        took_s = (now_ns - self._began_ns) / 1e9
        if took_s > self._within_s:
            raise Spent(f"not decided within {self._within_s:g} s: allow more (--within)")
        used_mb = resident_bytes() >> 20
        if used_mb > self._memory_mb:
            raise Spent(f"not decided in {self._memory_mb} MB of memory: allow more (--memory)")
        if self._tell is not None and now_ns - self._told_ns > _TELL_S * 1e9:
            self._told_ns = now_ns
            self._tell(f"{took_s:5.0f} s, {used_mb} MB: {self.doing}")


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
