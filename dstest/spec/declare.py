"""How a specification is written: a class whose methods are actions with named guards, and
invariants.

    class Mutex(Spec):
        "One lock, taken by one process at a time."

        processes = (0, 1)

        def initial(self):
            yield State(holder=None)

        @action(process=lambda self: self.processes)
        @when("free", lambda s: s.holder is None)
        def enter(self, s, process):
            return replace(s, holder=process)

        @invariant("MX1", "at most one process holds the lock")
        def exclusion(self, s):
            ...

`s` is the state, `self` the specification with its constants; whatever else a guard, a domain or an
update names is a parameter of its action. A state is frozen and can be hashed. An action's
parameters say everything that is open about it, so an action with its arguments has one next state.
Source: Lamport, "Specifying Systems" (2002), chapters 2 and 5.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Hashable, Iterable, Mapping
from difflib import get_close_matches
from types import FrameType, ModuleType
from typing import Any, ClassVar, Final, Literal, TypeVar

import msgspec

from dstest.core.errors import ConfigError, DstestError
from dstest.core.near import meant

State = Hashable

Kind = Literal["state", "action", "liveness", "sometimes"]

KINDS: Final[dict[Kind, str]] = {
    "state": "holds in each state that is reached",
    "action": "holds of each step: (before, action, after)",
    "liveness": "from each state that is reached, one in which it holds can be reached",
    "sometimes": "holds in at least one state that is reached",
}

ADVERSARIES: Final = {
    "duplicate": "what was sent last is sent once more",
    "stale": "what was sent before, and answered, is sent again after other requests",
    "out-of-order": "a request is sent before one that comes first",
    "malformed": "what is sent is no request",
    "crash": "a client ends in the middle of a request",
}
"""What a client does that keeps to no rule."""

_Function = TypeVar("_Function", bound=Callable[..., Any])

_READ_AS: Final = {
    "spec_action": "@action",
    "spec_invariant": "@invariant",
    "spec_maps": "@maps",
}
"""Marks, of which a method has one, and how each is written."""

_GUARDS: Final = "spec_guards"

_NAMES: Final = (frozenset, set, tuple, list)

_SETTINGS: Final[dict[str, tuple[type, ...]]] = {
    "ignores": _NAMES,
    "hidden": _NAMES,
    "per_key": (bool,),
    "server_log": (str,),
    "crash": (str,),
    "lane": (str,),
    "for_logs": (Mapping,),
}
"""Attributes of `Spec` that say how it is used, and what each may be."""

_OURS: Final = "dstest"
_LIKE_A_USERS: Final = ("dstest.spec.shipped", "dstest.spec.consensus")
_UNKNOWN: Final = re.compile(r"unexpected keyword argument '(\w+)'")
_GUARD: Final = "a guard that must hold first stands above those that rely on it"


class DeclaredGuard(msgspec.Struct, frozen=True):
    """A condition without which its action cannot be taken."""

    name: str
    holds: Callable[..., Any]


class DeclaredAction(msgspec.Struct, frozen=True):
    """As it stands in a class: `domains` are per parameter what it may be, `update` gives the next
    state."""

    name: str
    domains: dict[str, Any]
    guards: tuple[DeclaredGuard, ...]
    update: Callable[..., Any]
    weight: float
    doc: str
    adversary: str = ""


class DeclaredInvariant(msgspec.Struct, frozen=True):
    """A statement about states or steps, by an id that stays when its words are changed."""

    id: str
    text: str
    kind: Kind
    holds: Callable[..., Any]


def when(name: str, holds: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """A guard of the action below: a function of what it names, such as `lambda s, value: ...`.

    The name is one that is unique among the guards of the action.
    """

    def mark(function: _Function) -> _Function:
        guards = (DeclaredGuard(name, holds), *vars(function).get("spec_guards", ()))
        vars(function)["spec_guards"] = guards
        return function

    return mark


def action(
    *, weight: float = 1.0, adversary: str = "", **domains: Any
) -> Callable[[_Function], _Function]:
    """The method is an action, and gives the next state. It stands above its guards.

    `domains` are its parameters: what each may be, an iterable or a function of `self` and `s`.
    `weight` is how often a random walk takes it, compared with others that are enabled. `adversary`
    is what a client does there that keeps to no rule, one of `ADVERSARIES`; empty for all others.
    Raises ConfigError for another word.
    """
    if adversary and adversary not in ADVERSARIES:
        raise ConfigError(
            f"no client does {adversary!r}", remedy=meant(adversary, sorted(ADVERSARIES))
        )

    def mark(function: _Function) -> _Function:
        marked_once(function, "@action")
        vars(function)["spec_action"] = (domains, weight, adversary)
        return function

    return mark


def invariant(id: str, text: str, kind: Kind = "state") -> Callable[[_Function], _Function]:
    """The method is a statement, true or false of `s`; one of kind `action` is of `before`, `step`
    (a `Step`: action and arguments) and `after`."""

    def mark(function: _Function) -> _Function:
        marked_once(function, "@invariant")
        vars(function)["spec_invariant"] = (id, text, kind)
        return function

    return mark


def marked_once(function: Callable[..., Any], written: str) -> None:
    """Raises ConfigError for a method that has such a mark, or another one: of two, one would be
    gone without a word."""
    there = [text for mark, text in _READ_AS.items() if mark in vars(function)]
    if there:
        raise ConfigError(
            f"{_called(function)} is marked with {there[0]} and {written}",
            remedy="one of them above each method",
        )


def _called(function: Callable[..., Any]) -> str:
    return ".".join(function.__qualname__.replace("<locals>.", "").split(".")[-2:])


def is_marked(value: Any) -> bool:
    """Is it an action, an invariant, a mapping or guarded, whatever it is wrapped in?"""
    layers = (value, *(getattr(value, n, None) for n in ("__func__", "__wrapped__", "fget")))
    names = {name for one in layers for name in getattr(one, "__dict__", ())}
    return bool(names & {*_READ_AS, _GUARDS})


def _require_read(where: str, value: Any) -> None:
    """Raises ConfigError for what is marked and would not be read: no plain method, or guards of
    what is no action."""
    if not is_marked(value):
        return
    if not inspect.isfunction(value):
        raise ConfigError(
            f"{where} is a {type(value).__name__}, which is no action and no invariant",
            remedy="@action, @invariant or @maps above a plain method, nothing between",
        )
    if _GUARDS in vars(value) and "spec_action" not in vars(value):
        is_what = next((text for mark, text in _READ_AS.items() if mark in vars(value)), None)
        raise ConfigError(
            f"{where} has guards (@when) and is no action"
            + (f", but marked with {is_what}" if is_what else ""),
            remedy="@action() above the guards"
            if is_what is None
            else "guards are of actions: ask in the method itself",
        )


class _Names(dict[str, Any]):
    """What a class body names: an action or an invariant of a name that another takes would be
    gone without a word."""

    def __setitem__(self, name: str, value: Any) -> None:
        if is_marked(self.get(name)):
            raise ConfigError(f"{name} is defined twice", remedy="rename one of the methods")
        super().__setitem__(name, value)


class _SpecType(type):
    """Looks at a class where it is made. Raises ConfigError for an action or invariant that would
    not be seen: what is no plain method, or was marked in a class above and is not here."""

    @classmethod
    def __prepare__(cls, name: str, bases: tuple[type, ...], /, **_: Any) -> _Names:
        return _Names()

    def __new__(cls, name: str, bases: tuple[type, ...], names: dict[str, Any], **more: Any) -> Any:
        made = super().__new__(cls, name, bases, dict(names), **more)
        mixed_in = [b for b in made.__mro__[1:-1] if not isinstance(b, _SpecType)]
        for base in reversed(mixed_in):
            for attribute, value in vars(base).items():
                _require_read(f"{base.__name__}.{attribute}, of {name},", value)
        for attribute, value in names.items():
            _require_read(f"{name}.{attribute}", value)
            _require_free(made, attribute, value)
            above = [base for base in made.__mro__[1:] if is_marked(vars(base).get(attribute))]
            if above and not is_marked(value):
                raise ConfigError(
                    f"{name}.{attribute} takes the place of one of {above[0].__name__}, and is"
                    " not marked",
                    remedy="mark it as that one is, or call it otherwise",
                )
            if made.__mro__[1:-1]:
                _require_meant(made, attribute, value)
        return made


def _require_free(made: type, attribute: str, value: Any) -> None:
    """Raises ConfigError for an action or invariant under a name that any specification has for
    something else."""
    home = __name__.rpartition(".")[0]
    bases = [one for one in made.__mro__[1:-1] if one.__module__ in (__name__, f"{home}.compose")]
    if is_marked(value) and any(attribute in vars(one) for one in bases):
        raise ConfigError(
            f"{made.__name__}.{attribute} is an action or an invariant, and `{attribute}` is what"
            f" every {bases[0].__name__} has under that name",
            remedy=f"call the method otherwise, as in {attribute}_it",
        )


def _require_meant(made: type, attribute: str, value: Any) -> None:
    """Raises ConfigError for a setting that holds what it cannot be, and for what is near the name
    of one and could be it: it would be a constant that nothing reads."""
    where = f"{made.__name__}.{attribute}"
    if attribute in _SETTINGS:
        if not isinstance(value, _SETTINGS[attribute]):
            kind = "set of names" if _SETTINGS[attribute] is _NAMES else None
            kind = kind or _SETTINGS[attribute][0].__name__
            raise ConfigError(f"{where} is {value!r}, which is no {kind}", remedy=f"a {kind}")
        return
    if attribute.startswith("_") or callable(value):
        return
    for near in get_close_matches(attribute, _SETTINGS, n=1, cutoff=0.8):
        if isinstance(value, _SETTINGS[near]):
            raise ConfigError(
                f"{where} says nothing: it is no setting of a specification",
                remedy=f"did you mean {near}? A constant needs a name that is less like it",
            )


class Spec(metaclass=_SpecType):
    """A specification. Its constants are the class's plain attributes; given here they are others.

    Raises ConfigError for a constant that the class does not have.
    """

    ignores: ClassVar[frozenset[str]] = frozenset()
    """Kinds of operations or events that it has no action for, and that a comparison leaves out."""

    per_key: ClassVar[bool] = False
    """Is it of one key, where records of others are histories of their own?"""

    hidden: ClassVar[frozenset[str]] = frozenset()
    """Actions that no record stands for: they may have happened between any two."""

    server_log: ClassVar[str] = ""
    """Name of the file that each server of a run writes, where runs are held to it by what servers
    have done: then a run is the logs of all of them, merged (`dstest.spec.merge`)."""

    for_logs: ClassVar[Mapping[str, Any]] = {}
    """Constants that logs are held to it with, where exploring it wants others."""

    crash: ClassVar[str] = ""
    """The action that a gap in a log stands for, with all arguments that its domains allow."""

    lane: ClassVar[str] = ""
    """The parameter that says who acts, for charts. Empty: the first one, where all actions that
    have any have that one first."""

    def __init__(self, **constants: Any) -> None:
        known = constants_of(type(self))
        for name, value in constants.items():
            if name not in known:
                raise ConfigError(
                    f"{type(self).__name__} has no constant {name!r}", remedy=meant(name, known)
                )
            setattr(self, name, value)

    @staticmethod
    def offered_by(module: ModuleType) -> dict[str, Any]:
        """By group, the plug-ins that a file with specifications is (`dstest.core.registry`)."""
        from dstest.spec.checker import offered_by

        return offered_by(module)

    def initial(self) -> Iterable[State]:
        """The states in which it may begin."""
        raise NotImplementedError(f"{type(self).__name__} does not say in what states it begins")

    def sampled(self, before: Any, sample: Mapping[str, Any]) -> State:
        """The state after what the members of a cluster said of themselves at one time: by name or
        address the object that each answered, None for who did not. `before` is the state after the
        sample before, an initial one for the first."""
        raise ConfigError(
            f"{type(self).__name__} does not say what state a sample is",
            remedy="def sampled(self, before, sample): ...",
        )

    def canonical(self, s: Any) -> State:
        """One state for all that differ in names only, such as those of equal processes."""
        return s  # type: ignore[no-any-return]

    def done(self, s: Any) -> bool:
        """May it stay in this state for ever? Where not, a state without an enabled action is a
        deadlock."""
        return False


def constants_of(cls: type[Spec]) -> dict[str, Any]:
    """Name -> value as the class has it. What it consists of is none."""
    found = {
        name: value
        for base in reversed(cls.__mro__)
        if issubclass(base, Spec) and base is not Spec
        for name, value in vars(base).items()
        if not name.startswith("_")
        and not callable(value)
        and not isinstance(value, classmethod | staticmethod | property)
        and not hasattr(Spec, name)
    }
    return {name: value for name, value in found.items() if not _are_parts(value)}


def _are_parts(value: Any) -> bool:
    return isinstance(value, Mapping) and any(isinstance(one, Spec) for one in value.values())


def _methods(spec: Spec) -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for base in reversed(type(spec).__mro__):
        found.update({n: f for n, f in vars(base).items() if inspect.isfunction(f)})
    return found


def actions_of(spec: Spec) -> list[DeclaredAction]:
    """In the order in which they are written."""
    return [
        DeclaredAction(
            name,
            vars(function)["spec_action"][0],
            vars(function).get("spec_guards", ()),
            function,
            vars(function)["spec_action"][1],
            inspect.getdoc(function) or "",
            vars(function)["spec_action"][2],
        )
        for name, function in _methods(spec).items()
        if "spec_action" in vars(function)
    ]


def invariants_of(spec: Spec) -> list[DeclaredInvariant]:
    """In the order in which they are written."""
    return [
        DeclaredInvariant(id_, text, kind, function)
        for function in _methods(spec).values()
        if "spec_invariant" in vars(function)
        for id_, text, kind in [vars(function)["spec_invariant"]]
    ]


def error_text(error: BaseException) -> str:
    """`FILE, line N: TypeError: ..`: the deepest line that is neither ours nor of Python's own
    library, where there is one."""
    what = error.message if isinstance(error, DstestError) else f"{type(error).__name__}: {error}"
    place = place_of(error)
    return f"{place}: {what}" if place else what


def place_of(error: BaseException) -> str:
    """`FILE, line N`, empty where there is none."""
    frames = list(traceback.walk_tb(error.__traceback__))
    theirs = [(frame, line) for frame, line in frames if _is_users(frame)]
    return f"{theirs[-1][0].f_code.co_filename}, line {theirs[-1][1]}" if theirs else ""


def _is_users(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    if frame.f_code.co_filename.startswith("<"):
        return False
    root = name.partition(".")[0]
    ours = root == _OURS and not name.startswith(_LIKE_A_USERS)
    return not ours and root not in sys.stdlib_module_names


def remedy_for(error: BaseException, fields: dict[str, Any] | None = None) -> str:
    """What helps; `fields` are those of the state that was at hand."""
    if isinstance(error, DstestError):
        return error.remedy or "mend that line"
    text = str(error)
    unknown = _UNKNOWN.search(text)
    if unknown is not None and fields:
        return f"its fields: {meant(unknown[1], fields)}"
    match error:
        case dataclasses.FrozenInstanceError():
            return "a state is frozen: return replace(s, field=..)"
        case AttributeError() if error.obj is None:
            return f"it may be None there: {_GUARD}"
        case AttributeError(name=str(name)):
            return _named(name, error.obj, fields)
        case NameError(name=str(name)):
            return f"define {name}, or mend its name"
        case TypeError() if "unhashable" in text:
            return "tuples and frozensets in the place of lists, sets and dicts"
        case TypeError() if "argument" in text:
            return "mend the call in that line, or the parameters of what it calls"
        case IndexError() | KeyError() | ZeroDivisionError() | TypeError() | ValueError():
            return _GUARD
    return "mend that line: what is not possible in a state is a guard's to say"


def _named(name: str, of: Any, fields: dict[str, Any] | None) -> str:
    there = [one for one in dir(of) if not one.startswith("_")]
    if fields and name not in fields and set(fields) <= set(there):
        there = list(fields)
    return f"{type(of).__name__} has {meant(name, there).replace('one of ', '', 1)}"


def require_taking(function: Callable[..., Any], given: tuple[str, ...], what: str) -> None:
    """Raises ConfigError, at the line of the function, where it does not take what it is given."""
    signature = inspect.signature(function)
    try:
        signature.bind(*given)
    except TypeError:
        code = getattr(inspect.unwrap(function), "__code__", None)
        place = f"{code.co_filename}, line {code.co_firstlineno}: " if code else ""
        raise ConfigError(
            f"{place}{what} takes {signature}, and is given {', '.join(given) or 'nothing'}",
            remedy=f"({', '.join(given)}), after self where it is a method",
        ) from None
