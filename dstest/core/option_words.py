"""An `-o key=value` in words: as one would give it, its default, and what it may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dstest.core.protocols import Option


def written(value: Any) -> str:
    """As one would give it; empty where nothing is given."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def pair_of(name: str, value: Any) -> str:
    """As it stands behind `-o`."""
    return f"{name}={written(value)}"


def behind_o(pairs: Iterable[str]) -> list[str]:
    """Each of them behind a `-o` of its own."""
    return [word for pair in pairs for word in ("-o", pair)]


def option_words(options: Mapping[str, Any] | None) -> list[str]:
    """The `-o` of each, as a person would write it."""
    return behind_o(pair_of(name, value) for name, value in (options or {}).items())


def allowed(option: Option) -> str:
    """Its choices, or its type with the bounds of a number; empty for a text that may be any."""
    if option.choices:
        return ", ".join(map(written, option.choices))
    if option.type is bool:
        return "true, false"
    name = option.type.__name__
    ends = (option.least, option.most)
    if ends == (None, None):
        return "" if option.type is str else name
    low, high = ("" if end is None else _number(end) for end in ends)
    if low and high:
        return f"{name}, {low} to {high}"
    return f"{name}, {low} or more" if low else f"at most {high}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"
