"""Charts of what the nodes of a run sampled: chosen series on the axis of all charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.monitor.numbers import quantity
from dstest.monitor.rows import NODES, read_rows, series_of
from dstest.report.axis import LEFT, RIGHT, WIDTH, Axis, framed, said, ticks

CHOSEN: Final = (
    ("rss", "memory of the servers (RSS)", "B"),
    ("cpu", "CPU of the servers, of all CPUs of the node", "%"),
    ("queue", "what waits in the servers (queue)", "1"),
)
"""Name, words and unit of the series that are drawn, where they were sampled."""

NODES_MAX: Final = 5
"""Nodes with a line each; of more, those with the highest values."""

BINS: Final = 200
_TOP: Final = 8
_HEIGHT: Final = 84


class SeriesChart(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing with its heading."""

    title: str
    svg: str


def series_charts(run: Path, axis: Axis) -> list[SeriesChart]:
    """One per chosen series that was sampled; none of a run without samples."""
    if not (run / NODES).is_file():
        return []
    series = series_of(row for row in read_rows(run / NODES) if row.name in _NAMES)
    found = []
    for name, words, unit in CHOSEN:
        own = {node: points for (node, other), points in series.items() if other == name and node}
        if own:
            found.append(_drawn(axis, words, unit, own))
    return found


_NAMES: Final = frozenset(name for name, _, _ in CHOSEN)


def _drawn(
    axis: Axis, words: str, unit: str, own: Mapping[str, Sequence[tuple[int, float]]]
) -> SeriesChart:
    top = max(1e-9, *(value for points in own.values() for _, value in points))
    grid = ticks(0, top, 3)
    top = max(top, grid[-1]) * 1.04
    bottom = _TOP + _HEIGHT - 20
    most = {node: max(value for _, value in points) for node, points in own.items()}
    shown = sorted(sorted(own, key=lambda node: -most[node])[:NODES_MAX])

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / top

    parts = [axis.behind(_TOP, bottom)]
    parts += [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text class="num" x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">'
        f"{said(quantity(v, unit))}</text>"
        for v in grid
    ]
    x = WIDTH - RIGHT + 10
    for at, node in enumerate(shown):
        path = _line(axis, own[node], y)
        parts.append(f'<path class="s{at}" d="{path}"/>')
        line = _TOP + 6 + at * 14
        text = f"{node} {quantity(most[node], unit)} at most"
        parts.append(
            f'<path class="s{at}" d="M{x} {line}h22"/>'
            f'<text class="small" x="{x + 28}" y="{line + 4}">{said(text)}</text>'
        )
    label = f"{words} over time; " + ", ".join(
        f"{node} {quantity(most[node], unit)} at most" for node in shown
    )
    left = len(own) - len(shown)
    title = f"{words}{f'; {left} nodes with less are not drawn' if left else ''}"
    return SeriesChart(title=title, svg=framed(bottom + 4, label, parts))


def _line(axis: Axis, points: Sequence[tuple[int, float]], y: Callable[[float], float]) -> str:
    """The highest value of each part of the axis; a gap where nothing was sampled for long."""
    width_ns = max(1, (axis.end_ns - axis.start_ns) // BINS)
    bins: dict[int, float] = {}
    for time_ns, value in points:
        if axis.start_ns <= time_ns <= axis.end_ns:
            at = (time_ns - axis.start_ns) // width_ns
            bins[at] = max(bins.get(at, value), value)
    gap_ns = 10 * max(width_ns, 1_000_000_000)
    words, before = [], None
    for at in sorted(bins):
        time_ns = axis.start_ns + at * width_ns
        pen = "L" if before is not None and time_ns - before <= gap_ns else "M"
        words.append(f"{pen}{axis.x(time_ns):.1f} {y(bins[at]):.1f}")
        before = time_ns
    return "".join(words)
