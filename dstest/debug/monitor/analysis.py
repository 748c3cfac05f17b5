"""A run's samples analysed: series, baseline, alerts, health and correlations; as text and an
object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import Exit
from dstest.core.history import FaultWindow
from dstest.core.words import one_line
from dstest.debug.monitor.alerts import NODE_RULES, RULES, Alert, alerts_of, severe
from dstest.debug.monitor.baseline import (
    Baseline,
    ClusterHealth,
    NodeHealth,
    Summary,
    baseline_of,
    cluster_health,
    node_health,
    summaries,
)
from dstest.debug.monitor.client import Clients, Load, Sample, Series, series_of
from dstest.debug.monitor.correlations import Correlation, correlations_of
from dstest.debug.monitor.scale import Complexity
from dstest.debug.monitor.settings import Faults, Settings, quantity
from dstest.debug.monitor.silence import (
    EVERY_MOST,
    SAMPLES_MISSING,
    limit_ns_of,
    missing_samples,
    spacing_ns,
)

ALERTS_MAX: Final = 40

HEALTH_LEAST_NS: Final = 5_000_000_000
"""How much of the load has to come after a recovery for health to be that of this part alone."""

ALIKE: Final = 0.001
"""Nodes whose free disk space differs by less have one disk."""

GROWING: Final = frozenset({"connections", "fds", "processes", "queue", "threads"})
"""Counts that should not grow, or fall, steadily."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a look takes. `rows` are those of the nodes; `every_s` is how often these were to be
    sampled, None where they were not: each of `nodes` has to have samples, or is missed.
    `unwell_ns` is when the last fault was healed, where the load never went well again."""

    nodes: Sequence[str]
    rows: Iterable[Sample]
    load: Load
    faults: Faults
    unwell_ns: int | None = None
    every_s: float | None = None
    settings: Settings = Settings()


class RunAnalysis(msgspec.Struct, frozen=True, kw_only=True):
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
        found["windows"] = [
            {
                "fault_id": window.id,
                "nemesis": window.nemesis,
                "start_ns": window.start_ns,
                "end_ns": window.until_ns,
                "proven": window.landed == "yes",
                "nodes": sorted(window.nodes),
            }
            for window in self.windows
        ]
        return found


def analyse(of: Inputs) -> RunAnalysis:
    """All that follows."""
    rows = list(of.rows)
    series = series_of(rows)
    units = {row.name: row.unit for row in rows}
    clients = Clients(of.load)
    baseline = baseline_of(clients, of.settings, of.faults.first_ns)
    return RunAnalysis(
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


def _counts(rows: Iterable[Sample]) -> dict[str, int]:
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
    """At the end of the load, of what came after the last recovery where that is long enough."""
    start_ns = max(clients.start_ns, clients.end_ns - int(of.settings.health_window_s * 1e9))
    ended = (one.until_ns for one in of.faults.windows if one.healed_ns is not None)
    recovered_ns = max((at for at in ended if at is not None), default=start_ns)
    if recovered_ns <= clients.end_ns - HEALTH_LEAST_NS:
        start_ns = max(start_ns, recovered_ns)
    limit_ns = limit_ns_of(of.settings.samples_missing_s, of.every_s or 0.0)
    fresh = {
        key: points for key, points in series.items() if _reaches(points, clients.end_ns, limit_ns)
    }
    of_node = clients.by(of.load, of.load.node)
    nobody = Clients(msgspec.structs.replace(of.load, ops=()))
    found = [
        node_health(node, fresh, of_node.get(node, nobody), start_ns, clients.end_ns, of.settings)
        for node in of.nodes
    ]
    return cluster_health(found, of.settings, over_s=(clients.end_ns - start_ns) / 1e9)


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
    for rule in (*NODE_RULES, *RULES):
        if lacking := sorted({*rule.needs} - there):
            found[rule.id] = f"no samples of {', '.join(lacking)}"
        elif rule in NODE_RULES and of.every_s is not None:
            without = [n for n in of.nodes if any((n, name) not in series for name in rule.needs)]
            if without:
                found[rule.id] = f"no samples of {', '.join(rule.needs)} of {', '.join(without)}"
    if baseline.status == "none":
        found |= {rule.id: "no baseline" for rule in RULES if rule.compares}
    return found


def code_of(found: RunAnalysis, *, sampling: bool = False) -> Exit:
    """1: an alert of high or critical severity that no proven fault explains; 3: there was neither
    a baseline nor a sample, or no sample though there was to be `sampling`."""
    if severe(found.alerts):
        return Exit.FAIL
    evaluated = found.sampled or (found.baseline.status != "none" and not sampling)
    return Exit.PASS if evaluated else Exit.NOT_PROVEN


def explanation_of(alert: Alert) -> str:
    """By which faults."""
    if alert.warranted_by:
        said = f"warranted by {', '.join(alert.warranted_by)}"
        if alert.unexplained:
            said += f", but for {alert.unexplained} of {alert.checks} checks"
            said += f" ({alert.unexplained_severity})"
        return said
    if alert.unproven:
        return f"unexpected: {', '.join(alert.unproven)} stood, which is not proven to have landed"
    if alert.others:
        ends = alert.rule == SAMPLES_MISSING
        why = f"{'do' if alert.others[1:] else 'does'} not end its sampler"
        why = why if ends else "is about other nodes"
        return f"unexpected: {', '.join(alert.others)} stood, which {why}"
    return "unexpected: no fault stood"


def alert_line(alert: Alert) -> str:
    """A sentence."""
    until = "the end" if alert.end_ns is None else f"{alert.end_ns / 1e9:.1f} s"
    where = f" on {alert.node}" if alert.node else ""
    return (
        f"{alert.severity} {alert.rule}{where} from {alert.begin_ns / 1e9:.1f} s to {until}: "
        f"{alert.said}; {explanation_of(alert)}"
    )


def as_text(
    name: str, found: RunAnalysis, cost: dict[str, Any] | None, *, sampling: bool = False
) -> Iterator[str]:
    """Lines for people. Names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(name, found, cost, sampling))


