"""Thresholds of alerts and health: one table. Users change them by `core/thresholds.py`.

The numbers are those of discipline 7.2 (d); which of them are ours is said in `docs/monitor.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

STRETCH_LEAST_S: Final = 0.1
"""Shorter than that nothing is measured for."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them. Shares are between 0 and 1; `times` are multiples of the baseline."""

    warm_up_s: float = 30.0
    measure_s: float = 120.0
    variation_most: float = 0.05
    """Coefficient of variation of the throughput up to which a baseline is accepted."""
    part_s: float = 10.0
    """The parts of a baseline over which it varies; shorter ones where there would be fewer than
    three: of few operations the mere chance of their arrival varies."""
    measure_least_s: float = 3.0
    operations_least: int = 100

    check_every_s: float = 5.0
    clear_checks: int = 2
    """So many checks in a row without cause end an alert."""
    slow_operations_least: int = 5
    after_heal_s: float = 30.0
    """A fault explains what comes until the load went well again after its heal; of a run that goes
    on, where nobody knows yet when that is, so long."""

    samples_missing_s: float = 10.0
    """A node that was to be sampled and has no sample for longer is missed; three samples at least,
    where they are further apart."""

    latency_times: float = 1.5
    latency_clear_times: float = 1.25
    latency_spike_ms: float = 1000.0
    """A p99 above this is a spike as well, where it is so many times that of the baseline."""
    latency_slack_ms: float = 5.0
    """A latency counts as changed only where it is more than this above the baseline's."""
    throughput_least: float = 0.7
    throughput_clear: float = 0.8
    throughput_high: float = 0.25
    throughput_critical: float = 0.05

    latency_medium_ms: float = 500.0
    latency_high_ms: float = 1000.0
    latency_critical_ms: float = 5000.0
    p95_ms: float = 500.0
    p99_ms: float = 1000.0
    errors_per_1000: float = 10.0
    errors_high_per_1000: float = 50.0
    errors_critical_per_1000: float = 100.0
    timeouts: float = 0.05
    rss_bytes: float = 512e6
    cpu_percent: float = 80.0
    connections: float = 1000.0
    queue: float = 10_000.0
    consensus_failures: float = 0.01
    consensus_failures_high: float = 0.05
    consensus_failures_critical: float = 0.10

    responsive_ms: float = 1000.0
    participation: float = 0.9
    lag_entries: float = 200.0
    health_window_s: float = 30.0
    healthy_share: float = 0.7
    healthy_mean: float = 0.8
    half_healthy_share: float = 0.5


LEAST: Final[Mapping[str, float]] = dict.fromkeys(
    ("check_every_s", "measure_s", "part_s"), STRETCH_LEAST_S
)
"""What may not be shorter."""

MOST: Final[Mapping[str, float]] = {"rss_bytes": 1e18}
"""What may be larger than other thresholds: bytes, up to an exabyte."""
