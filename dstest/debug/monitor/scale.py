"""How a number of runs grows with the size of their clusters: O(1), O(log n), O(n), O(n log n),
O(n²).

    throughput, p50, p95, p99     what clients saw
    NAME                          the mean of a series over all samples of all nodes
    NAME/op                       what all nodes together had of it per operation that succeeded

Each class is a line `a + b f(n)`, fitted by weighted least squares to the means of the sizes. The
best has the highest R²; where another is as near as measurements are known it is `undecided`. What
does not grow by a tenth over all sizes is O(1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.debug.monitor.client import Clients
from dstest.debug.monitor.settings import mean
from dstest.debug.monitor.silence import EVERY_MOST, silent_for_ns, spacing_ns

OF_CLIENTS: Final = ("throughput", "p50", "p95", "p99")
PER_OP: Final = "/op"
Series = Mapping[tuple[str, str], Sequence[tuple[int, float]]]
SIZES_LEAST: Final = 3
GROWTH_LEAST: Final = 0.1
"""A number whose mean over sizes differs by less than this share of it is taken not to grow."""

R2_LEAST: Final = 0.9
"""Where the best class explains less than this, none of them is what it is."""

KNOWN_TO: Final = 0.02
"""How well a value is known of which there are no repetitions: its standard error, as a share."""

APART_ALONE: Final = 6.0
APART_REPEATED: Final = 14.0
"""A class is as good as the best where its sum of squares, in standard errors, is larger by less.
That of few repetitions is itself uncertain: 14 is the F test's 1 % with 1 and 6 degrees."""

BELIEVED: Final = 4
"""What few repetitions say of how well a value is known is itself uncertain: `KNOWN_TO` counts as
much as so many of them."""

ALIKE_OF_THREE: Final = 0.01
"""Of three sizes, which any curve nearly meets, classes are alike whose R² differs by less."""

VALUE_MOST: Final = 1e60
"""Of a value that is compared: squares of squares of it are numbers still."""

FLOOR: Final = 0.05
"""Values that are smaller than this share of the largest are known no better than at that."""

CLASSES: Final[Mapping[str, Callable[[float], float]]] = MappingProxyType(
    {
        "O(1)": lambda n: 0.0,
        "O(log n)": math.log,
        "O(n)": lambda n: n,
        "O(n log n)": lambda n: n * math.log(n),
        "O(n²)": lambda n: n * n,
    }
)
"""By name, from the slowest growth up."""


def value_of(
    metric: str, clients: Clients, series: Series, units: Mapping[str, str], end_ns: int
) -> tuple[float, str]:
    """(value, unit) from the beginning of the load up to `end_ns`, where the first fault begins.
    Raises ConfigError for a metric that the run does not have."""
    seen = clients.within(clients.start_ns, end_ns)
    if metric in OF_CLIENTS:
        if metric == "throughput":
            return seen.throughput, "1/s"
        found = seen.latency_ms(float(metric[1:]) / 100)
        if found is None:
            raise _lacks(metric, ["no operation succeeded"])
        return found, "ms"
    name = metric.removesuffix(PER_OP)
    points = _points(name, series, clients.start_ns, end_ns)
    if not points:
        raise _lacks(metric, sorted({other for node, other in series if node}))
    unit = units.get(name, "1")
    if not metric.endswith(PER_OP):
        return mean([value for row in points.values() for _, value in row]), unit
    # What was sampled is from the first sample to the last one, and so are its operations.
    firsts, lasts = zip(*((row[0][0], row[-1][0]) for row in points.values()), strict=True)
    seen = clients.within(min(firsts), max(lasts))
    if not seen.ok:
        raise _lacks(metric, ["no operation succeeded"])
    return sum(_total(row, unit) for row in points.values()) / seen.ok, unit.removesuffix("/s")


