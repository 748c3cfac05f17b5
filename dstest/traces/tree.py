"""The trees that spans make: every span is in exactly one of them, whatever is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from dstest.traces.spans import Span

ODD_MAX: Final = 1000
"""Of orphans, doubled spans and loops that are listed; all are counted."""


class Trace(msgspec.Struct, kw_only=True):
    """One trace. `roots` are spans without a parent, then `orphans`, whose parent is not there, and
    those at which a loop of parents was cut (`looped`). `children` are in the order in which they
    began."""

    id: str
    spans: dict[str, Span]
    roots: list[Span]
    orphans: list[Span]
    looped: list[Span]
    children: dict[str, list[Span]]

    @property
    def tops(self) -> list[Span]:
        """All that have nobody above them."""
        return [*self.roots, *self.orphans, *self.looped]

    @property
    def start_ns(self) -> int:
        return min(span.start_ns for span in self.spans.values())

    @property
    def end_ns(self) -> int:
        return max(span.end_ns for span in self.spans.values())

    def below(self, span: Span) -> list[Span]:
        """Its children."""
        return self.children.get(span.id, [])

    def walk(self) -> Iterator[tuple[int, Span]]:
        """(depth, span), each once, children behind their parent."""
        stack = [(0, span) for span in reversed(self.tops)]
        while stack:
            depth, span = stack.pop()
            yield depth, span
            stack += [(depth + 1, child) for child in reversed(self.below(span))]


class Traces(msgspec.Struct, kw_only=True):
    """All of them by id, in the order of their starts. `doubled` are spans that were told of again
    with the same words, `clashes` those whose id another span of the trace has already."""

    traces: dict[str, Trace]
    doubled: int
    clashes: list[Span]

    @property
    def spans(self) -> Iterator[Span]:
        return (span for trace in self.traces.values() for span in trace.spans.values())


def forest(spans: Iterable[Span]) -> Traces:
    """Of spans in any order."""
    found: dict[str, dict[str, Span]] = {}
    doubled, clashes = 0, []
    for span in spans:
        mine = found.setdefault(span.trace, {})
        other = mine.get(span.id)
        if other is None:
            mine[span.id] = span
        elif msgspec.structs.replace(span, place="") == msgspec.structs.replace(other, place=""):
            doubled += 1
        else:
            clashes.append(span)
    traces = [_trace(id_, mine) for id_, mine in found.items()]
    traces.sort(key=lambda trace: (trace.start_ns, trace.id))
    return Traces(traces={t.id: t for t in traces}, doubled=doubled, clashes=clashes)


def _order(span: Span) -> tuple[int, int, str]:
    return span.start_ns, -span.end_ns, span.id


def _trace(id_: str, spans: dict[str, Span]) -> Trace:
    children: dict[str, list[Span]] = {}
    roots, orphans = [], []
    for span in spans.values():
        if not span.parent:
            roots.append(span)
        elif span.parent not in spans:
            orphans.append(span)
        else:
            children.setdefault(span.parent, []).append(span)
    for below in children.values():
        below.sort(key=_order)
    trace = Trace(
        id=id_,
        spans=spans,
        roots=sorted(roots, key=_order),
        orphans=sorted(orphans, key=_order),
        looped=[],
        children=children,
    )
    _cut_loops(trace)
    return trace


def _cut_loops(trace: Trace) -> None:
    """Spans that only hang on one another: each loop is cut at its earliest span."""
    seen = {span.id for _, span in trace.walk()}
    for span in sorted(trace.spans.values(), key=_order):
        if span.id in seen:
            continue
        at = _on_loop(trace, span)
        trace.children[at.parent] = [one for one in trace.children[at.parent] if one.id != at.id]
        trace.looped.append(at)
        seen |= _reached(trace, at)


def _on_loop(trace: Trace, span: Span) -> Span:
    """The earliest span of the loop that the parents of this one lead into."""
    path: list[str] = []
    met: set[str] = set()
    while span.id not in met:
        met.add(span.id)
        path.append(span.id)
        span = trace.spans[span.parent]
    loop: Sequence[str] = path[path.index(span.id) :]
    return min((trace.spans[id_] for id_ in loop), key=_order)


def _reached(trace: Trace, top: Span) -> set[str]:
    found, stack = set(), [top]
    while stack:
        span = stack.pop()
        found.add(span.id)
        stack += trace.below(span)
    return found
