"""What a workload claims to test, and what its records must hold for the claim to be judged.

Categories and the gated ones among them are those of discipline 1.1; the field rules are 1.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

__all__ = ["CATEGORIES", "FAMILIES", "GATED", "SURFACE_GATED", "Fields"]

GATED: Final = frozenset(
    {"safety", "durability", "idempotency", "isolation", "ordering", "membership"}
)
"""Claims that only a history of operations can falsify: `serious` ones."""

SURFACE_GATED: Final = frozenset({"boundary", "fairness"})
"""Claims that hold at each surface or for each group, or not at all."""

CATEGORIES: Final = GATED | SURFACE_GATED | {"liveness", "performance-SLO", "operational"}

FAMILIES: Final = frozenset({"log", "counter", "ledger", "session", "queue", "lease"})
"""Whose operations need fields without which a checker would be unsound."""


class Fields(msgspec.Struct, frozen=True, kw_only=True):
    """What must stand in a workload's records.

    `family` is one of `FAMILIES`, whose rules hold; empty = none.
    `idempotency_field` is the field of the input that carries the business key. `ttl_option` is the
    option that holds a lease's time to live in seconds. `surfaces` maps each surface of a boundary
    claim to its operation types; `negative_controls` are types that have to be refused. After a
    success of a type in `busy_after` a process is busy with something else until its next one.
    """

    family: str = ""
    idempotency_field: str = ""
    ttl_option: str = ""
    surfaces: Mapping[str, frozenset[str]] = {}
    negative_controls: frozenset[str] = frozenset()
    busy_after: frozenset[str] = frozenset()
