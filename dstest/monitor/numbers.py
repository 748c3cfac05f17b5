"""Quantiles and the like."""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """Raises ValueError for none."""
    if not values:
        raise ValueError("the mean of nothing")
    return math.fsum(values) / len(values)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of values in order, between neighbours in proportion (Hyndman and Fan 1996, type 7)."""
    if not ordered:
        raise ValueError("a quantile of nothing")
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def variation(values: Sequence[float]) -> float:
    """Coefficient of variation: sample standard deviation by mean. Infinite where the mean is 0."""
    middle = mean(values)
    if len(values) < 2:
        raise ValueError("one value does not vary")
    if middle == 0:
        return math.inf
    squares = math.fsum((value - middle) ** 2 for value in values)
    return math.sqrt(squares / (len(values) - 1)) / abs(middle)


def typical(values: Sequence[float | None]) -> tuple[float, float]:
    """The median, and 1.4826 times the median distance from it; zeros where there is none."""
    there = sorted(value for value in values if value is not None)
    if not there:
        return 0.0, 0.0
    middle = quantile(there, 0.5)
    return middle, 1.4826 * quantile(sorted(abs(value - middle) for value in there), 0.5)


def slope(points: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """(slope, R²) of the least-squares line; None where it is not determined."""
    if len(points) < 3:
        return None
    mx, my = mean([x for x, _ in points]), mean([y for _, y in points])
    sxx = math.fsum((x - mx) ** 2 for x, _ in points)
    syy = math.fsum((y - my) ** 2 for _, y in points)
    sxy = math.fsum((x - mx) * (y - my) for x, y in points)
    if sxx == 0:
        return None
    return sxy / sxx, 0.0 if syy == 0 else sxy * sxy / (sxx * syy)


def quantity(value: float, unit: str) -> str:
    """A number with its unit, as short as can be read: bytes by thousands, counts without one."""
    if unit.startswith("B"):
        for step, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= step:
                return f"{value / step:.3g} {prefix}{unit}"
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return shown if unit == "1" else f"{shown} {unit}"
