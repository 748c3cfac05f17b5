"""Vector clocks. Source: Fidge (1988), Mattern (1989)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from dstest.traces.spans import Span
from dstest.traces.tree import Trace

Relation = Literal["happens-before", "happens-after", "equal", "concurrent"]
WORDS: Final[tuple[Relation, ...]] = ("happens-before", "happens-after", "equal", "concurrent")


def relation(a: Mapping[str, int], b: Mapping[str, int]) -> Relation:
    """How the event with clock `a` stands to that with clock `b`; who is not named is at 0."""
    names = a.keys() | b.keys()
    less = any(a.get(name, 0) < b.get(name, 0) for name in names)
    more = any(a.get(name, 0) > b.get(name, 0) for name in names)
    if less and more:
        return "concurrent"
    if less:
        return "happens-before"
    return "happens-after" if more else "equal"


def contradictions(trace: Trace) -> Iterator[tuple[Span, Span]]:
    """(parent, child) of which the vector clocks say that the child was not begun by the parent."""
    for span in trace.spans.values():
        parent = trace.spans.get(span.parent)
        if parent is None or not parent.vector or not span.vector:
            continue
        if relation(parent.vector, span.vector) != "happens-before":
            yield parent, span
