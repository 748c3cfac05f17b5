"""One look at a run: its series, baseline, alerts, health and correlations together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dstest.monitor.aggregate import Summary, summaries
from dstest.monitor.alerts import Alert, alerts_of
from dstest.monitor.baseline import Baseline, baseline_of
from dstest.monitor.client import Clients, Load
from dstest.monitor.correlations import Correlation, correlations_of
from dstest.monitor.health import ClusterHealth, cluster_health, node_health
from dstest.monitor.rows import Row, Series, series_of
from dstest.monitor.rules import NODE_RULES
from dstest.monitor.settings import Settings
from dstest.monitor.silence import EVERY_MOST, limit_ns_of, missing_samples, spacing_ns
from dstest.monitor.windows import Faults, FaultWindow

NEEDS: dict[str, tuple[str, ...]] = {
    "rss": ("rss",),
    "cpu": ("cpu",),
    "connections": ("connections",),
    "queue": ("queue",),
    "node_silent": ("answers",),
    "consensus_failures": ("proposals_failed", "commit"),
}
"""By rule, the series without which it cannot speak."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a look takes. `rows` are those of the nodes; `every_s` is how often these were to be
    sampled, None where they were not: each of `nodes` has to have samples, or is missed.
    `unwell_ns` is when the last fault was healed, where the load never went well again."""

    nodes: Sequence[str]
    rows: Iterable[Row]
    load: Load
    faults: Faults
    unwell_ns: int | None = None
    every_s: float | None = None
    settings: Settings = Settings()


class Monitored(msgspec.Struct, frozen=True, kw_only=True):
    """`unmeasured` are rules that had nothing to look at, with what they lack; of these silence
    says nothing. `sampled`: were there samples of nodes at all? `samples` are how many of each
    node; that is no part of what is written down."""

    sampled: bool
    baseline: Baseline
    alerts: list[Alert]
    health: ClusterHealth
    correlations: list[Correlation]
    summaries: list[Summary]
    unmeasured: dict[str, str]
    windows: list[FaultWindow]
    samples: dict[str, int] = {}

    @property
    def plain(self) -> dict[str, Any]:
        """As the content of metrics/baseline.json."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        del found["samples"]
        return found


def look(of: Inputs) -> Monitored:
    """All that follows."""
    rows = list(of.rows)
    series = series_of(rows)
    units = {row.name: row.unit for row in rows}
    clients = Clients(of.load)
    baseline = baseline_of(clients, of.settings, of.faults.first_ns)
    return Monitored(
        sampled=bool(rows),
        samples=_counts(rows),
        baseline=baseline,
        alerts=[
            *alerts_of(clients, series, baseline, of.faults, of.settings),
            *_missing(of, series, clients),
            *_unwell(of),
        ],
        health=_health(of, series, clients),
        correlations=correlations_of(clients, series, baseline, of.settings),
        summaries=summaries(series, units),
        unmeasured=_unmeasured(of, series, baseline),
        windows=of.faults.windows,
    )


def _counts(rows: Iterable[Row]) -> dict[str, int]:
    times: dict[str, set[int]] = {}
    for row in rows:
        if row.node:
            times.setdefault(row.node, set()).add(row.time_ns)
    return {node: len(found) for node, found in sorted(times.items())}


def _missing(
    of: Inputs, series: Mapping[tuple[str, str], Series], clients: Clients
) -> Iterator[Alert]:
    """Of nodes that were to be sampled."""
    if of.every_s is None or not len(clients):
        return
    yield from missing_samples(
        of.nodes,
        series,
        clients.start_ns,
        clients.end_ns,
        over=of.load.end_ns is not None,
        limit_s=of.settings.samples_missing_s,
        every_s=of.every_s,
        faults=of.faults,
    )


def _unwell(of: Inputs) -> Iterator[Alert]:
    """A fault explains what it did, and not that nothing went well any more when it was gone."""
    if of.unwell_ns is None:
        return
    lasts_s = ((of.load.end_ns or of.unwell_ns) - of.unwell_ns) / 1e9
    yield Alert(
        rule="not_recovered",
        node="",
        severity="high",
        begin_ns=of.unwell_ns,
        raised_ns=of.load.end_ns or of.unwell_ns,
        end_ns=None,
        value=round(lasts_s, 3),
        limit=0.0,
        unit="s",
        said=f"the load did not go well again in the {lasts_s:.0f} s after the last heal",
        warranted_by=[],
        others=[],
        unproven=[],
        checks=1,
        unexplained=1,
        unexplained_severity="high",
    )


def _health(
    of: Inputs, series: Mapping[tuple[str, str], Sequence[tuple[int, float]]], clients: Clients
) -> ClusterHealth:
    """At the end of the load."""
    start_ns = max(clients.start_ns, clients.end_ns - int(of.settings.health_window_s * 1e9))
    limit_ns = limit_ns_of(of.settings.samples_missing_s, of.every_s or 0.0)
    fresh = {
        key: points for key, points in series.items() if _reaches(points, clients.end_ns, limit_ns)
    }
    found = [
        node_health(node, fresh, Clients(of.load, node=node), start_ns, clients.end_ns, of.settings)
        for node in of.nodes
    ]
    return cluster_health(found, of.settings)


def _reaches(points: Series, end_ns: int, limit_ns: int) -> bool:
    """Was it sampled up to the end? What was so before says nothing of then."""
    last_ns = max((at for at, _ in points if at < end_ns), default=0)
    return end_ns - last_ns <= max(limit_ns, EVERY_MOST * spacing_ns(points))


def _unmeasured(
    of: Inputs,
    series: Mapping[tuple[str, str], Sequence[tuple[int, float]]],
    baseline: Baseline,
) -> dict[str, str]:
    there = {name for node, name in series if node}
    found = {}
    for rule, names in NEEDS.items():
        if lacking := sorted(set(names) - there):
            found[rule] = f"no samples of {', '.join(lacking)}"
        elif rule in NODE_RULES and of.every_s is not None:
            without = [n for n in of.nodes if any((n, name) not in series for name in names)]
            if without:
                found[rule] = f"no samples of {', '.join(names)} of {', '.join(without)}"
    if baseline.status == "none":
        found |= dict.fromkeys(("latency_spike", "throughput_drop"), "no baseline")
    return found