def lacking_of(
    metric: str,
    nodes: Sequence[str],
    clients: Clients,
    series: Series,
    end_ns: int,
    limit_ns: int,
) -> list[str]:
    """Of whom nothing, or nothing for longer than `limit_ns`, was sampled where `value_of` looks:
    a value over fewer nodes, or part of the time, is none of as many nodes as the run has."""
    if metric in OF_CLIENTS:
        return []
    points = _points(metric.removesuffix(PER_OP), series, clients.start_ns, end_ns)
    apart_ns = max((spacing_ns(row) for row in points.values()), default=0.0)
    longest_ns = max(limit_ns, EVERY_MOST * apart_ns)
    return [
        node
        for node in nodes
        if node not in points or silent_for_ns(points[node], clients.start_ns, end_ns) > longest_ns
    ]


def _points(
    name: str, series: Series, start_ns: int, end_ns: int
) -> dict[str, list[tuple[int, float]]]:
    """By node what was sampled then, of those that have two samples at least."""
    points = {
        node: [(t, v) for t, v in series[node, other] if start_ns <= t < end_ns]
        for node, other in series
        if node and other == name
    }
    return {node: row for node, row in points.items() if len(row) > 1}


def _total(row: Sequence[tuple[int, float]], unit: str) -> float:
    """What a node has had of it: of a rate all of it, of a counter by how much it grew."""
    if unit.endswith("/s"):
        return mean([value for _, value in row]) * (row[-1][0] - row[0][0]) / 1e9
    return row[-1][1] - row[0][1]


def _lacks(metric: str, there: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"no {metric} in this run: {', '.join(there) or 'it was not sampled'}",
        remedy="a name of `dstest monitor RUN --json`, with /op for what an operation takes",
    )


_SPELLED: Final = MappingProxyType(
    {"1": "O(1)", "log": "O(log n)", "n": "O(n)", "nlog": "O(n log n)", "n2": "O(n²)"}
)


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """One class: value ≈ `base` + `per` f(n). `r2` is the share of the variance between the sizes
    that it explains, below zero where it is worse than the mean."""

    name: str
    base: float
    per: float
    r2: float
    rest: float
    """Sum of squares that is not explained, in standard errors."""


class Complexity(msgspec.Struct, frozen=True, kw_only=True):
    """`best` is the name of a class, or `undecided`, with those that are `alike`. `agrees`: with
    what was expected; None where nothing was, or where it is undecided and the expected one is
    among those alike."""

    best: str
    alike: list[str]
    fits: list[Fit]
    sizes: list[int]
    points: int
    said: str
    expected: str | None = None
    agrees: bool | None = None


def class_named(text: str) -> str:
    """`n2`, `O(n^2)`, `n log n`: the class. Raises ConfigError."""
    plain = text.strip()
    if plain in CLASSES:
        return plain
    key = plain.lower().removeprefix("o(").removesuffix(")").replace(" ", "").replace("*", "")
    key = key.replace("²", "2").replace("^", "").replace("logn", "log")
    if key not in _SPELLED:
        raise ConfigError(f"{text!r} is no class of growth", remedy=f"one of {', '.join(_SPELLED)}")
    return _SPELLED[key]


def fit(points: Sequence[tuple[int, float]], expected: str | None = None) -> Complexity:
    """Of (nodes, value). Raises ConfigError for fewer than three sizes, a size below one, and
    values that are no numbers."""
    sizes = sorted({n for n, _ in points})
    if len(sizes) < SIZES_LEAST:
        raise ConfigError(
            f"{len(sizes)} sizes of clusters; growth takes {SIZES_LEAST} to tell",
            remedy="runs with more values of --nodes, the largest several times the smallest",
        )
    if sizes[0] < 1 or not all(math.isfinite(value) for _, value in points):
        raise ConfigError("a size below one, or a value that is no number", remedy="leave it out")
    if any(abs(value) > VALUE_MOST or 0 < abs(value) < 1 / VALUE_MOST for _, value in points):
        raise ConfigError(
            f"a value beyond {VALUE_MOST:g}, or nearer to 0 than {1 / VALUE_MOST:g}",
            remedy="give values in a larger or smaller unit",
        )
    by_size: dict[int, list[float]] = defaultdict(list)
    for n, value in points:
        by_size[n].append(value)
    means = [mean(by_size[n]) for n in sizes]
    errors, repeated = _errors(by_size, sizes, means)
    fits = [_fitted(name, sizes, means, errors) for name in CLASSES]
    best, alike, said = _decided(fits, means, APART_REPEATED if repeated else APART_ALONE)
    agrees = None
    if expected is not None and (best != "undecided" or expected not in alike):
        agrees = best == expected
    return Complexity(
        best=best,
        alike=alike,
        fits=fits,
        sizes=sizes,
        points=len(points),
        said=said,
        expected=expected,
        agrees=agrees,
    )


