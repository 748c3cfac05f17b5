"""What a JSON file can hold, so that whoever reads it gets what was written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec


def odd_in(value: Any) -> str:
    """Where a value has something that no JSON file holds, and what: `before.n1 = nan`; empty where
    it has nothing such."""
    try:
        plain = msgspec.to_builtins(value)
    except (TypeError, RecursionError, UnicodeError) as error:
        return str(error)
    where, odd = next(_odd(plain, ""), ("", None))
    return f"{where} = {odd!r}" if where else "" if odd is None else repr(odd)


def _odd(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _odd(key, f"a key of {where}" if where else "a key")
            yield from _odd(inner, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            yield from _odd(inner, f"{where}[{at}]")
    elif legible(value) != value:
        yield where, value


def legible(value: Any) -> Any:
    """The value with a text in place of each number, and of each text, that JSON does not have."""
    if isinstance(value, dict):
        return {legible(key): legible(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [legible(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
