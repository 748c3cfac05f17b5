"""What spans show: who asks whom, with loops and storms, the critical path, how work is spread over
nodes and time, and how far the clocks of nodes lie apart.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from dstest.debug.traces.spans import NOBODY, Message, Span, Trace
from dstest.judge.facts import SECOND_NS

STORM_FROM: Final = 100
"""More messages than these from one node for one trace are a storm; of messages that belong to no
trace, of one type within one second."""

EXAMPLES_MAX: Final = 3

_Way = tuple[str, str, str, str]
"""A, B, and what they asked one another for."""

SLOW_MS: Final = 1000.0
UNBALANCED: Final = 3.0
"""The node with the most spans, in times of the one with the fewest."""

SLOWEST: Final = 5

LEAST: Final = 1
"""Exchanges between two nodes; one bounds their clocks already."""


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """Messages from one node to another, by type."""

    source: str
    target: str
    count: int
    types: dict[str, int]


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """A asks B for the first of `names`, and B for that asks A for the second. `same`: for what it
    was asked itself, so that it may go on for ever."""

    path: list[str]
    names: list[str]
    times: int
    examples: list[str]

    @property
    def same(self) -> bool:
        return self.names[0] == self.names[1]


class Storm(msgspec.Struct, frozen=True, kw_only=True):
    """`within` is a trace, or a type in one second."""

    node: str
    messages: int
    targets: int
    within: str


def messages_of(trace: Trace) -> Iterator[Message]:
    """A span on another node than its parent was asked for by a message."""
    for span in trace.spans.values():
        parent = trace.spans.get(span.parent)
        if (
            parent is not None
            and parent.node != span.node
            and NOBODY not in (parent.node, span.node)
        ):
            yield Message(
                source=parent.node,
                target=span.node,
                type=span.name,
                id=span.id,
                trace=trace.id,
                time_ns=span.start_ns,
                place=span.place,
            )


def flows_of(messages: Iterable[Message]) -> list[Flow]:
    """The largest first."""
    types: dict[tuple[str, str], Counter[str]] = {}
    for one in messages:
        types.setdefault((one.source, one.target), Counter())[one.type or "?"] += 1
    found = [
        Flow(source=a, target=b, count=sum(by.values()), types=dict(by.most_common()))
        for (a, b), by in types.items()
    ]
    return sorted(found, key=lambda flow: (-flow.count, flow.source, flow.target))


def loops_of(traces: Iterable[Trace], messages: Sequence[Message]) -> list[Loop]:
    """Chains of spans that come back to the node before the last, and messages that go back under
    the id under which they came."""
    counts: Counter[_Way] = Counter()
    examples: dict[_Way, list[str]] = {}

    def met(way: _Way, where: str) -> None:
        counts[way] += 1
        shown = examples.setdefault(way, [])
        if where not in shown and len(shown) < EXAMPLES_MAX:
            shown.append(where)

    for trace in traces:
        for way in _chains(trace):
            met(way, trace.id)
    came: dict[str, list[tuple[str, str]]] = {}
    for one in sorted(messages, key=lambda m: m.time_ns or 0):
        if one.id and one.source != one.target:
            before = came.setdefault(one.id, [])
            if (one.target, one.source) in before:
                met((one.target, one.source, one.type, one.type), one.id)
            before.append((one.source, one.target))
    return [
        Loop(path=[a, b, a], names=[there, back], times=times, examples=examples[a, b, there, back])
        for (a, b, there, back), times in counts.most_common()
    ]


class _At(NamedTuple):
    """Where a walk down a trace stands: this node, the one before, what it was asked for."""

    id: str
    node: str
    before: str
    asked: str


def _chains(trace: Trace) -> Iterator[_Way]:
    """Of each span on another node than its parent: the nodes before it on the way from the top."""
    stack = [_At(top.id, top.node, "", top.name) for top in trace.tops]
    while stack:
        at = stack.pop()
        for child in trace.children.get(at.id, ()):
            if child.node in (at.node, NOBODY):
                stack.append(_At(child.id, at.node, at.before, at.asked))
                continue
            if at.before == child.node:
                yield child.node, at.node, at.asked, child.name
            stack.append(_At(child.id, child.node, at.node, child.name))


def storms_of(messages: Iterable[Message]) -> list[Storm]:
    """By the node that they come from, the largest first."""
    counts: Counter[tuple[str, str]] = Counter()
    targets: dict[tuple[str, str], set[str]] = {}
    for one in messages:
        if one.trace:
            within = f"trace {one.trace}"
        elif one.time_ns is not None:
            within = f"{one.type or 'messages'} in second {one.time_ns // SECOND_NS}"
        else:
            within = f"{one.type or 'messages'} without a time"
        key = (one.source, within)
        counts[key] += 1
        targets.setdefault(key, set()).add(one.target)
    return [
        Storm(node=node, messages=count, targets=len(targets[node, within]), within=within)
        for (node, within), count in counts.most_common()
        if count > STORM_FROM
    ]


class Segment(NamedTuple):
    """A stretch of the critical path; `span` is None for a gap: nothing on it was at work."""

    span: Span | None
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


class _Frame(NamedTuple):
    """A span, or all tops for None, of which the time before some moment is shared out. `children`
    are those that it may have waited for, by their ends."""

    span: Span | None
    start_ns: int
    children: list[Span]


def critical_path(trace: Trace) -> list[Segment]:
    """From the start of the trace to its end, without a gap between the segments.

    From the end of the trace backwards: of what is below a span, what ended last before it did was
    waited for; before that began, what had ended last by then, and so on. What ended after its
    parent was not waited for (the slower ones of a quorum), unless it is what ended last of all.
    Each moment from the start to the end belongs to exactly one span, and what made it faster would
    have made the trace faster. Where what is waited for had ended and the next of it had not begun
    is a gap, and is said to be one. Source: Yang and Miller, "Critical Path Analysis for the
    Execution of Parallel and Distributed Programs" (1988); by ends as Zhang et al., "CRISP" (2022).
    """
    depths = {span.id: depth for depth, span in trace.walk()}
    last = max(trace.spans.values(), key=lambda span: (span.end_ns, -depths[span.id], span.id))
    found: list[Segment] = []
    cursor = last.end_ns
    at: Span | None = last
    while at is not None:  # what was not waited for was begun by its parent all the same
        cursor = _before(trace, _frame(at, at.start_ns, trace.below(at)), cursor, found)
        at = trace.spans.get(at.parent) if depths[at.id] else None
    _before(trace, _frame(None, trace.start_ns, trace.tops), cursor, found)
    found.reverse()
    return _merged(found)


def _frame(span: Span | None, start: int, below: Sequence[Span]) -> _Frame:
    waited = (one for one in below if span is None or one.end_ns <= span.end_ns)
    return _Frame(span, start, sorted(waited, key=lambda one: (one.end_ns, one.start_ns, one.id)))


def _before(trace: Trace, frame: _Frame, cursor: int, found: list[Segment]) -> int:
    """Shares out what lies before the cursor, backwards; where that began."""
    stack = [frame]
    while stack:
        now = stack[-1]
        child = _last(now, cursor)
        if child is None:
            _close(found, now.span, now.start_ns, cursor)
            cursor = min(cursor, now.start_ns)
            stack.pop()
            continue
        _close(found, now.span, child.end_ns, cursor)
        cursor = child.end_ns
        stack.append(_frame(child, child.start_ns, trace.below(child)))
    return cursor


def _last(frame: _Frame, cursor: int) -> Span | None:
    """Who ended last before the cursor; asked for once."""
    while frame.children:
        child = frame.children.pop()
        if child.end_ns <= cursor:
            return child
    return None


def _close(found: list[Segment], span: Span | None, start: int, end: int) -> None:
    """Backwards: what lies between is the span's own, as far as it lasted, and else nobody's."""
    if start >= end:
        return
    if span is None:
        found.append(Segment(None, start, end))
        return
    lasted = min(end, max(start, span.end_ns))
    begun = max(start, min(lasted, span.start_ns))
    for who, a, b in ((None, lasted, end), (span, begun, lasted), (None, start, begun)):
        if a < b:
            found.append(Segment(who, a, b))


def _merged(segments: Sequence[Segment]) -> list[Segment]:
    found: list[Segment] = []
    for one in segments:
        if found and found[-1].span is one.span and found[-1].end_ns == one.start_ns:
            found[-1] = Segment(one.span, found[-1].start_ns, one.end_ns)
        else:
            found.append(one)
    return found


def own_stretches(trace: Trace, span: Span) -> list[tuple[int, int]]:
    """(start, end) of each stretch of a span in which none of its children was under way."""
    found, cursor = [], span.start_ns
    for child in trace.below(span):  # in the order of their starts
        begin, end = max(cursor, child.start_ns), min(span.end_ns, child.end_ns)
        if end > begin:
            if begin > cursor:
                found.append((cursor, begin))
            cursor = end
    if cursor < span.end_ns:
        found.append((cursor, span.end_ns))
    return found


def own_time(trace: Trace, span: Span) -> int:
    """Nanoseconds of a span in which none of its children was under way."""
    return sum(end - start for start, end in own_stretches(trace, span))


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


def imbalance(work: Sequence[NodeWork]) -> str:
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
    """Each pair of nodes between which something was asked, by name.

    Where a span on one node (the client's) waits for a span on another (the server's), the server's
    lies within the client's on one clock. On two clocks that are `d` apart the way there seems `d`
    longer and the way back `d` shorter, so that each exchange says d <= (server began - client
    began) and d >= (server ended - client ended). The least of all ways there and of all ways back
    leave an interval. The middle of it assumes that the quickest way there and the quickest way
    back take as long, and that the clocks do not drift; an empty interval says that they do.
    Source: Cristian, "Probabilistic Clock Synchronization" (1989); Paxson, "On Calibrating
    Measurements of Packet Transit Times" (1998).
    """
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


def shift(span: Span, by_node: Mapping[str, int]) -> Span:
    """The span on the clock of all."""
    by = by_node.get(span.node, 0)
    if not by:
        return span
    return msgspec.structs.replace(span, start_ns=span.start_ns - by, end_ns=span.end_ns - by)
