"""What objects start with: one value for every key, or a JSON object with a value by key.

It comes in the options of a history's header, under the name `initial`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from dstest.core.errors import ConfigError
from dstest.core.history import INITIAL, History

USUAL: Final = object()
"""Stands for the value of a key that is not named."""


class Start(NamedTuple):
    """`every` is the value of all keys; where `by_key` is not None it says so of each."""

    every: Any
    by_key: Mapping[str, Any] | None

    def of(self, key: Any) -> Any:
        """The value of a key; USUAL where nobody says."""
        return self.every if self.by_key is None else self.by_key.get(name_of(key), USUAL)

    def require_named(self, keys: Iterable[Any]) -> None:
        """Raises ConfigError where a name that does not occur may be meant for a key without."""
        if self.by_key is None:
            return
        there = {name_of(key) for key in keys}
        strange, silent = sorted(self.by_key.keys() - there), sorted(there - self.by_key.keys())
        if strange and silent:
            raise ConfigError(
                f"the initial state names {strange[0]!r}, which does not occur, and not "
                f"{silent[0]!r}, which does",
                remedy="name the keys as the history does; a value that is no JSON object is that "
                "of every key",
            )


def start_of(history: History) -> Start | None:
    """What the header says; None where it says nothing."""
    if INITIAL not in history.header.options:
        return None
    value = history.header.options[INITIAL]
    return Start(None, value) if isinstance(value, dict) else Start(value, None)


def name_of(key: Any) -> str:
    """What a key is called where only strings can be: in JSON's objects, and in maps of EDN."""
    return key if isinstance(key, str) else json.dumps(key, default=repr)
