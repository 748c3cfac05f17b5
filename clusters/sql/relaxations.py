"""Models that databases document for their isolation levels, weaker than what is asked for."""

from __future__ import annotations

from typing import Final

from dstest.core.protocols import Relaxation


def _by_isolation(model: str, level: str, source: str) -> Relaxation:
    return Relaxation(model=model, source=source, option="isolation", value=level)


POSTGRESQL_RELAXED: Final = (
    _by_isolation(
        "snapshot-isolation",
        "repeatable-read",
        "PostgreSQL 15, 13.2.2: Repeatable Read is implemented by snapshot isolation",
    ),
    _by_isolation(
        "read-committed",
        "read-committed",
        "PostgreSQL 15, 13.2.1: each command sees what was committed before it began",
    ),
)
