"""Do the attributes of an object fit what a class declares of them?

As far as a wrong value would be noticed much later, and far away.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence, Set
from types import NoneType, UnionType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from dstest.core.errors import ConfigError
from dstest.core.implements import is_protocol, missing, unfit

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
