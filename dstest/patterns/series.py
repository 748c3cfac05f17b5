"""Figures over time: of `metrics/NAME.jsonl`, and counted in the history of operations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from dstest.core.errors import EvidenceError
from dstest.monitor.rows import CLIENT, NODES, read_rows, series_of


class Series(msgspec.Struct, frozen=True):
    """`values` of one figure of one node at `times_ns`, in the order of time."""

    name: str
    node: str
    times_ns: list[int]
    values: list[float]
    place: str = ""

    def between(self, start_ns: int, end_ns: int) -> list[float]:
        """Those of a stretch."""
        pairs = zip(self.times_ns, self.values, strict=True)
        return [value for at, value in pairs if start_ns <= at < end_ns]


class Fit(msgspec.Struct, frozen=True):
    """A straight line by least squares: `slope` per second, `r2` the share of the variance that it
    explains, 0 where nothing varies."""

    slope: float
    r2: float
    first: float
    last: float


def fitted(times_ns: Sequence[int], values: Sequence[float]) -> Fit | None:
    """None for fewer than three points, or none that differ in time."""
    if len(values) < 3 or times_ns[0] == times_ns[-1]:
        return None
    xs = [(at - times_ns[0]) / 1e9 for at in times_ns]
    mean_x, mean_y = sum(xs) / len(xs), sum(values) / len(values)
    xx = sum((x - mean_x) ** 2 for x in xs)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, values, strict=True))
    yy = sum((y - mean_y) ** 2 for y in values)
    slope = xy / xx
    start = mean_y - slope * mean_x
    r2 = 0.0 if yy == 0 else xy * xy / (xx * yy)
    return Fit(slope, r2, start, start + slope * xs[-1])


def read_series(run: Path) -> tuple[list[Series], str]:
    """All that was sampled in a run, and why there is no more; nothing where nothing was. Of a file
    that cannot be read nothing is taken."""
    found: list[Series] = []
    lost: list[str] = []
    for name in (NODES, CLIENT):
        try:
            every = series_of(read_rows(run / name))
        except EvidenceError as error:
            lost.append(str(error))
            continue
        for (node, figure), rows in sorted(every.items()):
            times, values = [at for at, _ in rows], [value for _, value in rows]
            found.append(Series(figure, node, times, values, name))
    return sorted(found, key=lambda one: (one.name, one.node)), "; ".join(lost)
