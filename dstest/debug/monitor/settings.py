"""What alerts and health need everywhere: the table of thresholds (users change them by
`core/settings.py`, see `docs/reference/explain.md`), statistics, and which faults explain an alert.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from dstest.core import registry
from dstest.core.evidence import LandingRecord
from dstest.core.history import FaultWindow, windows_of
from dstest.core.run_record import RunMeta

STRETCH_LEAST_S: Final = 0.1
"""Shorter than that nothing is measured for."""

LEAST: Final[Mapping[str, float]] = dict.fromkeys(
    ("check_every_s", "measure_s", "part_s"), STRETCH_LEAST_S
)
"""What may not be shorter."""

MOST: Final[Mapping[str, float]] = {"rss_bytes": 1e18}
"""What may be larger than other thresholds: bytes, up to an exabyte."""


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


class StandingFault(NamedTuple):
    """A fault that stood in a stretch: has it landed, and does it explain what was found then?"""

    fault_id: str
    proven: bool
    explains: bool


class Faults:
    """The faults of a run, in order of their beginning."""

    def __init__(self, windows: Sequence[FaultWindow] = ()) -> None:
        self.windows = list(windows)

    @property
    def first_ns(self) -> int | None:
        """When the first one began; None where there was none."""
        return min((window.start_ns for window in self.windows), default=None)

    def stood(self, node: str, start_ns: int, end_ns: int) -> list[StandingFault]:
        """Those that overlap a stretch, for what was found then of a node; empty: the cluster."""
        middle_ns, half_ns = (start_ns + end_ns) // 2, (end_ns - start_ns + 1) // 2
        return [
            StandingFault(one.id, one.landed == "yes", one.explains(middle_ns, node, half_ns))
            for one in self.windows
            if one.shows(middle_ns - half_ns, middle_ns + half_ns)
        ]

    def ended(self, node: str, start_ns: int, end_ns: int) -> list[tuple[str, int, int]]:
        """(id, from, to) of what lies in a stretch of proven faults that end this node itself, from
        their injection until they were healed."""
        found = []
        for window in self.windows:
            if window.landed != "yes" or (window.nodes and node not in window.nodes):
                continue
            begin = max(start_ns, window.start_ns)
            end = end_ns if window.healed_ns is None else min(end_ns, window.healed_ns)
            if begin < end and registry.known("nemeses", window.nemesis).restarts_nodes:
                found.append((window.id, begin, end))
        return found


def faults_of(
    records: Sequence[LandingRecord], meta: RunMeta, after_heal_s: float, timeout_ns: int = 0
) -> Faults:
    """Of a run's own words. What was asked while a fault stood ends a timeout later at the latest;
    of a run that goes on nobody knows yet when the load went well again, and a fault is taken to
    show for `after_heal_s`."""
    late_ns = timeout_ns + (int(after_heal_s * 1e9) if meta.recoveries is None else 0)
    return Faults(
        [
            one
            if one.until_ns is None
            else msgspec.structs.replace(one, until_ns=one.until_ns + late_ns)
            for one in windows_of(records, meta.recoveries or (), strict=True)
        ]
    )


def unwell_ns_of(records: Sequence[LandingRecord], meta: RunMeta) -> int | None:
    """When the last fault was healed, where the load never went well again; None where it did, and
    where another fault came before it could."""
    recoveries = meta.recoveries or ()
    if not recoveries or recoveries[-1].settled_ns is not None:
        return None
    healed_ns = recoveries[-1].healed_ns
    begun = [one.injected_at for one in records if one.injected_at is not None]
    return healed_ns if max(begun, default=0) <= healed_ns else None
