"""What two measurements mean together (discipline 7.2 d). Each is a hypothesis, and no cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dstest.monitor.alerts import NodeSeries, checks_of
from dstest.monitor.baseline import Baseline
from dstest.monitor.client import Clients
from dstest.monitor.settings import Settings

THROUGHPUT: float = 0.5
LATENCY: float = 2.0


class Correlation(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is `cpu-bottleneck` or `memory-pressure`; `node` where the first of the two
    was measured, `first_ns` when both first held together, in `checks` stretches in all."""

    name: str
    node: str
    first_ns: int
    checks: int
    said: str


def _node_means(series: NodeSeries, name: str, begin: int, end: int) -> Mapping[str, float]:
    found: dict[str, list[float]] = {}
    for (node, other), points in series.items():
        if other == name and node:
            values = [value for time_ns, value in points if begin <= time_ns < end]
            if values:
                found[node] = values
    return {node: sum(values) / len(values) for node, values in found.items()}


def correlations_of(
    clients: Clients, series: NodeSeries, baseline: Baseline, settings: Settings
) -> list[Correlation]:
    """In the order in which they were first seen. Without a baseline there are none."""
    if baseline.status == "none":
        return []
    seen_at: dict[tuple[str, str], list[int]] = {}
    for begin, end in checks_of(baseline.start_ns, clients.end_ns, settings.check_every_s):
        for key in _held(clients, series, baseline, settings, begin, end):
            seen_at.setdefault(key, []).append(begin)
    words = {
        "cpu-bottleneck": "CPU above {cpu:g} % while less than half of the baseline is served: the"
        " processor is what everybody waits for",
        "memory-pressure": "memory above {rss:g} MB while latency is more than twice that of the"
        " baseline: memory is short",
    }
    return sorted(
        (
            Correlation(
                name=name,
                node=node,
                first_ns=times[0],
                checks=len(times),
                said=words[name].format(cpu=settings.cpu_percent, rss=settings.rss_bytes / 1e6),
            )
            for (name, node), times in seen_at.items()
        ),
        key=lambda one: (one.first_ns, one.name, one.node),
    )


def _held(
    clients: Clients,
    series: NodeSeries,
    baseline: Baseline,
    settings: Settings,
    begin: int,
    end: int,
) -> Sequence[tuple[str, str]]:
    seen = clients.within(begin, end)
    found = []
    if seen.throughput < THROUGHPUT * baseline.throughput:
        cpu = _node_means(series, "cpu", begin, end)
        found += [("cpu-bottleneck", n) for n, v in cpu.items() if v > settings.cpu_percent]
    p95 = seen.latency_ms(0.95)
    if p95 is not None and p95 > LATENCY * baseline.p95_ms:
        rss = _node_means(series, "rss", begin, end)
        found += [("memory-pressure", n) for n, v in rss.items() if v > settings.rss_bytes]
    return found
