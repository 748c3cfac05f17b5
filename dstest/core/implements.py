"""Does a class have the methods of a capability, and an object attributes of the declared types?

A capability is a protocol. A class has it by having its methods and attributes, whatever its bases
are; naming the protocol among them is a claim, and gives the class nothing. Classes are asked, so
before anything runs. Types are looked at as far as a wrong value would be noticed much later, and
far away.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from dstest.core.errors import ConfigError


def is_protocol(kind: type) -> bool:
    """Is it a protocol itself, and not a class that has one among its bases?"""
    return bool(vars(kind).get("_is_protocol", False))


def protocols_of(module: ModuleType) -> list[type]:
    """The protocols that a module defines, in its order."""
    return [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and is_protocol(kind)
    ]


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


def unfit(kind: type, capability: type) -> list[str]:
    """As `missing`, and with the reason those methods that cannot be called as they would be."""
    said = []
    for name in members_of(capability):
        found, asked = _attribute(kind, name), inspect.getattr_static(capability, name, None)
        if found is None:
            said.append(name)
        elif inspect.isfunction(asked) and (wrong := _uncallable(found, asked)):
            said.append(f"{name} {wrong}")
    return said


def _uncallable(found: Any, asked: Callable[..., Any]) -> str:
    """Why a method cannot be called as a protocol's is; empty where it can, or nobody can tell."""
    bound = isinstance(found, staticmethod)
    method = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    if not callable(method) and not isinstance(found, property):
        return "(no method)"
    return _signature_mismatch(method, asked, bound) if inspect.isfunction(method) else ""


def _may_be_async(asked: Callable[..., Any]) -> bool:
    """Is what it returns awaited?"""
    said = inspect.signature(asked).return_annotation  # text, as these modules have annotations
    return inspect.iscoroutinefunction(asked) or str(said).startswith("Awaitable[")


@cache
def _signature_mismatch(method: Callable[..., Any], asked: Callable[..., Any], bound: bool) -> str:
    """Why a function cannot be called as the protocol's can; `bound`: without its first place."""
    if inspect.iscoroutinefunction(method) and not _may_be_async(asked):
        return "(must not be async)"
    wanted = list(inspect.signature(asked).parameters.values())[bound:]
    optional = [p for p in wanted if p.default is not p.empty]
    for call in (wanted, [p for p in wanted if p not in optional]):
        words = {p.name: p for p in call if p.kind is p.KEYWORD_ONLY}
        places = [p for p in call if p.name not in words]
        try:
            inspect.signature(method).bind(*places, **words)
        except TypeError:
            return f"(must take {inspect.signature(asked)})".replace("(self, ", "(")
    return ""


def broken_claims(kind: type) -> dict[type, list[str]]:
    """Protocols among the bases of a class, each with what the class does not have of it."""
    claimed = [base for base in kind.__mro__[1:] if is_protocol(base) and members_of(base)]
    return {base: wrong for base in claimed if (wrong := unfit(kind, base))}


_SHOWN_CHARS: Final = 200


def require_attributes(what: object, wanted: Mapping[str, Any], of: str) -> None:
    """Raises ConfigError for an attribute that is not of its type; `of` is whose it is.

    `wanted` are types by name, as of `typing.get_type_hints`.
    """
    for name, kind in wanted.items():
        value = getattr(what, name, None)
        protocol = _protocol_of(value, kind)
        if protocol is not None:
            _require_protocol(value, protocol, f"{of}: its {name}")
        elif not fits(value, kind):
            raise ConfigError(
                f"{of}: its {name} is {value!r}"[:_SHOWN_CHARS], remedy=f"{name} is {_words(kind)}"
            )


def _protocol_of(value: object, wanted: Any) -> type | None:
    """The one protocol that a value other than None has to have; None where it may be another
    thing as well."""
    kinds = get_args(wanted) if get_origin(wanted) is UnionType else (wanted,)
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    one = len(kinds) == 1 and isinstance(kinds[0], type) and is_protocol(kinds[0])
    return kinds[0] if one and (value is not None or wanted is kinds[0]) else None


def _require_protocol(value: object, protocol: type, of: str) -> None:
    """What is there is an object, with all members, and attributes of their types."""
    name = protocol.__name__
    if isinstance(value, type):
        raise ConfigError(
            f"{of} is the class {value.__name__}, not an object of it",
            remedy=f"`{value.__name__}()`",
        )
    lacking = missing(value, protocol)
    lacking += [said for said in unfit(type(value), protocol) if " " in said]
    if lacking:
        raise ConfigError(
            f"{of} is no {name}: it lacks {', '.join(lacking)}",
            remedy=f"dstest/core/protocols says what a {name} has",
        )
    # Modules that would import each other in a circle name classes as their package does.
    package = vars(sys.modules[protocol.__module__.rpartition(".")[0]])
    require_attributes(value, get_type_hints(protocol, localns=package), of)


def fits(value: object, wanted: Any) -> bool:
    """Is the value of this type, and what it holds of the types of its arguments?"""
    origin, args = get_origin(wanted) or wanted, get_args(wanted)
    if wanted is Any:
        return True
    if origin is Literal:
        return value in args
    if origin is UnionType:
        return any(fits(value, kind) for kind in args)
    if origin in (int, float):
        return isinstance(value, int | origin) and not isinstance(value, bool)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            fits(part, kind) for row in value.items() for part, kind in zip(row, args, strict=False)
        )
    if origin not in (tuple, frozenset) or not args:
        return isinstance(value, origin)
    if isinstance(value, str) or not isinstance(value, Set if origin is frozenset else Sequence):
        return False
    return all(fits(one, args[0]) for one in value)


def _words(wanted: Any) -> str:
    origin, args = get_origin(wanted), get_args(wanted)
    if origin is Literal:
        return f"one of {', '.join(repr(value) for value in args)}"
    if origin is UnionType:
        return " or ".join(map(_words, args))
    if origin is Mapping:
        return f"a mapping of texts to {_many(args[1])}"
    if origin in (tuple, frozenset):
        return f"a {origin.__name__} of {_many(args[0])}"
    return _one(wanted)


def _one(kind: type) -> str:
    plain = {str: "text", int: "a whole number", float: "a number", NoneType: "None"}
    return plain.get(kind, f"a {kind.__name__}")


def _many(kind: Any) -> str:
    if kind is Any:
        return "anything"
    plain = {str: "texts", int: "whole numbers", type: "classes"}
    known = plain.get(kind)
    return known or (_words(kind) if get_origin(kind) else f"{kind.__name__} objects")
