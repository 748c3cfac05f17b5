"""What the trials of an entry say together: one row of the page, or of `dstest findings --json`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from dstest.core.shares import interval
from dstest.findings.entries.finding import Finding
from dstest.findings.measure import Trial, as_expected


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`as_expected` of `trials` ended as they must; the true rate lies between `rate_low` and
    `rate_high` (95 %, Wilson 1927). `after_s` is the median of the seconds of load until a
    violation was known, None where none was; `anomalies` are of those as expected, `missed` the
    seeds of the others."""

    trials: int
    as_expected: int
    rate_low: float
    rate_high: float
    after_s: float | None
    versions: list[str]
    anomalies: list[str]
    missed: list[int]


def summary(finding: Finding, trials: Sequence[Trial]) -> Summary:
    """Of trials of one entry."""
    good = [trial for trial in trials if as_expected(finding, trial)]
    rate = interval(len(good), len(trials))
    times = [trial.found_s for trial in good if trial.found_s is not None]
    return Summary(
        trials=rate.total,
        as_expected=rate.hits,
        rate_low=rate.low,
        rate_high=rate.high,
        after_s=statistics.median(times) if times else None,
        versions=sorted({trial.version for trial in trials if trial.version}),
        anomalies=sorted({kind for trial in good for kind in trial.anomalies}),
        missed=[trial.seed for trial in trials if trial not in good],
    )
