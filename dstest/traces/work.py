"""How work is spread: by node, over time, and which spans took longest."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from dstest.traces.path import own_stretches, own_time
from dstest.traces.spans import Span
from dstest.traces.tree import Trace

SLOW_MS: Final = 1000.0
UNBALANCED: Final = 3.0
"""The node with the most spans, in times of the one with the fewest. Source of both: discipline 7.2
(b)."""

SLOWEST: Final = 5


class NodeWork(msgspec.Struct, frozen=True, kw_only=True):
    """What a node did: spans by name, and nanoseconds in which it was not waiting for others."""

    node: str
    spans: int
    own_ns: int
    names: dict[str, int]


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """`mean` is how many spans were at work at a time, on the mean over the trace: their own time
    over its length; one for work that goes step by step. `most` were at work at one moment."""

    mean: float
    most: int


def slowest(spans: Iterable[Span], count: int = SLOWEST) -> list[Span]:
    """By duration, the longest first."""
    return heapq.nlargest(count, spans, key=lambda span: (span.duration_ns, span.id))


def work_of(traces: Iterable[Trace], nodes: Sequence[str] = ()) -> list[NodeWork]:
    """By node, those that are named and did nothing included; the busiest first."""
    counts = dict.fromkeys(nodes, 0)
    own = dict.fromkeys(nodes, 0)
    names: dict[str, dict[str, int]] = {node: {} for node in nodes}
    for trace in traces:
        for span in trace.spans.values():
            counts[span.node] = counts.get(span.node, 0) + 1
            own[span.node] = own.get(span.node, 0) + own_time(trace, span)
            by = names.setdefault(span.node, {})
            by[span.name] = by.get(span.name, 0) + 1
    found = [
        NodeWork(node=node, spans=count, own_ns=own[node], names=names[node])
        for node, count in counts.items()
    ]
    return sorted(found, key=lambda work: (-work.spans, work.node))


def unbalanced(work: Sequence[NodeWork]) -> str:
    """A sentence where the load is unbalanced; empty where it is not, or there is one node."""
    if len(work) < 2:
        return ""
    most, least = work[0], work[-1]
    if most.spans <= UNBALANCED * least.spans:
        return ""
    return (
        f"{most.node} has {most.spans:,} spans and {least.node} {least.spans:,}: more than "
        f"{UNBALANCED:g} times as many"
    )


def parallel_of(trace: Trace) -> Parallel:
    """Of one trace; 0 of one that took no time."""
    length = trace.end_ns - trace.start_ns
    rows = [row for span in trace.spans.values() for row in own_stretches(trace, span)]
    own = sum(end - start for start, end in rows)
    edges = sorted(edge for start, end in rows for edge in ((start, 1), (end, -1)))
    # What ends at a moment has ended before the next begins
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return Parallel(mean=own / length if length else 0.0, most=most)
