"""Who asks whom: flows between nodes, loops, and storms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from dstest.traces.spans import NOBODY, Message
from dstest.traces.tree import Trace

STORM_FROM: Final = 100
"""More messages than these from one node for one trace are a storm; of messages that belong to no
trace, of one type within one second. Source: discipline 7.2 (b)."""

SECOND_NS: Final = 1_000_000_000
EXAMPLES_MAX: Final = 3


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


_Way = tuple[str, str, str, str]
"""A, B, and what they asked one another for."""


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