def _lines(
    name: str, found: RunAnalysis, cost: dict[str, Any] | None, sampling: bool
) -> Iterator[str]:
    yield f"{name}: {_sampled(found, cost, sampling)}"
    yield from _missing_lines(cost or {})
    yield f"baseline: {found.baseline.status}, {found.baseline.said}"
    if found.baseline.status != "none":
        b = found.baseline
        yield (
            f"  {b.throughput:,.1f}/s, p50 {b.p50_ms:,.1f} ms, p95 {b.p95_ms:,.1f} ms, p99 "
            f"{b.p99_ms:,.1f} ms, errors {b.errors_per_1000:.1f} of 1000"
        )
    yield ""
    yield f"alerts: {_counted(found.alerts)}"
    first = sorted(found.alerts, key=lambda alert: alert.expected)
    yield from (f"  {alert_line(alert)}" for alert in first[:ALERTS_MAX])
    if len(first) > ALERTS_MAX:
        yield f"  and {len(first) - ALERTS_MAX} more, with --json"
    yield from (f"  {one.name} on {one.node}: {one.said}" for one in found.correlations)
    for rule, why in found.unmeasured.items():
        yield f"  not evaluated: {rule} ({why})"
    yield ""
    yield from _health_lines(found.health)
    if found.summaries:
        yield ""
        yield from _table(found.summaries)


def _sampled(found: RunAnalysis, cost: dict[str, Any] | None, sampling: bool) -> str:
    if not found.sampled:
        if sampling:
            return "no sample of any node, though they were to be sampled"
        return "the nodes were not sampled"
    nodes = (cost or {}).get("nodes", {})
    told = ", ".join(
        _of_node(name, found.samples.get(name, 0), nodes.get(name, {}).get("samples"))
        for name in [*nodes, *(name for name in found.samples if name not in nodes)]
    )
    most = [row["cpu_percent"] for row in nodes.values() if "cpu_percent" in row]
    said = f"samples: {told}" if told else "samples are there"
    if most:
        said += f"; sampling took {max(most):.2f} % of a CPU of a node at most"
    lost = sum(row.get("lost", 0) for row in nodes.values())
    doubts = [row["clock_doubt_ns"] for row in nodes.values() if "clock_doubt_ns" in row]
    if doubts:
        said += f"; their times are known to {max(doubts) / 1e6:,.1f} ms"
    return f"{said}; {lost:,} {'sample is' if lost == 1 else 'samples are'} lost" if lost else said


def _of_node(name: str, there: int, reported: int | None) -> str:
    """How many samples of it are there, and how many its sampler says it took."""
    said = f"{name} {there:,}"
    return said if reported in (None, there) else f"{said} (its sampler reported {reported:,})"


