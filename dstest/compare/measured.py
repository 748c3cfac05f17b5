"""What a run measured of how it served: the metrics of the checker of service levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from checkers.slo import measured
from dstest.compare.fair import Side
from dstest.compare.intervals import Difference, compared

__all__ = ["METRICS", "MORE_IS_BETTER", "differences_of"]

METRICS: Final = ("ok_per_s", "p50_ms", "p99_ms", "ok_ratio", "unknown_ratio", "gap_s")
"""Those that are compared where nobody names others."""

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
        values = [
            [_value(measured(run.history, metric)) for run in side.runs]
            for side in (baseline, candidate)
        ]
        rows.append(
            compared(
                metric,
                values[0],
                values[1],
                more_is_better=metric in MORE_IS_BETTER,
                tolerance=tolerance,
                confidence=confidence,
                comparisons=comparisons or len(metrics),
            )
        )
    return rows


def _value(found: float | str) -> float:
    """Not a number where there is no value."""
    return float("nan") if isinstance(found, str) else found
