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

from dstest.compare.student import t_quantile

RUNS_MIN: Final = 3

Judgement = Literal["better", "worse", "no difference seen", "within tolerance", "unknown"]


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


def compared(
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
    judgement = _judged(ratio, more_is_better, tolerance)
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


def _judged(ratio: tuple[float, float], more_is_better: bool, tolerance: float) -> Judgement:
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
