"""What a series came to: of each node, and of all of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from dstest.monitor.numbers import mean, quantile, slope

GROWS_R2: Final = 0.9
"""A series whose line explains this much of it grows (or falls) steadily."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`node` is empty for all nodes together: the same quantiles over the samples of all.
    `per_s` is the slope of the least-squares line and `r2` how much of the series it explains."""

    node: str
    name: str
    unit: str
    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float
    per_s: float | None = None
    r2: float | None = None

    @property
    def steady(self) -> bool:
        """Does it grow, or fall, steadily?"""
        return self.r2 is not None and self.r2 > GROWS_R2


def summary_of(
    node: str, name: str, unit: str, points: Sequence[tuple[int, float]], line: bool = True
) -> Summary:
    """Of a series that is not empty."""
    ordered = sorted(value for _, value in points)
    found = slope([(time_ns / 1e9, value) for time_ns, value in points]) if line else None
    return Summary(
        node=node,
        name=name,
        unit=unit,
        count=len(ordered),
        mean=round(mean(ordered), 6),
        p50=round(quantile(ordered, 0.5), 6),
        p95=round(quantile(ordered, 0.95), 6),
        p99=round(quantile(ordered, 0.99), 6),
        p999=round(quantile(ordered, 0.999), 6),
        max=round(ordered[-1], 6),
        per_s=None if found is None else round(found[0], 9),
        r2=None if found is None else round(found[1], 6),
    )


def summaries(
    series: Mapping[tuple[str, str], Sequence[tuple[int, float]]], units: Mapping[str, str]
) -> list[Summary]:
    """Node by node, and all of them, by name of the series."""
    found = []
    for name in sorted({name for node, name in series if node}):
        unit = units.get(name, "1")
        together: list[tuple[int, float]] = []
        for node in sorted({node for node, other in series if node and other == name}):
            points = series[node, name]
            together += points
            found.append(summary_of(node, name, unit, points))
        found.append(summary_of("", name, unit, together, line=False))
    return found
