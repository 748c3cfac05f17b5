"""What a marker asks for, as the words of `dstest run`, and whether a run has come to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import PurePath
from typing import Any, Final

import pytest

from dstest.core.option_words import pair_of
from dstest.core.run_words import run_words

_FIELDS: Final[Mapping[str, str]] = {
    "system": "system",
    "workload": "workload",
    "nemesis": "nemesis",
    "time_limit_s": "time_limit_s",
    "nodes": "nodes",
    "rate": "rate",
    "concurrency": "concurrency",
    "seed": "seed",
    "seeds": "seeds",
    "tier": "tier",
    "model": "model",
    "system_version": "builds",
    "options": "options",
    "checkers": "checkers",
    "plugins": "files",
}
"""Arguments, in the order of their words, with the names that the words of a run have for them."""

_EACH: Final = ("builds", "checkers", "files")
"""Of these, each has a flag of its own."""

_OTHERS: Final = ("lab_id", "expect", "anomalies")
_GROUPS: Final[Mapping[str, str]] = {
    "pass": "PASS-",
    "fail": "FAIL-",
    "inconclusive": "INCONCLUSIVE-",
    "partial": "PARTIAL-",
}
"""A word for `expect`, and how the states begin that it means."""


class Asked:
    """A marker's arguments. `expect` is a group of states or one state; `anomalies`, where a
    violation is expected, are those that it has to show and no other."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = dict(given)
        self.lab_id: str | None = given.get("lab_id")
        self.tier: str | None = given.get("tier")
        self.expect: str = given.get("expect", "pass")
        self.anomalies: set[str] = set(given.get("anomalies", ()))

    def meets(self, state: str) -> bool:
        """Is this verdict one that is expected?"""
        return state.startswith(_GROUPS.get(self.expect, "\0")) or state == self.expect

    @property
    def nodes(self) -> int:
        """The nodes of the largest cluster that is asked for. Raises ValueError where none is."""
        return max(_counts(self.given.get("nodes", 5)))


def _counts(given: Any) -> list[int]:
    """Numbers, each above zero, of one or several, or of text with commas."""
    parts = given.split(",") if isinstance(given, str) else several(given)
    found = [int(part) for part in parts if type(part) in (int, str)]
    if not found or len(found) != len(parts) or min(found) < 1:
        raise ValueError(f"{given!r} is no count of nodes")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _malformed(kwargs: Mapping[str, Any]) -> str:
    """What is of another type than its argument takes; empty where nothing is."""
    for name, value in kwargs.items():
        if value is None and name != "expect":
            continue
        takes, fits = _TAKES[name]
        if not fits(value):
            return f"{name}={value!r}: it takes {takes}"
    return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple | set) and all(map(_is_text, value))


def _are_nodes(value: Any) -> bool:
    try:
        return bool(_counts(value))
    except ValueError:
        return False


def _may_be_number(value: Any) -> bool:
    """The words of `dstest run` may say it as text, such as `90`: those it reads itself."""
    return _is_number(value) or _is_text(value)


def _are_seeds(value: Any) -> bool:
    return bool(several(value)) and all(map(_may_be_number, several(value)))


def _are_options(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def _is_path(value: Any) -> bool:
    return _is_text(value) or isinstance(value, PurePath)


def _are_paths(value: Any) -> bool:
    return isinstance(value, list | tuple | set) and all(map(_is_path, value))


_TEXT: Final = ("a text", _is_text)
_TEXTS: Final = ("a list of texts", _are_texts)
_PATHS: Final = ("a list of names or paths", _are_paths)
_NUMBER: Final = ("a number", _may_be_number)
_TAKES: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "system": _TEXT,
    "workload": _TEXT,
    "nemesis": _TEXT,
    "time_limit_s": _NUMBER,
    "nodes": ("a number above 0, or a list of such", _are_nodes),
    "rate": _NUMBER,
    "concurrency": _NUMBER,
    "seed": ("a number, or a list of numbers", _are_seeds),
    "seeds": _NUMBER,
    "tier": _TEXT,
    "model": _TEXT,
    "system_version": ("a name or a path, or a list", lambda v: _are_paths(several(v))),
    "options": ("a dict of names and values", _are_options),
    "checkers": _PATHS,
    "plugins": _PATHS,
    "lab_id": _TEXT,
    "expect": _TEXT,
    "anomalies": _TEXTS,
}
"""Of each argument, what it takes in words, and whether a value is that."""


def _wrong(said: str) -> Any:
    pytest.fail(f"@pytest.mark.dstest: {said}", pytrace=False)


def asked_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Asked:
    """Fails the test where the marker cannot be meant: nothing of it is passed over."""
    from dstest.core.verdict import State

    known = [*_FIELDS, *_OTHERS]
    if args:
        _wrong("give its arguments by name, such as system='etcd'")
    if strange := [name for name in kwargs if name not in known]:
        _wrong(f"{strange[0]} is no argument of it; those are {', '.join(known)}")
    if malformed := _malformed(kwargs):
        _wrong(malformed)
    asked = Asked({name: value for name, value in kwargs.items() if value is not None})
    if asked.expect not in {*_GROUPS, *State}:
        _wrong(f"expect={asked.expect!r}: {', '.join([*_GROUPS, *State])}")
    if asked.anomalies and asked.expect not in ("fail", *(s for s in State if s.failed)):
        _wrong("anomalies are for expect='fail'")
    return asked


def several(value: Any) -> list[Any]:
    """A list of what may be one or many."""
    return list(value) if isinstance(value, list | tuple) else [value]


def words_of(asked: Asked) -> list[str]:
    """The arguments of `dstest run`."""
    said: dict[str, Any] = {}
    for name, field in _FIELDS.items():
        value = asked.given.get(name)
        if value is not None and name != "options":
            each = [str(one) for one in (value if isinstance(value, set) else several(value))]
            said[field] = each if field in _EACH else ",".join(each)
    options = asked.given.get("options") or {}
    pairs = [pair_of(name, value) for name, value in options.items()]
    return run_words(said, pairs, list(_FIELDS.values()))[1:]
