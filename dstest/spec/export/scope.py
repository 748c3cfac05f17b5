"""What names mean where an expression stands, and patterns that give values names."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from dstest.spec.export.kinds import Text

YIELDED: Final = "yield "
"""Not a name of Python's: what a generator has given so far, a tuple."""


class Scope(msgspec.Struct, frozen=True):
    """`names` are values, known ones or texts; `outside` are the globals of the function, and what
    it closes over."""

    names: Mapping[str, Any]
    outside: Mapping[str, Any]
    where: str

    def with_names(self, more: Mapping[str, Any]) -> Scope:
        """With these names besides."""
        return msgspec.structs.replace(self, names={**self.names, **more})


def outside_of(function: Callable[..., Any]) -> dict[str, Any]:
    """By name, what it finds outside of itself."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}


class NoPattern(Exception):
    """A pattern whose answer is not known before the specification runs."""


def matched(pattern: ast.pattern, value: Any) -> dict[str, Any] | None:
    """The names that a pattern gives to parts of a value, None where it does not fit. Raises
    NoPattern where that depends on what is not known."""
    match pattern:
        case ast.MatchAs(pattern=None, name=name):
            return {} if name is None else {name: value}
        case ast.MatchAs(pattern=inner, name=str(name)) if inner is not None:
            found = matched(inner, value)
            return None if found is None else {**found, name: value}
        case ast.MatchOr(patterns=several):
            return next((f for one in several if (f := matched(one, value)) is not None), None)
        case ast.MatchValue(value=ast.Constant(value=wanted)) if not isinstance(value, Text):
            return {} if value == wanted else None
        case ast.MatchSingleton(value=wanted) if not isinstance(value, Text):
            return {} if value is wanted else None
        case ast.MatchSequence(patterns=parts) if isinstance(value, tuple | list):
            if len(parts) != len(value):
                return None
            names: dict[str, Any] = {}
            for one, inner in zip(parts, value, strict=True):
                found = matched(one, inner)
                if found is None:
                    return None
                names |= found
            return names
    raise NoPattern
