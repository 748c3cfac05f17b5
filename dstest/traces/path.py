"""The critical path of a trace by time, and what each span did itself.

From the end of the trace backwards: of what is below a span, what ended last before it did was
waited for; before that began, what had ended last by then, and so on. What ended after its parent
was not waited for (the slower ones of a quorum), unless it is what ended last of all. Each moment
from the start to the end belongs to exactly one span, and what made it faster would have made the
trace faster. Where what is waited for had ended and the next of it had not begun is a gap, and is
said to be one. Source: Yang and Miller, "Critical Path Analysis for the Execution of Parallel and
Distributed Programs" (1988); by ends as Zhang et al., "CRISP" (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dstest.traces.spans import Span
from dstest.traces.tree import Trace


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
    """From the start of the trace to its end, without a gap between the segments."""
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
