"""Which capabilities does a class have, and is a value of the type that was declared for it?

A capability is a protocol. A class has it by having its methods and attributes, whatever its bases
are; naming the protocol among them is a claim, and gives the class nothing. Classes are asked, so
before anything runs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

M = TypeVar("M", bound=Callable[..., Any])


def required(method: M) -> M:
    """Marks a method of a base of plug-ins that each of them has to write."""
    vars(method)["required"] = True
    return method


def unwritten(plugin: object, base: type) -> list[str]:
    """What the plug-in has to say, and does not: attributes that the base only annotates, without
    a value, and methods of it that are `required`."""
    names = [
        *(name for name in inspect.get_annotations(base) if name not in vars(base)),
        *(name for name, found in vars(base).items() if getattr(found, "required", False)),
    ]
    here = {name: getattr(plugin, name, None) for name in names}
    return [name for name, f in here.items() if f is None or getattr(f, "required", False)]


def is_protocol(kind: Any) -> bool:
    """Is it a protocol itself, and not a class that has one among its bases?"""
    return isinstance(kind, type) and bool(vars(kind).get("_is_protocol", False))


@cache
def members_of(capability: type) -> tuple[str, ...]:
    """Names of the methods and attributes that a protocol asks for, sorted."""
    asked: set[str] = set()
    for base in capability.__mro__:
        if is_protocol(base):
            asked |= {*vars(base), *inspect.get_annotations(base)}
    return tuple(sorted(name for name in asked if not name.startswith("_")))


def _attribute(what: object, name: str) -> Any:
    """The member as it stands in the object or its class, None where only a protocol has it."""
    if not isinstance(what, type) and name in getattr(what, "__dict__", {}):
        return vars(what)[name]
    kind = what if isinstance(what, type) else type(what)
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    return None if owner is None or is_protocol(owner) else vars(owner)[name]


def missing(what: object, capability: type) -> list[str]:
    """Members of the capability that a class, or an object, does not have.

    An attribute needs a value in the class, or a property there.
    """
    return [name for name in members_of(capability) if _attribute(what, name) is None]


def implements(what: object, capability: type) -> bool:
    """Does a class, or an object, have all members of the capability?"""
    return not missing(what, capability)


def broken_claims(kind: type) -> dict[type, list[str]]:
    """Protocols among the bases of a class, each with what the class does not have of it."""
    claimed = [base for base in kind.__mro__[1:] if is_protocol(base)]
    return {base: lacking for base in claimed if (lacking := missing(kind, base))}


def fits(value: object, wanted: Any) -> bool:
    """Is the value of this type, as of `typing.get_type_hints`, and what it holds of the types of
    its arguments?"""
    origin, args = get_origin(wanted) or wanted, get_args(wanted)
    if wanted is Any:
        return True
    if is_protocol(wanted):
        return implements(value, wanted) and not isinstance(value, type)
    if origin is Literal:
        return value in args
    if origin is UnionType:
        return any(fits(value, kind) for kind in args)
    if origin in (int, float):
        return isinstance(value, int | origin) and not isinstance(value, bool)
    if origin is Mapping and isinstance(value, Mapping) and args:
        return all(fits(key, args[0]) and fits(one, args[1]) for key, one in value.items())
    if origin not in (tuple, frozenset) or not args:
        return isinstance(value, origin)
    if isinstance(value, str) or not isinstance(value, Set | Sequence):
        return False
    alike = isinstance(value, Set) is (origin is frozenset)
    return alike and all(fits(one, args[0]) for one in value)


def misfit(
    holder: object, kind: type, besides: Set[str] = frozenset()
) -> tuple[str, object, Any] | None:
    """The first attribute of `kind` that is not of its type: (name, value, type), and `name.field`
    of one within a struct; None where all are. Those `besides` are not looked at."""
    for name, wanted in get_type_hints(kind).items():
        value = getattr(holder, name, None)
        if name in besides:
            continue
        if not fits(value, wanted):
            return name, value, wanted
        struct = isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)
        if struct and (inner := misfit(value, wanted)):
            field, odd, of_field = inner
            return f"{name}.{field}", odd, of_field
    return None


def named(kind: Any) -> str:
    """A type as an author writes it: `tuple[str, ...]`, `float | None`."""
    plain = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
    return re.sub(r"\b\w+\.(?=\w)", "", plain)


def wrong_type(value: Any, kind: type[msgspec.Struct]) -> str:
    """What is wrong with a value that ought to be such a struct, in all its fields; empty: nothing.

    Whoever makes a struct may put anything into it.
    """
    if not isinstance(value, kind):
        return f"{value!r:.200}, which is no {kind.__name__}"
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes,))
        msgspec.convert(plain, kind, builtin_types=(bytes,))
    except (msgspec.ValidationError, TypeError) as error:
        return f"a {kind.__name__} in which {error}: {value!r:.200}"
    return ""
