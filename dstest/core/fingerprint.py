"""What the name of a violation (`judge.fingerprint`) is made of."""

from __future__ import annotations

from typing import NamedTuple


class Parts(NamedTuple):
    """checker, class of the anomaly, pattern of the key, model; empty where a name has no more."""

    checker: str
    kind: str = ""
    key: str = ""
    model: str = ""


def joined(parts: Parts) -> str:
    """The name."""
    return "/".join(parts)


def parts_of(fingerprint: str) -> Parts:
    """The key may hold a slash, the others do not."""
    checker, _, rest = fingerprint.partition("/")
    kind, _, rest = rest.partition("/")
    key, slash, model = rest.rpartition("/")
    return Parts(checker, kind, key, model) if slash else Parts(checker, kind, rest)
