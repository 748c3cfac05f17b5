"""What a run measured of how it served: the metrics of the checker of service levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from checkers.slo import measured
from dstest.compare.fair import Side
from dstest.compare.intervals import Difference, compared

METRICS: Final = ("ok_per_s", "p50_ms", "p99_ms", "ok_ratio", "unknown_ratio", "gap_s")
"""Those that are compared where nobody names others."""

_WORDS: Final = {
    "max_ms": "longest latency, ms",
    "ok_ratio": "share of operations that were served",
    "unknown_ratio": "share of operations whose outcome is unknown",
    "ok_per_s": "operations served per second",
    "gap_s": "longest stretch in which none was served, s",
    "p50_ms": "median latency, ms",
}

MORE_IS_BETTER: Final = frozenset({"ok_per_s", "ok_ratio"})


def differences_of(
    baseline: Side,
    candidate: Side,
    metrics: Sequence[str],
    *,
    tolerance: float,
    confidence: float,
    comparisons: int | None = None,
) -> list[Difference]:
    """Each metric over the load of all runs. `comparisons` are those of the decision, by itself as
    many as there are metrics. ValueError for a metric that there is not."""
    rows = []
    for metric in metrics:
        found = [
            [measured(run.history, metric, stopped=bool(run.meta.stopped_by)) for run in side.runs]
            for side in (baseline, candidate)
        ]
        row = compared(
            metric,
            [_value(one) for one in found[0]],
            [_value(one) for one in found[1]],
            more_is_better=metric in MORE_IS_BETTER,
            tolerance=tolerance,
            confidence=confidence,
            comparisons=comparisons or len(metrics),
        )
        lacking = dict.fromkeys(one for side in found for one in side if isinstance(one, str))
        rows.append(msgspec.structs.replace(row, why="; ".join(filter(None, [row.why, *lacking]))))
    return rows


def metric_words(metric: str) -> str:
    """What a metric is: `99th percentile of latency, ms`."""
    per = metric.removeprefix("p").removesuffix("_ms")
    shown = f"{per[:2]}.{per[2:]}".rstrip(".")
    return _WORDS.get(metric) or f"{shown}th percentile of latency, ms"


def _value(found: float | str) -> float:
    """Not a number where there is no value."""
    return float("nan") if isinstance(found, str) else found
