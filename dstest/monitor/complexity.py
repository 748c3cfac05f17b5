"""How a number grows with the size of a cluster: O(1), O(log n), O(n), O(n log n) or O(n²)?

Each class is a line `a + b f(n)` that is fitted by least squares, with `b` not below zero. The best
is the one that leaves the least unexplained; another one that leaves hardly more is as good, and
then it is `undecided`: from few sizes close together nobody can tell n from n log n. What does not
grow beyond the noise of its own repetitions is O(1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.monitor.numbers import mean

__all__ = ["CLASSES", "Complexity", "Fit", "class_named", "fit"]

SIZES_LEAST: Final = 3
GROWTH_LEAST: Final = 0.1
"""A number whose mean over sizes differs by less than this share of it is taken not to grow."""

AS_GOOD: Final = 0.05
"""R² that far from the best is as good as the best."""

R2_LEAST: Final = 0.9
"""Where the best class explains less than this, none of them is what it is."""

RATIO: Final = 4.0
"""A class whose unexplained rest is this many times that of the best is not as good, however high
its R²: of exact data the true class leaves next to nothing."""

FLOOR: Final = 1e-9

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
    """Sum of squares that is not explained."""


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
    by_size: dict[int, list[float]] = defaultdict(list)
    for n, value in points:
        by_size[n].append(value)
    means = [(n, mean(by_size[n])) for n in sizes]
    fits = [_fitted(name, means) for name in CLASSES]
    best, alike, said = _decided(fits, means, by_size)
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


def _fitted(name: str, means: Sequence[tuple[int, float]]) -> Fit:
    grown = [CLASSES[name](n) for n, _ in means]
    values = [value for _, value in means]
    mx, my = mean(grown), mean(values)
    sxx = math.fsum((x - mx) ** 2 for x in grown)
    sxy = math.fsum((x - mx) * (y - my) for x, y in zip(grown, values, strict=True))
    per = max(0.0, sxy / sxx) if sxx > 0 else 0.0
    base = my - per * mx
    rest = math.fsum((y - base - per * x) ** 2 for x, y in zip(grown, values, strict=True))
    total = math.fsum((y - my) ** 2 for y in values)
    r2 = 1 - rest / total if total > 0 else (1.0 if name == "O(1)" else 0.0)
    return Fit(name=name, base=base, per=per, r2=r2, rest=rest)


def _noise(by_size: Mapping[int, Sequence[float]]) -> float:
    """Standard error of the mean of a size, from repetitions; 0 where there are none."""
    errors = [
        math.fsum((v - mean(row)) ** 2 for v in row) / (len(row) - 1) / len(row)
        for row in by_size.values()
        if len(row) > 1
    ]
    return math.sqrt(mean(errors)) if errors else 0.0


def _decided(
    fits: Sequence[Fit], means: Sequence[tuple[int, float]], by_size: Mapping[int, Sequence[float]]
) -> tuple[str, list[str], str]:
    values = [value for _, value in means]
    grew = values[-1] - values[0]
    scale = max(abs(value) for value in values)
    noise = _noise(by_size)
    flat = max(values) - min(values) <= max(GROWTH_LEAST * scale, 3 * noise)
    if flat:
        said = f"it does not grow: {min(values):g} to {max(values):g} over all sizes"
        return "O(1)", [], said
    growing = [one for one in fits if one.name != "O(1)"]
    best = max(growing, key=lambda one: one.r2)
    if grew <= 0 or best.r2 < R2_LEAST:
        said = f"none of the classes explains it (the best, {best.name}, R² {best.r2:.3f})"
        return "undecided", [], said
    floor = max(best.rest, FLOOR * scale * scale, noise * noise * len(means))
    alike = [
        one.name for one in growing if best.r2 - one.r2 <= AS_GOOD and one.rest <= RATIO * floor
    ]
    if len(alike) > 1:
        said = f"{' and '.join(alike)} fit alike: more sizes, or ones further apart, would tell"
        return "undecided", alike, said
    second = max((one for one in growing if one is not best), key=lambda one: one.r2)
    said = f"R² {best.r2:.4f}, next {second.name} with {second.r2:.4f}"
    return best.name, [], said