def _errors(
    by_size: Mapping[int, Sequence[float]], sizes: Sequence[int], means: Sequence[float]
) -> tuple[list[float], bool]:
    """Standard error of the mean of each size, in proportion to it, and whether that is known."""
    squares = [
        math.fsum((v - mean(row)) ** 2 for v in row) / mean(row) ** 2
        for row in by_size.values()
        if len(row) > 1 and mean(row) != 0
    ]
    free = sum(len(row) - 1 for row in by_size.values() if mean(row) != 0)
    scale = max(map(abs, means)) or 1.0
    repeated = free > 0
    one = math.sqrt((math.fsum(squares) + BELIEVED * KNOWN_TO**2) / (free + BELIEVED))
    known = [one / math.sqrt(len(by_size[n]) if repeated else 1) for n in sizes]
    return [
        share * max(abs(value), FLOOR * scale) for share, value in zip(known, means, strict=True)
    ], repeated


def _fitted(
    name: str, sizes: Sequence[int], values: Sequence[float], errors: Sequence[float]
) -> Fit:
    weights = [1 / error**2 for error in errors]
    whole = math.fsum(weights)
    grown = [CLASSES[name](n) for n in sizes]
    rows = list(zip(weights, grown, values, strict=True))
    mx = math.fsum(w * x for w, x, _ in rows) / whole
    my = math.fsum(w * y for w, _, y in rows) / whole
    sxx = math.fsum(w * (x - mx) ** 2 for w, x, _ in rows)
    sxy = math.fsum(w * (x - mx) * (y - my) for w, x, y in rows)
    per = max(0.0, sxy / sxx) if sxx > 0 else 0.0
    base = my - per * mx
    rest = math.fsum(w * (y - base - per * x) ** 2 for w, x, y in rows)
    total = math.fsum(w * (y - my) ** 2 for w, _, y in rows)
    r2 = 1 - rest / total if total > 0 else float(name == "O(1)")
    return Fit(name=name, base=base, per=per, r2=r2, rest=rest)


def _decided(
    fits: Sequence[Fit], values: Sequence[float], apart: float
) -> tuple[str, list[str], str]:
    scale = max(abs(value) for value in values)
    if max(values) - min(values) <= GROWTH_LEAST * scale:
        said = f"it does not grow: {min(values):g} to {max(values):g} over all sizes"
        return "O(1)", [], said
    growing = [one for one in fits if one.name != "O(1)"]
    best = max(growing, key=lambda one: one.r2)
    if values[-1] <= values[0] or best.r2 < R2_LEAST:
        said = f"none of the classes explains it (the best, {best.name}, R² {best.r2:.3f})"
        return "undecided", [], said
    # Where even the best lies further off than the errors say, these are too small.
    free = max(1, len(values) - 2)
    near = ALIKE_OF_THREE if len(values) == SIZES_LEAST else 0.0
    alike = [
        one.name
        for one in growing
        if one.rest - best.rest <= apart * max(1.0, best.rest / free) or best.r2 - one.r2 <= near
    ]
    if len(alike) > 1:
        said = f"{' and '.join(alike)} fit alike: more sizes, or ones further apart, would tell"
        return "undecided", alike, said
    second = max((one for one in growing if one is not best), key=lambda one: one.r2)
    said = f"R² {best.r2:.4f}, next {second.name} with {second.r2:.4f}"
    return best.name, [], said
