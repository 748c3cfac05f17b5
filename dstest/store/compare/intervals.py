"""What a difference between two sides of runs is worth.

The unit is the run: operations of one run are not independent of each other, runs are. The ratio of
two sides is that of their geometric means, and its interval is Welch's on the logarithms (Welch
1947), which holds what it promises for as few as three runs a side; a bootstrap of so few does not.
Whoever makes several comparisons for one decision asks each for more, so that all intervals
together hold with the confidence that is named (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import msgspec

_TERMS_MAX: Final = 300
_TINY: Final = 1e-300
_EXACT: Final = 1e-15
_HALVINGS: Final = 200
RUNS_MIN: Final = 3
Judgement = Literal["better", "worse", "no difference seen", "within tolerance", "unknown"]


def t_quantile(probability: float, freedom: float) -> float:
    """The value below which Student's t lies with this probability, 0.5 or more; `freedom` are its
    degrees of freedom, which need not be whole.

    Few runs have wide intervals by it. Its distribution function is an incomplete beta function,
    evaluated by its continued fraction (Abramowitz and Stegun 1964, 26.5.8 and 26.7.1; the modified
    method of Lentz), and inverted by bisection.
    """
    if not (0.5 <= probability < 1 and freedom > 0):
        raise ValueError(f"no quantile for {probability} and {freedom} degrees of freedom")
    low, high = 0.0, 1.0
    while _below(high, freedom) < probability:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _below(value: float, freedom: float) -> float:
    """The probability of a smaller value, for one of 0 or more."""
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized one."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logs + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    found, c = 1.0, 1.0
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _TERMS_MAX):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            found *= d * c
        if abs(d * c - 1) < _EXACT:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A metric on both sides: means with their intervals, and the ratio candidate / baseline, of
    geometric means, with its own. `judgement` compares the whole interval of the ratio with the
    tolerance: where a part of it is beyond, nothing is known."""

    metric: str
    baseline: float
    candidate: float
    baseline_interval: tuple[float, float]
    candidate_interval: tuple[float, float]
    ratio: float
    ratio_interval: tuple[float, float]
    runs: tuple[int, int]
    judgement: Judgement
    why: str = ""


class _Spread(NamedTuple):
    """A mean, and by how much it scatters: the variance of the mean and its degrees of freedom."""

    mean: float
    variance: float
    freedom: int

    @classmethod
    def of(cls, values: Sequence[float]) -> _Spread:
        count = len(values)
        mean = math.fsum(values) / count
        squares = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, squares / (count - 1) / count, count - 1)

    def interval(self, confidence: float) -> tuple[float, float]:
        return _about(self.mean, self.variance, self.freedom, confidence)


def _about(
    middle: float, variance: float, freedom: float, confidence: float
) -> tuple[float, float]:
    if variance <= 0:
        return middle, middle
    half = t_quantile((1 + confidence) / 2, freedom) * math.sqrt(variance)
    return middle - half, middle + half


def _apart(before: _Spread, now: _Spread, confidence: float) -> tuple[float, float]:
    """Welch's interval of the difference of two means."""
    variance = before.variance + now.variance
    parts = sum(one.variance**2 / one.freedom for one in (before, now))
    freedom = variance**2 / parts if parts > 0 else float(before.freedom + now.freedom)
    return _about(now.mean - before.mean, variance, freedom, confidence)


def compare(
    metric: str,
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    more_is_better: bool,
    tolerance: float,
    confidence: float = 0.95,
    comparisons: int = 1,
) -> Difference:
    """One metric of both sides. `tolerance` is the share by which the candidate may be worse,
    `comparisons` how many one decision rests on.

    A side with fewer than `RUNS_MIN` runs and a value that is not finite leave the answer unknown.
    Where a value is 0, the difference of the means is judged, not their ratio.
    """
    confidence = 1 - (1 - confidence) / comparisons
    why = ""
    if min(len(baseline), len(candidate)) < RUNS_MIN:
        why = f"{RUNS_MIN} runs at least on each side, not {len(baseline)} and {len(candidate)}"
    elif not all(map(math.isfinite, [*baseline, *candidate])):
        why = "of a run no value is known, or it has no end"
    if why:
        return Difference(
            metric=metric,
            baseline=_mean(baseline),
            candidate=_mean(candidate),
            baseline_interval=(float("nan"), float("nan")),
            candidate_interval=(float("nan"), float("nan")),
            ratio=float("nan"),
            ratio_interval=(float("nan"), float("nan")),
            runs=(len(baseline), len(candidate)),
            judgement="unknown",
            why=why,
        )
    if min(*baseline, *candidate) <= 0:
        return _with_zeros(metric, baseline, candidate, confidence, more_is_better, tolerance)
    logs = [_Spread.of([math.log(value) for value in side]) for side in (baseline, candidate)]
    apart = _apart(logs[0], logs[1], confidence)
    ratio = (math.exp(apart[0]), math.exp(apart[1]))
    judgement = _judgement(ratio, more_is_better, tolerance)
    wide = f"the ratio is between {ratio[0]:.3f} and {ratio[1]:.3f}, more runs tell more"
    return Difference(
        metric=metric,
        baseline=_mean(baseline),
        candidate=_mean(candidate),
        baseline_interval=_Spread.of(baseline).interval(confidence),
        candidate_interval=_Spread.of(candidate).interval(confidence),
        ratio=math.exp(logs[1].mean - logs[0].mean),
        ratio_interval=ratio,
        runs=(len(baseline), len(candidate)),
        judgement=judgement,
        why=wide if judgement == "unknown" else "",
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _judgement(ratio: tuple[float, float], more_is_better: bool, tolerance: float) -> Judgement:
    low, high = ratio
    if more_is_better:
        worse, may_be, better = high < 1 - tolerance, low < 1 - tolerance, low > 1
    else:
        worse, may_be, better = low > 1 + tolerance, high > 1 + tolerance, high < 1
    if worse:
        return "worse"
    if may_be:
        return "unknown"
    if better:
        return "better"
    return "within tolerance" if (high < 1 if more_is_better else low > 1) else "no difference seen"


def _with_zeros(
    metric: str,
    baseline: Sequence[float],
    candidate: Sequence[float],
    confidence: float,
    more_is_better: bool,
    tolerance: float,
) -> Difference:
    """Of a zero there is no logarithm: the difference of the means counts, which may be a share of
    the baseline's."""
    before, now = _Spread.of(baseline), _Spread.of(candidate)
    low, high = _apart(before, now, confidence)
    may_be = tolerance * abs(before.mean)
    up, down = (high, low) if more_is_better else (-low, -high)  # by so much better, at most and
    judgement: Judgement = "unknown"  # at least
    if up < -may_be:
        judgement = "worse"
    elif down > 0:
        judgement = "better"
    elif low == high == 0:
        judgement = "no difference seen"
    return Difference(
        metric=metric,
        baseline=before.mean,
        candidate=now.mean,
        baseline_interval=before.interval(confidence),
        candidate_interval=now.interval(confidence),
        ratio=float("nan"),
        ratio_interval=(float("nan"), float("nan")),
        runs=(len(baseline), len(candidate)),
        judgement=judgement,
        why=f"a run has 0; the difference is {low:.4g} to {high:.4g}",
    )
