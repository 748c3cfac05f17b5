"""What the name of a violation is made of, and whether one is the bug that is known."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple


class Parts(NamedTuple):
    """What the name of a violation (`dstest.judge.symptom`) is made of: checker, class of the
    anomaly, pattern of the key, model; empty where a name has no more."""

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


Showing = Literal["shown", "other-bug", "missed", "no-fault"]


def showing(
    found: Collection[str],
    anomalies: Collection[str],
    beside: Collection[str] | None,
    *,
    planned: bool,
    landed: int,
    by_fault: bool = True,
) -> Showing:
    """How the anomalies that a failed run found stand to those by which the bug shows.
    Nights, gates, plans and the published findings ask this of their red controls.

    1. One that is neither among them nor `beside` them: `other-bug`. None of `beside` asks nothing
       of what else was found.
    2. None of them: `missed`.
    3. Faults were planned and none has landed: `no-fault`, unless the bug shows without any
       (`by_fault` false).
    """
    if beside is not None and {*found} - {*anomalies, *beside}:
        return "other-bug"
    if not {*found} & {*anomalies}:
        return "missed"
    if by_fault and planned and not landed:
        return "no-fault"
    return "shown"
