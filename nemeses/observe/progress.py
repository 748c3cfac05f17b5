"""How far members have come in the logs that they share, each group of members in its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SILENT: Final = 1 << 60
"""How far behind a member is that does not say where it is."""

Progress = Mapping[str, Mapping[str, int] | None]
"""Of each member its position by group, as `Replication.progress` tells."""


def lags(at: Progress) -> dict[str, int]:
    """How far each member is behind the furthest of its group; of several groups, the most."""
    furthest: dict[str, int] = {}
    for row in at.values():
        for group, position in (row or {}).items():
            furthest[group] = max(furthest.get(group, position), position)
    return {
        name: max(furthest[group] - position for group, position in row.items()) if row else SILENT
        for name, row in at.items()
    }


def only_log(at: Progress) -> dict[str, int | None]:
    """The position of each member that is in one group alone; None where it is in several."""
    return {name: next(iter(row.values())) if row and len(row) == 1 else None
            for name, row in at.items()}  # fmt: skip
