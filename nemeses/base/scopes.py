"""Which nodes a process fault hits: one, a minority, a majority, all, or the leaders."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Final

SCOPES: Final = ("one", "minority", "majority", "all", "primaries")


def fitting(nodes: int) -> list[str]:
    """Scopes that mean something, each another thing, in a cluster of this size."""
    if nodes < 2:
        return ["one"]
    if nodes < 3:
        return ["one", "all", "primaries"]
    return [s for s in SCOPES if s != "minority" or nodes > 4]


def victims(
    scope: str,
    nodes: Sequence[str],
    rng: random.Random,
    *,
    leader: str | None = None,
    targets: Sequence[str] = (),
    voting: Collection[str],
) -> list[str]:
    """The nodes to hit; `targets`, where given, are taken as they are.

    A majority and a minority are of those that count for one, `voting`.

    Raises ValueError where no leader is known or the scope is unknown.
    """
    order = list(nodes)
    rng.shuffle(order)
    voters = [name for name in order if name in voting]
    majority = len(voters) // 2 + 1
    if targets:
        return list(targets)
    if scope == "primaries":
        if leader is None:
            raise ValueError("no leader is known")
        return [leader]
    found = {
        "one": order[:1],
        "minority": voters[: max(1, len(voters) - majority)],
        "majority": voters[:majority],
        "all": order,
    }
    if scope not in found:
        raise ValueError(f"unknown scope {scope!r}; one of {', '.join(SCOPES)}")
    return sorted(found[scope])
