"""What a partition cut: which members still reach one another, by the facts of its record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dstest.core.evidence import LandingRecord


def cuts_of(record: LandingRecord) -> set[tuple[str, str]]:
    """Directed links on which nothing arrived while the fault stood, as (from, to), by the probes
    that prove that it has landed. Faults that slow links down, or lose a part, leave some arrive;
    one that leaves standing connections alone cuts nothing off."""
    told = record.facts.get("cuts")
    if record.landed != "yes" or not isinstance(told, list) or record.victim is None:
        return set()
    if record.facts.get("reset") is False:
        return set()
    arrived = record.victim.during
    nothing = {str(one) for one in told if one in arrived and not _any(arrived[one])}
    pairs = [one.split("->") for one in nothing]
    return {(pair[0], pair[1]) for pair in pairs if len(pair) == 2}


def _any(counted: Any) -> bool:
    """Did any arrive? Counts are one, or one for each family of addresses."""
    return any(counted) if isinstance(counted, list) else bool(counted)


def sides_of(record: LandingRecord, nodes: Sequence[str]) -> list[set[str]]:
    """Groups of members that reach one another both ways, over others as well; one group where
    nothing is cut off."""
    cuts = cuts_of(record)
    if not cuts:
        return [set(nodes)]
    left, sides = set(nodes), []
    while left:
        side, todo = set(), [min(left)]
        while todo:
            node = todo.pop()
            if node in side:
                continue
            side.add(node)
            todo += [
                other
                for other in nodes
                if other not in side and (node, other) not in cuts and (other, node) not in cuts
            ]
        left -= side
        sides.append(side)
    return sides
