"""Summaries of series; the baseline of a run (what it was like before its first fault, and whether
it held still); the health of nodes and of the cluster in a stretch of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from dstest.debug.monitor.client import Clients
from dstest.debug.monitor.settings import Settings, mean, quantile, slope, typical, variation

SHORT_WARM_UP = 0.2
"""Of a stretch that is too short for warm-up and measurement: its share that is left out."""

PARTS_LEAST = 3

GROWS_R2: Final = 0.9
"""A series whose line explains this much of it grows (or falls) steadily."""

Points = Sequence[tuple[int, float]]


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """`accepted`: it held still. `unstable`: it did not; what is compared with it is worth less.
    `none`: there was too little to measure, and nothing is compared. `said` is a sentence; times
    are run nanoseconds, `throughput` operations per second, latencies milliseconds.

    It is measured in parts, and what it says is the median over these: a stretch that went wrong by
    itself makes it unstable, and does not become what is usual."""

    status: Literal["accepted", "unstable", "none"]
    said: str
    start_ns: int = 0
    end_ns: int = 0
    whole: bool = False
    """Was it as long as it should be?"""
    operations: int = 0
    throughput: float = 0.0
    variation: float | None = None
    spread: float = 0.0
    """Of the throughput of the parts: 1.4826 times the median distance from their median, which is
    the standard deviation of what is normally distributed, and knows no outliers."""
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    p95_spread_ms: float = 0.0
    """The same of the p95 of the parts."""
    errors_per_1000: float = 0.0


def baseline_of(
    clients: Clients, settings: Settings, first_fault_ns: int | None = None
) -> Baseline:
    """After the warm-up, up to the first fault at the latest."""
    end_ns = clients.end_ns if first_fault_ns is None else min(first_fault_ns, clients.end_ns)
    start_ns = clients.start_ns
    there_ns = end_ns - start_ns
    warm_ns, measure_ns = int(settings.warm_up_s * 1e9), int(settings.measure_s * 1e9)
    whole = there_ns >= warm_ns + measure_ns
    if not whole:
        warm_ns = min(warm_ns, int(there_ns * SHORT_WARM_UP))
        measure_ns = min(measure_ns, there_ns - warm_ns)
    start_ns += warm_ns
    end_ns = start_ns + measure_ns
    before = "the end of the load" if first_fault_ns is None else "the first fault"
    if measure_ns < settings.measure_least_s * 1e9:
        said = (
            f"{max(0, measure_ns) / 1e9:.1f} s before {before}; a baseline takes "
            f"{settings.measure_least_s:g} s"
        )
        return Baseline(status="none", said=said)
    seen = clients.within(start_ns, end_ns)
    if seen.operations < settings.operations_least or not seen.latencies_ms:
        said = f"{seen.operations} operations in {measure_ns / 1e9:.0f} s before {before}"
        return Baseline(status="none", said=f"{said}; a baseline takes {settings.operations_least}")
    return _measured(clients, settings, start_ns, end_ns, whole)


def _measured(
    clients: Clients, settings: Settings, start_ns: int, end_ns: int, whole: bool
) -> Baseline:
    part_ns = min(int(settings.part_s * 1e9), (end_ns - start_ns) // PARTS_LEAST)
    parts = [
        clients.within(at, at + part_ns) for at in range(start_ns, end_ns - part_ns + 1, part_ns)
    ]
    seen = clients.within(start_ns, end_ns)
    rates = [part.throughput for part in parts]
    varies = variation(rates)
    still = varies <= settings.variation_most
    lasted, began = f"{(end_ns - start_ns) / 1e9:.0f} s", f"from {start_ns / 1e9:.0f} s on"
    if whole:
        said = f"measured for {lasted} {began}"
    else:
        said = f"short ({lasted} of the {settings.measure_s:g} asked), measured {began}"
        said += f", where {settings.warm_up_s:g} s of warm-up are due"
    said += (
        f"; throughput varied by {varies:.1%} over {len(parts)} parts "
        f"({settings.variation_most:.0%} at most)"
    )
    rate, spread = typical(rates)
    p95, p95_spread = typical([part.latency_ms(0.95) for part in parts])
    return Baseline(
        status="accepted" if still else "unstable",
        said=said,
        start_ns=start_ns,
        end_ns=end_ns,
        whole=whole,
        operations=seen.operations,
        throughput=round(rate, 6),
        variation=None if math.isinf(varies) else round(varies, 6),
        spread=round(spread, 6),
        p50_ms=round(typical([part.latency_ms(0.5) for part in parts])[0], 6),
        p95_ms=round(p95, 6),
        p95_spread_ms=round(p95_spread, 6),
        p99_ms=round(typical([part.latency_ms(0.99) for part in parts])[0], 6),
        errors_per_1000=round(seen.errors_per_1000, 6),
    )


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """`node` is empty for all nodes together: the same quantiles over the samples of all.
    `per_s` is the slope of the least-squares line and `r2` how much of the series it explains."""

    node: str
    name: str
    unit: str
    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float
    per_s: float | None = None
    r2: float | None = None

    @property
    def steady(self) -> bool:
        """Does it grow, or fall, steadily?"""
        return self.r2 is not None and self.r2 > GROWS_R2


def summary_of(
    node: str, name: str, unit: str, points: Sequence[tuple[int, float]], line: bool = True
) -> Summary:
    """Of a series that is not empty."""
    ordered = sorted(value for _, value in points)
    found = slope([(time_ns / 1e9, value) for time_ns, value in points]) if line else None
    return Summary(
        node=node,
        name=name,
        unit=unit,
        count=len(ordered),
        mean=round(mean(ordered), 6),
        p50=round(quantile(ordered, 0.5), 6),
        p95=round(quantile(ordered, 0.95), 6),
        p99=round(quantile(ordered, 0.99), 6),
        p999=round(quantile(ordered, 0.999), 6),
        max=round(ordered[-1], 6),
        per_s=None if found is None else round(found[0], 9),
        r2=None if found is None else round(found[1], 6),
    )


def summaries(
    series: Mapping[tuple[str, str], Sequence[tuple[int, float]]], units: Mapping[str, str]
) -> list[Summary]:
    """Node by node, and all of them, by name of the series."""
    found = []
    for name in sorted({name for node, name in series if node}):
        unit = units.get(name, "1")
        together: list[tuple[int, float]] = []
        for node in sorted({node for node, other in series if node and other == name}):
            points = series[node, name]
            together += points
            found.append(summary_of(node, name, unit, points))
        found.append(summary_of("", name, unit, together, line=False))
    return found


class NodeHealth(msgspec.Struct, frozen=True, kw_only=True):
    """`criteria` by name: does the node meet it? None where nobody measured. `score` is the share
    of those measured that are met; None where nothing was."""

    node: str
    criteria: dict[str, bool | None]
    score: float | None

    @property
    def healthy(self) -> bool:
        """All that was measured is met, and something was."""
        return self.score == 1.0


class ClusterHealth(msgspec.Struct, frozen=True, kw_only=True):
    """`score`, over the nodes that were measured: 1 where more than 70 % are healthy and their mean
    score is above 0.8, 0.5 where more than half are healthy, else 0; None where none was.
    `criteria_measured` of `criteria`, of all nodes together, were measured: of the others it says
    nothing. `over_s` is how much of the end of the load was looked at, 0 in what older versions
    wrote."""

    score: float | None
    healthy: int
    measured: int
    mean: float | None
    nodes: list[NodeHealth]
    criteria: int = 0
    criteria_measured: int = 0
    over_s: float = 0.0

    @property
    def whole(self) -> bool:
        """Was everything measured of every node?"""
        return self.criteria_measured == self.criteria > 0

    @property
    def measured_said(self) -> str:
        """How much of it was measured, in words."""
        said = f"{self.criteria_measured} of {self.criteria} criteria measured"
        left = len(self.nodes) - self.measured
        return f"{said}, none of {left} of {len(self.nodes)} nodes" if left else said


def _within(points: Points, start_ns: int, end_ns: int) -> list[float]:
    return [value for time_ns, value in points if start_ns <= time_ns < end_ns]


def _responsive(
    values: Mapping[str, list[float]], clients: Clients, start: int, end: int, s: Settings
) -> bool | None:
    if answers := values.get("answers"):
        times = values.get("answer_time", [])
        return min(answers) > 0 and max(times, default=0.0) < s.responsive_ms
    median = clients.within(start, end).latency_ms(0.5)
    return None if median is None else median < s.responsive_ms


def _resources(values: Mapping[str, list[float]], s: Settings) -> bool | None:
    limits = {
        "rss": s.rss_bytes,
        "cpu": s.cpu_percent,
        "connections": s.connections,
        "queue": s.queue,
    }
    known = [sum(row) / len(row) <= limits[name] for name, row in values.items() if name in limits]
    return all(known) if known else None


def node_health(
    node: str,
    series: Mapping[tuple[str, str], Points],
    clients: Clients,
    start_ns: int,
    end_ns: int,
    settings: Settings,
) -> NodeHealth:
    """From `start_ns` up to `end_ns`. `clients` are those of this node."""
    values = {
        name: found
        for (of, name), points in series.items()
        if of == node and (found := _within(points, start_ns, end_ns))
    }
    seen = clients.within(start_ns, end_ns)
    applied = {
        of: found
        for (of, name), points in series.items()
        if name == "applied" and of and len(found := _within(points, start_ns, end_ns)) > 1
    }
    mine = applied.get(node)
    steps = {of: row[-1] - row[0] for of, row in applied.items()}
    most = max(steps.values(), default=0.0)
    furthest = max((row[-1] for row in applied.values()), default=0.0)
    few = seen.operations < settings.slow_operations_least
    error_rate = None if few else seen.errors_per_1000 <= settings.errors_per_1000
    criteria = {
        "responsive": _responsive(values, clients, start_ns, end_ns, settings),
        "resources": _resources(values, settings),
        "error_rate": error_rate,
        "participation": steps[node] > settings.participation * most if mine and most > 0 else None,
        "synchronized": furthest - mine[-1] <= settings.lag_entries if mine else None,
    }
    known = [met for met in criteria.values() if met is not None]
    score = sum(known) / len(known) if known else None
    return NodeHealth(node=node, criteria=criteria, score=score)


def cluster_health(
    nodes: Sequence[NodeHealth], settings: Settings, over_s: float = 0.0
) -> ClusterHealth:
    """Of nodes of which nothing was measured it says nothing, but how many they are."""
    scores = [node.score for node in nodes if node.score is not None]
    healthy = sum(node.healthy for node in nodes)
    met = [met for node in nodes for met in node.criteria.values()]
    mean = sum(scores) / len(scores) if scores else None
    share = healthy / len(scores) if scores else 0.0
    score = None
    if mean is not None:
        well = share > settings.healthy_share and mean > settings.healthy_mean
        score = 1.0 if well else 0.5 if share > settings.half_healthy_share else 0.0
    return ClusterHealth(
        score=score,
        healthy=healthy,
        measured=len(scores),
        mean=None if mean is None else round(mean, 4),
        nodes=list(nodes),
        criteria=len(met),
        criteria_measured=sum(one is not None for one in met),
        over_s=round(over_s, 3),
    )
