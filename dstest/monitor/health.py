"""How well each node was in a stretch of time, and the cluster by its nodes (discipline 7.2 d)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dstest.monitor.client import Clients
from dstest.monitor.settings import Settings

__all__ = ["ClusterHealth", "NodeHealth", "cluster_health", "node_health"]

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
    """`score`: 1 where more than 70 % of nodes are healthy and their mean score is above 0.8, 0.5
    where more than half are healthy, else 0; None where no node was measured."""

    score: float | None
    healthy: int
    measured: int
    mean: float | None
    nodes: list[NodeHealth]


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
    error_rate = seen.errors_per_1000 <= settings.errors_per_1000 if seen.operations else None
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
    """A node of which nothing was measured counts as one that is not healthy, unless all are so."""
    scores = [node.score for node in nodes if node.score is not None]
    if not scores:
        return ClusterHealth(score=None, healthy=0, measured=0, mean=None, nodes=list(nodes))
    healthy = sum(node.healthy for node in nodes)
    mean = sum(scores) / len(nodes)
    share = healthy / len(nodes)
    score = 0.0
    if share > settings.healthy_share and mean > settings.healthy_mean:
        score = 1.0
    elif share > settings.half_healthy_share:
        score = 0.5
    return ClusterHealth(
        score=score,
        healthy=healthy,
        measured=len(scores),
        mean=round(mean, 4),
        nodes=list(nodes),
    )
