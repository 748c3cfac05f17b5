"""Clocks of nodes against one another, out of the spans alone.

Where a span on one node (the client's) waits for a span on another (the server's), the server's
lies within the client's on one clock. On two clocks that are `d` apart the way there seems `d`
longer and the way back `d` shorter, so that each exchange says d <= (server began - client began)
and d >= (server ended - client ended). The least of all ways there and of all ways back leave an
interval. The middle of it assumes that the quickest way there and the quickest way back take as
long, and that the clocks do not drift; an empty interval says that they do. Source: Cristian,
"Probabilistic Clock Synchronization" (1989); Paxson, "On Calibrating Measurements of Packet Transit
Times" (1998).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from dstest.traces.spans import NOBODY, Span
from dstest.traces.tree import Trace

LEAST: Final = 1
"""Exchanges between two nodes; one bounds their clocks already."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Clock of `b` minus clock of `a`, from `exchanges`. Where `low_ns` is above `high_ns` no
    constant difference explains all of them."""

    a: str
    b: str
    low_ns: int
    high_ns: int
    exchanges: int

    @property
    def offset_ns(self) -> int:
        """The middle."""
        return (self.low_ns + self.high_ns) // 2

    @property
    def doubt_ns(self) -> int:
        return abs(self.high_ns - self.low_ns + 1) // 2

    @property
    def consistent(self) -> bool:
        """Is there a difference that explains all exchanges?"""
        return self.low_ns <= self.high_ns

    @property
    def differs(self) -> bool:
        """Do the clocks differ for certain? Otherwise the ways alone may explain it."""
        return self.consistent and not self.low_ns <= 0 <= self.high_ns


def _exchanges(trace: Trace) -> Iterable[tuple[Span, Span]]:
    """A parent that waits for its child on another node: only of such it is known that the one lies
    within the other, and only where it got its answer. Where a notation has no kinds every such
    parent is taken for one."""
    for span in trace.spans.values():
        parent = trace.spans.get(span.parent)
        if parent is None or parent.node == span.node or NOBODY in (parent.node, span.node):
            continue
        if (parent.kind, span.kind) in (("client", "server"), ("", "")):
            yield parent, span


def pairs_of(traces: Iterable[Trace]) -> list[Pair]:
    """Each pair of nodes between which something was asked, by name."""
    bounds: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for trace in traces:
        for client, server in _exchanges(trace):
            if client.error or server.duration_ns > client.duration_ns:
                continue  # who asked has not waited for the end
            high, low = server.start_ns - client.start_ns, server.end_ns - client.end_ns
            if client.node < server.node:
                bounds.setdefault((client.node, server.node), []).append((low, high))
            else:
                bounds.setdefault((server.node, client.node), []).append((-high, -low))
    return [
        Pair(
            a=a,
            b=b,
            low_ns=max(low for low, _ in rows),
            high_ns=min(high for _, high in rows),
            exchanges=len(rows),
        )
        for (a, b), rows in sorted(bounds.items())
        if len(rows) >= LEAST
    ]


def corrections(pairs: Iterable[Pair], reference: str = "") -> dict[str, int]:
    """What to take from the times of each node, so that they are those of a reference: by default
    the node with the most exchanges. Only where some pair differs for certain; {} else. A node is
    reached over the pairs with the least doubt."""
    sound = [pair for pair in pairs if pair.consistent]
    if not any(pair.differs for pair in sound):
        return {}
    weight: dict[str, int] = {}
    for pair in sound:
        for node in (pair.a, pair.b):
            weight[node] = weight.get(node, 0) + pair.exchanges
    found: dict[str, int] = {}
    order = sorted(weight, key=lambda node: (node != reference, -weight[node], node))
    for first in order:
        if first in found:
            continue
        found[first] = 0
        while best := _next(sound, found):
            node, offset = best
            found[node] = offset
    return found


def _next(pairs: Iterable[Pair], known: Mapping[str, int]) -> tuple[str, int] | None:
    """The node whose clock is known best by one that is known."""
    rows = [
        (pair.doubt_ns, pair.b, known[pair.a] + pair.offset_ns)
        for pair in pairs
        if pair.a in known and pair.b not in known
    ]
    rows += [
        (pair.doubt_ns, pair.a, known[pair.b] - pair.offset_ns)
        for pair in pairs
        if pair.b in known and pair.a not in known
    ]
    return min(rows)[1:] if rows else None


def moved(span: Span, by_node: Mapping[str, int]) -> Span:
    """The span on the clock of all."""
    by = by_node.get(span.node, 0)
    if not by:
        return span
    return msgspec.structs.replace(span, start_ns=span.start_ns - by, end_ns=span.end_ns - by)
