"""Did a run that failed show the bug which is known of it? Nights, gates, plans and the published
findings ask this of their red controls, and get the same answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

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