def _missing_lines(cost: dict[str, Any]) -> Iterator[str]:
    """Why there are fewer samples than there should be."""
    if cost.get("refused"):
        yield f"  samples are missing: writing them down was refused ({cost['refused']})"
    for name, row in cost.get("nodes", {}).items():
        if row.get("problem"):
            yield f"  samples of {name} are missing: {row['problem']}"


def _counted(alerts: Sequence[Alert]) -> str:
    if not alerts:
        return "none"
    odd = [alert for alert in alerts if not alert.expected]
    bad = len(severe(alerts))
    return (
        f"{len(alerts)}, {len(alerts) - len(odd)} of them warranted by faults; unexpected "
        f"{len(odd)}, of high or critical severity {bad}"
    )


def _health_lines(health: ClusterHealth) -> Iterator[str]:
    if health.score is None:
        yield "health: not measured"
        return
    part = "" if health.whole else " of what was measured"
    yield (
        f"health{_over(health)}: {health.score:g}{part} ({health.healthy} of "
        f"{health.measured} nodes healthy, mean score {health.mean:.2f}; {health.measured_said})"
    )
    for node in health.nodes:
        yield f"  {node.node}: {_node(node)}"


def _over(health: ClusterHealth) -> str:
    return f" in the last {health.over_s:.1f} s of the load" if health.over_s else ""


def _node(node: NodeHealth) -> str:
    wrong = [name for name, met in node.criteria.items() if met is False]
    open_ = [name for name, met in node.criteria.items() if met is None]
    if node.score is None:
        return "not measured"
    if not open_:
        return f"not {', not '.join(wrong)}" if wrong else "well"
    known = len(node.criteria) - len(open_)
    said = f"not {', not '.join(wrong)}" if wrong else f"well in the {known} measured"
    return f"{said}; not measured: {', '.join(open_)}"


def _table(found: Sequence[Summary]) -> Iterator[str]:
    width = max((len(row.name) for row in found), default=0) + 2
    heads = "".join(f"{head:>12}" for head in ("p50", "p95", "p99", "p99.9", "max"))
    yield f"{'series':<{width}}{'node':<8}{heads}"
    shared = _on_one_disk(found)
    for row in found:
        if row.node and not (row.steady and (row.unit == "B" or row.name in GROWING)):
            continue  # of nodes by themselves what they use up; --json has all
        if row.node and row.name == "disk_free" and shared:
            continue
        values = (row.p50, row.p95, row.p99, row.p999, row.max)
        cells = "".join(f"{quantity(value, row.unit):>12}" for value in values)
        grows = ""
        if row.steady and row.per_s is not None:
            grows = f"  {quantity(row.per_s * 3600, row.unit)} an hour"
        yield f"{row.name:<{width}}{row.node or 'all':<8}{cells}{grows}"


def _on_one_disk(found: Sequence[Summary]) -> bool:
    """Do all nodes have the same room? Then it is the host's, and others use it up as well."""
    rooms = [row.p50 for row in found if row.node and row.name == "disk_free"]
    return len(rooms) > 1 and max(rooms) - min(rooms) <= ALIKE * max(rooms)


def as_object(
    name: str,
    found: RunAnalysis,
    cost: dict[str, Any] | None,
    thresholds: Settings,
    *,
    sampling: bool = False,
) -> dict[str, Any]:
    """For `--json`."""
    return {
        "path": name,
        "exit": int(code_of(found, sampling=sampling)),
        "sampling": cost,
        **found.plain,
        "unexpected": [msgspec.to_builtins(alert) for alert in severe(found.alerts)],
        "thresholds": msgspec.to_builtins(thresholds),
    }


def growth_lines(
    metric: str, unit: str, found: Complexity, of: str = "runs of {} nodes"
) -> Iterator[str]:
    """What a sweep over sizes came to; `of` says of what the sizes are."""
    sizes = ", ".join(map(str, found.sizes))
    yield f"{metric} ({unit}) over {found.points} {of.format(sizes)}: {found.best}"
    yield f"  {found.said}"
    for one in found.fits:
        yield f"  {one.name:<11} R² {one.r2:7.4f}  {one.base:,.4g} + {one.per:,.4g} f(n)"
    if found.expected is not None:
        word = {True: "as expected", False: "another one was expected", None: "may be, or not"}
        yield f"  expected {found.expected}: {word[found.agrees]}"
