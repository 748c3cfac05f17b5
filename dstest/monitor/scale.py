"""One number of a run, to be held against the number of its nodes.

throughput, p50, p95, p99     what clients saw
NAME                          the mean of a series over all samples of all nodes
NAME/op                       what all nodes together had of it per operation that succeeded
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dstest.core.errors import ConfigError
from dstest.monitor.client import Clients
from dstest.monitor.numbers import mean
from dstest.monitor.silence import EVERY_MOST, silent_for_ns, spacing_ns

OF_CLIENTS: Final = ("throughput", "p50", "p95", "p99")
PER_OP: Final = "/op"

Series = Mapping[tuple[str, str], Sequence[tuple[int, float]]]


def value_of(
    metric: str, clients: Clients, series: Series, units: Mapping[str, str], end_ns: int
) -> tuple[float, str]:
    """(value, unit) from the beginning of the load up to `end_ns`, where the first fault begins.
    Raises ConfigError for a metric that the run does not have."""
    seen = clients.within(clients.start_ns, end_ns)
    if metric in OF_CLIENTS:
        if metric == "throughput":
            return seen.throughput, "1/s"
        found = seen.latency_ms(float(metric[1:]) / 100)
        if found is None:
            raise _lacks(metric, ["no operation succeeded"])
        return found, "ms"
    name = metric.removesuffix(PER_OP)
    points = _points(name, series, clients.start_ns, end_ns)
    if not points:
        raise _lacks(metric, sorted({other for node, other in series if node}))
    unit = units.get(name, "1")
    if not metric.endswith(PER_OP):
        return mean([value for row in points.values() for _, value in row]), unit
    # What was sampled is from the first sample to the last one, and so are its operations.
    firsts, lasts = zip(*((row[0][0], row[-1][0]) for row in points.values()), strict=True)
    seen = clients.within(min(firsts), max(lasts))
    if not seen.ok:
        raise _lacks(metric, ["no operation succeeded"])
    return sum(_total(row, unit) for row in points.values()) / seen.ok, unit.removesuffix("/s")


def lacking_of(
    metric: str,
    nodes: Sequence[str],
    clients: Clients,
    series: Series,
    end_ns: int,
    limit_ns: int,
) -> list[str]:
    """Of whom nothing, or nothing for longer than `limit_ns`, was sampled where `value_of` looks:
    a value over fewer nodes, or part of the time, is none of as many nodes as the run has."""
    if metric in OF_CLIENTS:
        return []
    points = _points(metric.removesuffix(PER_OP), series, clients.start_ns, end_ns)
    apart_ns = max((spacing_ns(row) for row in points.values()), default=0.0)
    longest_ns = max(limit_ns, EVERY_MOST * apart_ns)
    return [
        node
        for node in nodes
        if node not in points or silent_for_ns(points[node], clients.start_ns, end_ns) > longest_ns
    ]


def _points(
    name: str, series: Series, start_ns: int, end_ns: int
) -> dict[str, list[tuple[int, float]]]:
    """By node what was sampled then, of those that have two samples at least."""
    points = {
        node: [(t, v) for t, v in series[node, other] if start_ns <= t < end_ns]
        for node, other in series
        if node and other == name
    }
    return {node: row for node, row in points.items() if len(row) > 1}


def _total(row: Sequence[tuple[int, float]], unit: str) -> float:
    """What a node has had of it: of a rate all of it, of a counter by how much it grew."""
    if unit.endswith("/s"):
        return mean([value for _, value in row]) * (row[-1][0] - row[0][0]) / 1e9
    return row[-1][1] - row[0][1]


def _lacks(metric: str, there: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"no {metric} in this run: {', '.join(there) or 'it was not sampled'}",
        remedy="a name of `dstest monitor RUN --json`, with /op for what an operation takes",
    )
