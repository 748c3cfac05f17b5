"""How well each node was in a stretch of time, and the cluster by its nodes (discipline 7.2 d)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dstest.monitor.client import Clients
from dstest.monitor.settings import Settings

Points = Sequence[tuple[int, float]]


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
    nothing."""

    score: float | None
    healthy: int
    measured: int
    mean: float | None
    nodes: list[NodeHealth]
    criteria: int = 0
    criteria_measured: int = 0

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


def cluster_health(nodes: Sequence[NodeHealth], settings: Settings) -> ClusterHealth:
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
    )
