"""What a partition cut: which members still reach one another, by the facts of its record."""

from __future__ import annotations

from collections.abc import Sequence

from dstest.core.evidence import LandingRecord

__all__ = ["cuts_of", "sides_of"]


def cuts_of(record: LandingRecord) -> set[tuple[str, str]]:
    """Directed links that were dropped, as (from, to), of a fault that has landed."""
    told = record.facts.get("cuts")
    if record.landed != "yes" or not isinstance(told, list):
        return set()
    pairs = [str(one).split("->") for one in told]
    return {(pair[0], pair[1]) for pair in pairs if len(pair) == 2}


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
