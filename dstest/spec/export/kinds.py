"""What a value is, as other languages want to know: read off annotations and values."""

from __future__ import annotations

import types
import typing
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError


class Kind(msgspec.Struct, frozen=True):
    """`name` is int, bool, str, list, set, state, or nothing for what an empty list or set holds.
    `of` is what a list or set holds."""

    name: str
    of: Kind | None = None

    def __str__(self) -> str:
        return self.name if self.of is None else f"{self.name} of {self.of}"


INT: Final = Kind("int")
BOOL: Final = Kind("bool")
STR: Final = Kind("str")
STATE: Final = Kind("state")
NOTHING: Final = Kind("nothing")

_PLAIN: Final = {int: INT, bool: BOOL, str: STR}


def list_of(kind: Kind) -> Kind:
    """A sequence."""
    return Kind("list", kind)


def set_of(kind: Kind) -> Kind:
    """A finite set."""
    return Kind("set", kind)


def alike(a: Kind, b: Kind) -> bool:
    """May one stand where the other does? What an empty list holds may be anything."""
    if NOTHING in (a, b):
        return True
    if a.name != b.name:
        return False
    return a.of is None or b.of is None or alike(a.of, b.of)


def either(a: Kind, b: Kind) -> Kind:
    """Of two that are alike the one that knows more: an empty list is a list of anything."""
    if a == NOTHING:
        return b
    if a.of is not None and b.of is not None:
        return Kind(a.name, either(a.of, b.of))
    return a


def kind_of_hint(hint: Any, where: str) -> Kind:
    """Of an annotation. Raises ConfigError for one that has no counterpart."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return list_of(kind_of_hint(args[0], where))
    if origin is frozenset and len(args) == 1:
        return set_of(kind_of_hint(args[0], where))
    shown = hint if isinstance(hint, types.GenericAlias | types.UnionType) else repr(hint)
    if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
        shown = hint.__qualname__
    raise ConfigError(
        f"{where} is {shown}, which is not exported",
        remedy="int, bool, str, tuple[T, ...] or frozenset[T] of such",
    )


def kind_of_value(value: Any, where: str) -> Kind:
    """Of a constant. Raises ConfigError for one that has no counterpart."""
    if type(value) in _PLAIN:
        return _PLAIN[type(value)]
    if isinstance(value, tuple | frozenset | range | list | set):
        found = NOTHING
        for one in value:
            inner = kind_of_value(one, where)
            if not alike(found, inner):
                raise ConfigError(
                    f"{where} holds values of several types", remedy="one type, to be exported"
                )
            found = either(found, inner)
        return (set_of if isinstance(value, frozenset | set) else list_of)(found)
    raise ConfigError(
        f"{where} is {value!r}, which is not exported",
        remedy="int, bool, str, tuples and sets of such",
    )
