"""Traces as one HTML file that asks for nothing else, in the look of reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dstest.debug.traces.analysis import TraceAnalysis, as_mermaid, as_text, length_ns, ms
from dstest.debug.traces.flows import (
    critical_path,
    parallel_of,
)
from dstest.debug.traces.spans import (
    Span,
    Trace,
)
from dstest.report.html import templates

ROWS_MAX: Final = 300
"""Spans drawn; the rest is in the text and with --json."""


WIDTH: Final = 760


LEFT: Final = 250


ROW: Final = 18


TICKS: Final = 5


class _Bar(NamedTuple):
    """A span as it is drawn, in pixels; `tone` is its class."""

    y: int
    x: float
    width: float
    indent: int
    label: str
    title: str
    tone: str


class _Tick(NamedTuple):
    x: float
    label: str


def _bars(trace: Trace) -> list[_Bar]:
    on = {part.span.id for part in critical_path(trace) if part.span is not None}
    start, length = trace.start_ns, max(1, length_ns(trace))
    found = []
    for number, (depth, span) in enumerate(trace.walk()):
        if number == ROWS_MAX:
            break
        found.append(
            _Bar(
                y=number * ROW,
                x=LEFT + WIDTH * (span.start_ns - start) / length,
                width=max(1.5, WIDTH * span.duration_ns / length),
                indent=min(depth, 12) * 8,
                label=f"{span.name or 'span'} on {span.node}"[: 38 - min(depth, 12)],
                title=_title(span, start),
                tone="wrong" if span.error else "on" if span.id in on else "off",
            )
        )
    return found


def _title(span: Span, start_ns: int) -> str:
    at = ms(span.start_ns - start_ns)
    wrong = f", error: {span.error}" if span.error else ""
    return f"{span.name} on {span.node}: T+{at}, {ms(span.duration_ns)}{wrong} ({span.place})"


def render(found: TraceAnalysis, name: str, notes: Sequence[str]) -> str:
    """The page of a look."""
    trace = found.shown
    length = 0 if trace is None else length_ns(trace)
    bars = [] if trace is None else _bars(trace)
    path = [] if trace is None else critical_path(trace)
    return str(
        templates()
        .get_template("trace.html.j2")
        .render(
            name=name,
            trace=trace,
            whose="" if trace is None else found.operations.get(trace.id, ""),
            length=ms(length),
            parallel=None if trace is None else parallel_of(trace),
            bars=bars,
            ticks=[
                _Tick(LEFT + WIDTH * at / TICKS, ms(length * at // TICKS))
                for at in range(TICKS + 1)
            ],
            size=(LEFT + WIDTH + 90, len(bars) * ROW + 28),
            left_out=0 if trace is None else max(0, len(trace.spans) - ROWS_MAX),
            path=[
                (
                    ms(part.start_ns - (trace.start_ns if trace else 0)),
                    ms(part.duration_ns),
                    "nothing on the path was at work" if part.span is None else part.span.name,
                    "" if part.span is None else part.span.node,
                )
                for part in path
            ],
            flows=found.flows,
            work=[(one, ms(one.own_ns)) for one in found.work],
            text="\n".join(as_text(found, name, notes)),
            mermaid=as_mermaid(found),
        )
    )
