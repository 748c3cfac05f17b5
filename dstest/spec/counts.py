"""How often each invariant was evaluated, and with what result: the same record in each layer."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dstest.spec.model import Invariant


class Count(msgspec.Struct):
    """Evaluations of one invariant."""

    passed: int = 0
    failed: int = 0


def counted(invariants: Iterable[Invariant]) -> dict[str, Count]:
    """Id -> a count that begins at nothing."""
    return {one.id: Count() for one in invariants}


def vacuous(counts: dict[str, Count]) -> list[str]:
    """Ids of what was never evaluated."""
    return [id_ for id_, count in counts.items() if count.passed + count.failed == 0]
