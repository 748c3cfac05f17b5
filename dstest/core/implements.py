"""Does a class have the methods of a capability? Asked of classes, so before anything runs.

A capability is a protocol. A class has it by having its methods and attributes, whatever its bases
are; naming the protocol among them is a claim, and gives the class nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any


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


def _found(what: object, name: str) -> Any:
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
    return [name for name in members_of(capability) if _found(what, name) is None]


def implements(what: object, capability: type) -> bool:
    """Does a class, or an object, have all members of the capability?"""
    return not missing(what, capability)


def unfit(kind: type, capability: type) -> list[str]:
    """As `missing`, and with the reason those methods that cannot be called as they would be."""
    said = []
    for name in members_of(capability):
        found, asked = _found(kind, name), inspect.getattr_static(capability, name, None)
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
