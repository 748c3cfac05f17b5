"""What a marker asks for, as the words of `dstest run`, and whether a run has come to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from dstest.core.option_words import option_words

__all__ = ["Asked", "asked_of", "several", "words_of"]

_FLAGS: Final[Mapping[str, str]] = {
    "system": "--system",
    "workload": "--workload",
    "nemesis": "--nemesis",
    "time_limit_s": "--time-limit",
    "nodes": "--nodes",
    "rate": "--rate",
    "concurrency": "--concurrency",
    "seed": "--seed",
    "seeds": "--seeds",
    "tier": "--tier",
    "model": "--model",
    "system_version": "--system-version",
}
_OTHERS: Final = ("options", "checkers", "plugins", "lab_id", "expect", "anomalies")
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
        """The nodes of the largest cluster that is asked for."""
        given = str(self.given.get("nodes", 5))
        return max(int(part) for part in given.split(","))


def _wrong(said: str) -> Any:
    pytest.fail(f"@pytest.mark.dstest: {said}", pytrace=False)


def asked_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Asked:
    """Fails the test where the marker cannot be meant: nothing of it is passed over."""
    from dstest.core.verdict import State

    known = [*_FLAGS, *_OTHERS]
    if args:
        _wrong("give its arguments by name, such as system='etcd'")
    if strange := [name for name in kwargs if name not in known]:
        _wrong(f"{strange[0]} is no argument of it; those are {', '.join(known)}")
    asked = Asked(kwargs)
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
    words: list[str] = []
    for name, flag in _FLAGS.items():
        value = asked.given.get(name)
        if value is None:
            continue
        if name == "system_version":
            words += [part for one in several(value) for part in (flag, str(one))]
        else:
            words += [flag, ",".join(map(str, several(value)))]
    words += option_words(asked.given.get("options"))
    for checker in asked.given.get("checkers", ()):
        words += ["--checker", str(checker)]
    for plugin in asked.given.get("plugins", ()):
        words += ["--plugin", str(plugin)]
    return words
