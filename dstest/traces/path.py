"""The critical path of a trace by time, and what each span did itself.

From the end of the trace backwards: what ended last is what was waited for; before that began, what
ended last of the others below the same span, and so on. So each moment from the start to the end
belongs to exactly one span, and what made it faster would have made the trace faster. Where what
is waited for had ended and the next of it had not begun is a gap, and is said to be one. Source: Yang and Miller, "Critical Path Analysis for the
Execution of Parallel and Distributed Programs" (1988); by ends as Zhang et al., "CRISP" (2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dstest.traces.spans import Span
from dstest.traces.tree import Trace

__all__ = ["Segment", "critical_path", "own_time", "reach"]


class Segment(NamedTuple):
    """A stretch of the critical path; `span` is None for a gap, in which nothing on it was at work."""

    span: Span | None
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


def reach(trace: Trace) -> dict[str, int]:
    """By span when the last of what it began was over: a span may end before what it began."""
    found: dict[str, int] = {}
    for _, span in reversed(list(trace.walk())):
        below = (found[child.id] for child in trace.below(span))
        found[span.id] = max([span.end_ns, *below])
    return found


class _Frame(NamedTuple):
    """A span, or all tops for None, of which the time from `start_ns` to `until_ns` is shared out.
    `children` are those that may still have a part of it, by what they reach."""

    span: Span | None
    start_ns: int
    children: list[Span]


def critical_path(trace: Trace) -> list[Segment]:
    """From the start of the trace to its end, without a gap between the segments."""
    reaches = reach(trace)
    start, cursor = trace.start_ns, max(reaches.values())
    found: list[Segment] = []
    stack = [_frame(None, start, trace.tops, reaches)]
    while stack:
        frame = stack[-1]
        child = _last(frame, cursor)
        if child is None:
            _close(found, frame.span, max(frame.start_ns, start), cursor)
            cursor = min(cursor, max(frame.start_ns, start))
            stack.pop()
            continue
        until = min(reaches[child.id], cursor)
        _close(found, frame.span, until, cursor)
        cursor = until
        stack.append(_frame(child, child.start_ns, trace.below(child), reaches))
    found.reverse()
    return _merged(found)


def _frame(span: Span | None, start: int, below: Sequence[Span], reaches: dict[str, int]) -> _Frame:
    ordered = sorted(below, key=lambda one: (reaches[one.id], one.start_ns, one.id))
    return _Frame(span, start, ordered)


def _last(frame: _Frame, cursor: int) -> Span | None:
    """Who reaches furthest of those that began before the cursor; asked for once."""
    while frame.children:
        child = frame.children.pop()
        if child.start_ns < cursor:
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


def own_time(trace: Trace, span: Span) -> int:
    """Nanoseconds of a span in which none of its children was under way."""
    covered, cursor = 0, span.start_ns
    for child in trace.below(span):  # in the order of their starts
        begin = max(cursor, child.start_ns)
        end = min(span.end_ns, child.end_ns)
        if end > begin:
            covered += end - begin
            cursor = end
    return span.duration_ns - covered
