"""All checks, in the order of their groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.logs.connections import Connections
from dstest.logs.messages import Duplicates, Ordering
from dstest.logs.rates import ErrorRates, Latencies
from dstest.logs.scene import Check
from dstest.logs.states import Divergence
from dstest.logs.votes import Rejections, SilentNodes
from dstest.logs.words import Conflicts, ConsensusTimeouts, OutOfMemory, Partitions

CHECKS: Final[tuple[type[Check], ...]] = (
    ConsensusTimeouts,
    SilentNodes,
    Rejections,
    Ordering,
    Duplicates,
    Divergence,
    Conflicts,
    Partitions,
    Connections,
    Latencies,
    OutOfMemory,
    ErrorRates,
)
"""Source: discipline 7.2 (a)."""


def chosen(names: Iterable[str]) -> list[type[Check]]:
    """The checks of these names or groups, all for none. Raises ConfigError for a name that is
    neither."""
    asked = list(names)
    known = {*(check.name for check in CHECKS), *(check.group for check in CHECKS)}
    for name in asked:
        if name not in known:
            raise ConfigError(f"--check {name} is no check", remedy=meant(name, sorted(known)))
    return [c for c in CHECKS if not asked or c.name in asked or c.group in asked]
