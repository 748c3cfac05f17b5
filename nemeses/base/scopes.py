"""Which nodes a process fault hits: one, a minority, a majority, all, or the leaders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

__all__ = ["SCOPES", "fitting", "victims"]

SCOPES: Final = ("one", "minority", "majority", "all", "primaries")


def fitting(nodes: int) -> list[str]:
    """Scopes that mean something, each another thing, in a cluster of this size."""
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
) -> list[str]:
    """The nodes to hit; `targets`, where given, are taken as they are.

    Raises ValueError where no leader is known or the scope is unknown.
    """
    order = list(nodes)
    rng.shuffle(order)
    majority = len(order) // 2 + 1
    if targets:
        return list(targets)
    if scope == "primaries":
        if leader is None:
            raise ValueError("no leader is known")
        return [leader]
    sizes = {"one": 1, "minority": len(order) - majority, "majority": majority, "all": len(order)}
    if scope not in sizes:
        raise ValueError(f"unknown scope {scope!r}; one of {', '.join(SCOPES)}")
    return sorted(order[: max(1, sizes[scope])])
