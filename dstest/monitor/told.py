"""What a look came to, as text for people and as an object."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from dstest.core.errors import Exit
from dstest.core.printable import one_line
from dstest.monitor.aggregate import Summary
from dstest.monitor.alerts import Alert, severe
from dstest.monitor.complexity import Complexity
from dstest.monitor.health import ClusterHealth, NodeHealth
from dstest.monitor.look import Monitored
from dstest.monitor.numbers import quantity
from dstest.monitor.settings import Settings
from dstest.monitor.silence import SAMPLES_MISSING

ALERTS_MAX: Final = 40

GROWING: Final = frozenset({"connections", "fds", "processes", "queue", "threads"})
"""Counts that should not grow, or fall, steadily."""


def code_of(found: Monitored, *, sampling: bool = False) -> Exit:
    """1: an alert of high or critical severity that no proven fault explains; 3: there was neither
    a baseline nor a sample, or no sample though there was to be `sampling`."""
    if severe(found.alerts):
        return Exit.FAIL
    evaluated = found.sampled or (found.baseline.status != "none" and not sampling)
    return Exit.PASS if evaluated else Exit.NOT_PROVEN


def explained(alert: Alert) -> str:
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
        f"{alert.said}; {explained(alert)}"
    )


def as_text(
    name: str, found: Monitored, cost: dict[str, Any] | None, *, sampling: bool = False
) -> Iterator[str]:
    """Lines for people. Names are somebody else's, and a terminal obeys what it is given."""
    return map(one_line, _lines(name, found, cost, sampling))


def _lines(
    name: str, found: Monitored, cost: dict[str, Any] | None, sampling: bool
) -> Iterator[str]:
    yield f"{name}: {_sampled(found, cost, sampling)}"
    yield from _missing(cost or {})
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
    yield from _health(found.health)
    if found.summaries:
        yield ""
        yield from _table(found.summaries)


def _sampled(found: Monitored, cost: dict[str, Any] | None, sampling: bool) -> str:
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


def _missing(cost: dict[str, Any]) -> Iterator[str]:
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


def _health(health: ClusterHealth) -> Iterator[str]:
    if health.score is None:
        yield "health: not measured"
        return
    part = "" if health.whole else " of what was measured"
    yield (
        f"health at the end of the load: {health.score:g}{part} ({health.healthy} of "
        f"{health.measured} nodes healthy, mean score {health.mean:.2f}; {health.measured_said})"
    )
    for node in health.nodes:
        yield f"  {node.node}: {_node(node)}"


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
    yield f"{'series':<18}{'node':<8}{'p50':>12}{'p95':>12}{'p99':>12}{'p99.9':>12}{'max':>12}"
    for row in found:
        if row.node and not (row.steady and (row.unit == "B" or row.name in GROWING)):
            continue  # of nodes by themselves what they use up; --json has all
        values = (row.p50, row.p95, row.p99, row.p999, row.max)
        cells = "".join(f"{quantity(value, row.unit):>12}" for value in values)
        grows = ""
        if row.steady and row.per_s is not None:
            grows = f"  {quantity(row.per_s * 3600, row.unit)} an hour"
        yield f"{row.name:<18}{row.node or 'all':<8}{cells}{grows}"


def as_object(
    name: str,
    found: Monitored,
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


def growth_lines(metric: str, unit: str, found: Complexity) -> Iterator[str]:
    """What a sweep over sizes came to."""
    sizes = ", ".join(map(str, found.sizes))
    yield f"{metric} ({unit}) over {found.points} runs of {sizes} nodes: {found.best}"
    yield f"  {found.said}"
    for one in found.fits:
        yield f"  {one.name:<11} R² {one.r2:7.4f}  {one.base:,.4g} + {one.per:,.4g} f(n)"
    if found.expected is not None:
        word = {True: "as expected", False: "another one was expected", None: "may be, or not"}
        yield f"  expected {found.expected}: {word[found.agrees]}"
