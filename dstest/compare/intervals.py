"""What a difference between two sides of runs is worth.

The unit is the run: operations of one run are not independent of each other, runs are. A side is
drawn anew from its runs, with replacement, and the ratio of the means of two such drawings has an
interval (the percentile bootstrap, Efron and Tibshirani 1993, chapter 13). Of three runs on each
side that is a coarse thing, which the answer says by its number of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

__all__ = ["RUNS_MIN", "Difference", "Judgement", "compared"]

RUNS_MIN: Final = 3
_DRAWS: Final = 10_000
_SEED: Final = 20_261_127

Judgement = Literal["better", "worse", "no difference seen", "within tolerance", "unknown"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A metric on both sides: means with their intervals, and the ratio candidate / baseline with
    its own. `judgement` compares the whole interval of the ratio with the tolerance: where a part
    of it is beyond, nothing is known."""

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


def _draws(values: Sequence[float], side: int) -> NDArray[np.float64]:
    """Means of drawings with replacement; those of two sides are independent."""
    dice = np.random.default_rng([_SEED, side])
    found = np.asarray(values, dtype=np.float64)
    at = dice.integers(0, len(found), size=(_DRAWS, len(found)))
    means: NDArray[np.float64] = found[at].mean(axis=1)
    return means


def _interval(draws: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def compared(
    metric: str,
    baseline: Sequence[float],
    candidate: Sequence[float],
    *,
    more_is_better: bool,
    tolerance: float,
    confidence: float = 0.95,
) -> Difference:
    """One metric of both sides. `tolerance` is the share by which the candidate may be worse.

    A side with fewer than `RUNS_MIN` runs, a value that is not finite and a baseline of zero leave
    the answer unknown.
    """
    why = ""
    if min(len(baseline), len(candidate)) < RUNS_MIN:
        why = f"{RUNS_MIN} runs at least on each side, not {len(baseline)} and {len(candidate)}"
    elif not np.isfinite([*baseline, *candidate]).all():
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
    of_base, of_cand = _draws(baseline, 0), _draws(candidate, 1)
    if not all(baseline):
        return _from_zero(
            metric, baseline, candidate, (of_base, of_cand), confidence, more_is_better
        )
    ratio = _interval(of_cand / of_base, confidence)
    judgement = _judged(ratio, more_is_better, tolerance)
    wide = f"the ratio is between {ratio[0]:.3f} and {ratio[1]:.3f}, more runs tell more"
    return Difference(
        metric=metric,
        baseline=_mean(baseline),
        candidate=_mean(candidate),
        baseline_interval=_interval(of_base, confidence),
        candidate_interval=_interval(of_cand, confidence),
        ratio=_mean(candidate) / _mean(baseline),
        ratio_interval=ratio,
        runs=(len(baseline), len(candidate)),
        judgement=judgement,
        why=wide if judgement == "unknown" else "",
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(np.asarray(values, dtype=np.float64))) if values else float("nan")


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


def _from_zero(
    metric: str,
    baseline: Sequence[float],
    candidate: Sequence[float],
    draws: tuple[NDArray[np.float64], NDArray[np.float64]],
    confidence: float,
    more_is_better: bool,
) -> Difference:
    """Of a baseline with a zero in it there is no ratio: the difference of the means counts."""
    low, high = _interval(draws[1] - draws[0], confidence)
    grew, shrank = low > 0, high < 0
    judgement: Judgement = "no difference seen" if low == high == 0 else "unknown"
    if grew or shrank:
        judgement = "better" if grew == more_is_better else "worse"
    return Difference(
        metric=metric,
        baseline=_mean(baseline),
        candidate=_mean(candidate),
        baseline_interval=_interval(draws[0], confidence),
        candidate_interval=_interval(draws[1], confidence),
        ratio=float("nan"),
        ratio_interval=(float("nan"), float("nan")),
        runs=(len(baseline), len(candidate)),
        judgement=judgement,
        why=f"a run of the baseline has 0; the difference is {low:.4g} to {high:.4g}",
    )
