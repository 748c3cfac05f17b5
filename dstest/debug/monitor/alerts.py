"""Rules that look for a cause in one check, and alerts made of their causes.

A cause opens an alert of its rule; the alert ends when `clear_checks` checks in a row have found
none, so that one blip is one alert. What nobody measured gives no alert; `unmeasured` in
`analysis.py` names such rules, so that silence is not taken for health.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest.core import rules
from dstest.debug.logs.scene import SEVERITIES, Severity
from dstest.debug.monitor.baseline import Baseline
from dstest.debug.monitor.client import Clients, ClientStats
from dstest.debug.monitor.settings import Faults, Settings, StandingFault

SPREADS: Final = 3.0
"""What lies within so many standard deviations of the baseline is not told from chance."""

NodeSeries = Mapping[tuple[str, str], Sequence[tuple[int, float]]]
"""(node, name) -> series."""


class Cause(NamedTuple):
    """`value` is what was measured and `limit` what it may be."""

    severity: Severity
    value: float
    limit: float
    unit: str
    said: str


class Check(NamedTuple):
    """What clients saw in one stretch. `open` is whether the rule's alert stands: it then takes
    more to end it than it took to raise it. `rates` are means over the cluster's nodes by name."""

    seen: ClientStats
    baseline: Baseline
    settings: Settings
    open: bool
    rates: Mapping[str, float]


class NodeCheck(NamedTuple):
    """Highest values by name that one node sampled in one stretch."""

    most: Mapping[str, float]
    settings: Settings


class Rule(rules.Rule[Any, Cause | None], frozen=True, kw_only=True):
    """It cannot speak without the series that it `needs`, of nodes, and without a baseline where it
    `compares` with one."""

    needs: tuple[str, ...] = ()
    compares: bool = False


def worse(a: Severity, b: Severity) -> Severity:
    """The severer one."""
    return min(a, b, key=SEVERITIES.index)


def _by(value: float, *steps: tuple[float, Severity]) -> Severity:
    """The severity of the last step that is exceeded; `low` where none is."""
    found: Severity = "low"
    for limit, severity in steps:
        if value > limit:
            found = severity
    return found


def _of_latency(ms: float, s: Settings) -> Severity:
    return _by(
        ms,
        (s.latency_medium_ms, "medium"),
        (s.latency_high_ms, "high"),
        (s.latency_critical_ms, "critical"),
    )


def latency_spike(c: Check) -> Cause | None:
    """The p95 is far above that of the baseline, and outside of what that itself varied by; or the
    p99 is, and above a second: a spike of some operations only."""
    p95, p99 = c.seen.latency_ms(0.95), c.seen.latency_ms(0.99)
    if c.baseline.status == "none" or p95 is None or p99 is None:
        return None
    s, b = c.settings, c.baseline
    times = s.latency_clear_times if c.open else s.latency_times
    above = max(s.latency_slack_ms, SPREADS * b.p95_spread_ms)
    looks = (
        ("p95", p95, b.p95_ms, max(times * b.p95_ms, b.p95_ms + above)),
        ("p99", p99, b.p99_ms, max(times * b.p99_ms, s.latency_spike_ms)),
    )
    found = None
    for name, value, usual, limit in looks:
        if value > limit and c.seen.slower_than(limit) >= s.slow_operations_least:
            of_it = value / max(usual, 1e-9)
            said = (
                f"{name} {value:,.1f} ms, {of_it:.1f} times that of the baseline ({usual:,.1f} ms)"
            )
            found = Cause(_of_latency(value, s), value, limit, "ms", said)
    return found


def _absolute(c: Check, share: float, limit: float, name: str) -> Cause | None:
    """A latency that is too high by itself, and is not simply what the run was like before."""
    value = c.seen.latency_ms(share)
    usual = {0.95: c.baseline.p95_ms, 0.99: c.baseline.p99_ms}[share]
    if value is None or value <= max(limit, c.settings.latency_clear_times * usual):
        return None
    if c.seen.slower_than(limit) < c.settings.slow_operations_least:
        return None
    said = f"{name} {value:,.0f} ms, {limit:,.0f} ms at most"
    return Cause(_of_latency(value, c.settings), value, limit, "ms", said)


def throughput_drop(c: Check) -> Cause | None:
    """Far fewer are served than in the baseline, and fewer than that itself varied by."""
    b, s = c.baseline, c.settings
    if b.status == "none" or b.throughput <= 0:
        return None
    least = s.throughput_clear if c.open else s.throughput_least
    chance = b.throughput - SPREADS * b.spread
    # However much the baseline varies: a service that stands is not told from chance by it.
    limit = max(min(least * b.throughput, chance), s.throughput_critical * b.throughput)
    rate = c.seen.throughput
    if rate >= limit:
        return None
    part = rate / b.throughput
    severity: Severity = "medium"
    if part < s.throughput_critical:
        severity = "critical"
    elif part < s.throughput_high and b.status == "accepted":
        severity = "high"
    said = f"{rate:,.0f}/s served, {part:.0%} of the baseline ({b.throughput:,.0f}/s)"
    return Cause(severity, rate, limit, "1/s", said)


def error_rate(c: Check) -> Cause | None:
    """Of operations, refused because of a race left out."""
    s, rate = c.settings, c.seen.errors_per_1000
    bad = c.seen.failed + c.seen.unknown
    if rate <= s.errors_per_1000 or bad < s.slow_operations_least:
        return None
    severity = _by(
        rate,
        (s.errors_per_1000, "medium"),
        (s.errors_high_per_1000, "high"),
        (s.errors_critical_per_1000, "critical"),
    )
    said = f"{rate:,.0f} of 1000 operations failed or have an unknown outcome"
    return Cause(severity, rate, s.errors_per_1000, "1/1000", said)


def timeouts(c: Check) -> Cause | None:
    """Operations of which nobody knows what became."""
    if not c.seen.operations or c.seen.unknown < c.settings.slow_operations_least:
        return None
    share = c.seen.unknown / c.seen.operations
    if share <= c.settings.timeouts:
        return None
    said = f"{share:.0%} of operations have an unknown outcome, {c.settings.timeouts:.0%} at most"
    return Cause("medium", share, c.settings.timeouts, "share", said)


def consensus_failures(c: Check) -> Cause | None:
    """Proposals that failed, of those that were decided, by the word of servers."""
    failed, decided = c.rates.get("proposals_failed"), c.rates.get("commit_rate")
    s = c.settings
    if not failed or decided is None:
        return None
    share = failed / (failed + decided)
    if share <= s.consensus_failures:
        return None
    severity = _by(
        share,
        (s.consensus_failures, "medium"),
        (s.consensus_failures_high, "high"),
        (s.consensus_failures_critical, "critical"),
    )
    said = f"{share:.1%} of proposals failed, {s.consensus_failures:.0%} at most"
    return Cause(severity, share, s.consensus_failures, "share", said)


RULES: Final = (
    Rule("latency_spike", "p95 and p99 stay near the baseline's", latency_spike, compares=True),
    Rule(
        "latency_p95",
        "p95 is low enough, or as before",
        lambda c: _absolute(c, 0.95, c.settings.p95_ms, "p95"),
    ),
    Rule(
        "latency_p99",
        "p99 is low enough, or as before",
        lambda c: _absolute(c, 0.99, c.settings.p99_ms, "p99"),
    ),
    Rule(
        "throughput_drop",
        "about as many operations are served as in the baseline",
        throughput_drop,
        compares=True,
    ),
    Rule("error_rate", "hardly an operation fails", error_rate),
    Rule("timeouts", "hardly an operation has an unknown outcome", timeouts),
    Rule(
        "consensus_failures",
        "hardly a proposal fails",
        consensus_failures,
        needs=("proposals_failed", "commit"),
    ),
)
"""Of the cluster, each given a `Check`."""


def _below(name: str, limit_of: str, unit: str) -> Rule:
    def above(c: NodeCheck) -> Cause | None:
        value, limit = c.most.get(name), getattr(c.settings, limit_of)
        if value is None or value <= limit:
            return None
        shown = "" if unit == "1" else f" {unit}"
        said = f"{name} {value:,.0f}{shown}, {limit:,.0f} at most"
        return Cause("medium", value, limit, unit, said)

    return Rule(name, f"{name} stays within its limit", above, needs=(name,))


def node_silent(c: NodeCheck) -> Cause | None:
    """Its server answered its own node not once in the whole stretch."""
    answers = c.most.get("answers")
    if answers is None or answers > 0:
        return None
    said = "its server did not answer its own node within a second"
    return Cause("high", 0.0, 1.0, "1", said)


NODE_RULES: Final = (
    _below("rss", "rss_bytes", "B"),
    _below("cpu", "cpu_percent", "%"),
    _below("connections", "connections", "1"),
    _below("queue", "queue", "1"),
    Rule("node_silent", "a server answers its own node", node_silent, needs=("answers",)),
)
"""Of each node, each given a `NodeCheck`."""


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """`begin_ns` is where the first stretch with a cause began, `raised_ns` when it was found, at
    that stretch's end, `end_ns` where the last one ended; None where it stood to the run's end.
    `value` is the worst one that was measured, in one of `checks`. `warranted_by` are proven faults
    that stood in stretches in which a cause was found and that explain it, `others` those that do
    not, as they were done to other nodes, `unproven` those of whom nobody knows that they landed.
    `unexplained` counts stretches that none explains, and the worst of these had
    `unexplained_severity`: what a fault leaves behind may be less than what it did. A `node` that
    is empty is the cluster."""

    rule: str
    node: str
    severity: Severity
    begin_ns: int
    raised_ns: int
    end_ns: int | None
    value: float
    limit: float
    unit: str
    said: str
    warranted_by: list[str]
    unproven: list[str]
    others: list[str] = []
    checks: int
    unexplained: int
    unexplained_severity: Severity | Literal[""]

    @property
    def expected(self) -> bool:
        """Do proven faults explain all of it?"""
        return bool(self.warranted_by) and not self.unexplained


class _Open:
    """An alert that stands; `since` counts checks without a cause."""

    def __init__(self, cause: Cause, begin_ns: int, raised_ns: int) -> None:
        self.cause = cause
        self.severity = cause.severity
        self.begin_ns, self.raised_ns = begin_ns, raised_ns
        self.last_ns = raised_ns
        self.since = self.checks = self.unexplained = 0
        self.odd_severity: Severity | Literal[""] = ""
        self.proven: dict[str, None] = {}
        self.unproven: dict[str, None] = {}
        self.others: dict[str, None] = {}

    def again(self, cause: Cause, now_ns: int, of: Sequence[StandingFault]) -> None:
        """A cause was found once more; `of` are the faults that stood in that stretch."""
        self.last_ns, self.since = now_ns, 0
        self.checks += 1
        proven = [one.fault_id for one in of if one.explains]
        self.proven.update(dict.fromkeys(proven))
        self.unproven.update(dict.fromkeys(one.fault_id for one in of if not one.proven))
        self.others.update(
            dict.fromkeys(one.fault_id for one in of if one.proven and not one.explains)
        )
        if not proven:
            self.unexplained += 1
            self.odd_severity = worse(self.odd_severity or cause.severity, cause.severity)
        self.severity = worse(self.severity, cause.severity)
        if abs(cause.value - cause.limit) > abs(self.cause.value - self.cause.limit):
            self.cause = cause


class _Book:
    """Open alerts by rule and node, and those that have ended."""

    def __init__(self, settings: Settings, faults: Faults) -> None:
        self._settings = settings
        self._faults = faults
        self._open: dict[tuple[str, str], _Open] = {}
        self.closed: list[Alert] = []

    def stands(self, rule: str, node: str) -> bool:
        return (rule, node) in self._open

    def note(self, rule: str, node: str, cause: Cause | None, start_ns: int, end_ns: int) -> None:
        key = (rule, node)
        there = self._open.get(key)
        if cause is not None:
            if there is None:
                there = self._open[key] = _Open(cause, start_ns, end_ns)
            there.again(cause, end_ns, self._faults.stood(node, start_ns, end_ns))
        elif there is not None:
            there.since += 1
            if there.since >= self._settings.clear_checks:
                self._close(key, there.last_ns)

    def _close(self, key: tuple[str, str], end_ns: int | None) -> None:
        one = self._open.pop(key)
        self.closed.append(
            Alert(
                rule=key[0],
                node=key[1],
                severity=one.severity,
                begin_ns=one.begin_ns,
                raised_ns=one.raised_ns,
                end_ns=end_ns,
                value=round(one.cause.value, 6),
                limit=round(one.cause.limit, 6),
                unit=one.cause.unit,
                said=one.cause.said,
                warranted_by=list(one.proven),
                unproven=list(one.unproven),
                others=list(one.others),
                checks=one.checks,
                unexplained=one.unexplained,
                unexplained_severity=one.odd_severity,
            )
        )

    def finish(self, end_ns: int) -> list[Alert]:
        for key, one in list(self._open.items()):
            self._close(key, None if one.last_ns >= end_ns else one.last_ns)
        return sorted(self.closed, key=lambda a: (a.begin_ns, a.rule, a.node))


def checks_of(start_ns: int, end_ns: int, every_s: float) -> list[tuple[int, int]]:
    """Whole stretches, one after the other."""
    step = int(every_s * 1e9)
    return [(at, at + step) for at in range(start_ns, end_ns - step + 1, step)]


def alerts_of(
    clients: Clients,
    series: NodeSeries,
    baseline: Baseline,
    faults: Faults,
    settings: Settings,
) -> list[Alert]:
    """All of a run, in order of their beginning. The warm-up is not looked at where a baseline was
    measured after one."""
    book = _Book(settings, faults)
    start_ns = baseline.start_ns if baseline.status != "none" else clients.start_ns
    stretches = checks_of(start_ns, clients.end_ns, settings.check_every_s) if len(clients) else []
    nodes = sorted({node for node, _ in series if node})
    parts = _parts(series, stretches)
    for at, (begin, end) in enumerate(stretches):
        values = parts[at]
        rates = _rates(values, parts[at - 1] if at else {}, settings.check_every_s)
        seen = clients.within(begin, end, waiting=True)
        for rule in RULES:
            check = Check(seen, baseline, settings, book.stands(rule.id, ""), rates)
            book.note(rule.id, "", rule.find(check), begin, end)
        for node in nodes:
            most = {name: max(row) for (of, name), row in values.items() if of == node}
            for rule in NODE_RULES:
                book.note(rule.id, node, rule.find(NodeCheck(most, settings)), begin, end)
    return book.finish(stretches[-1][1] if stretches else 0)


def _parts(
    series: NodeSeries, stretches: Sequence[tuple[int, int]]
) -> list[dict[tuple[str, str], list[float]]]:
    """By stretch what was sampled in it."""
    found: list[dict[tuple[str, str], list[float]]] = [{} for _ in stretches]
    if not stretches:
        return found
    first, step = stretches[0][0], stretches[0][1] - stretches[0][0]
    for key, points in series.items():
        for time_ns, value in points:
            at = (time_ns - first) // step
            if 0 <= at < len(stretches):
                found[at].setdefault(key, []).append(value)
    return found


def _rates(
    now: Mapping[tuple[str, str], list[float]],
    before: Mapping[tuple[str, str], list[float]],
    seconds: float,
) -> dict[str, float]:
    """Means over nodes of what servers say; `commit_rate` is how fast the furthest one went on."""
    by_name: dict[str, list[float]] = {}
    for (node, name), values in now.items():
        if node:
            by_name.setdefault(name, []).append(sum(values) / len(values))
    found = {name: sum(values) / len(values) for name, values in by_name.items()}
    there = [max(values) for (_, name), values in now.items() if name == "commit"]
    then = [max(values) for (_, name), values in before.items() if name == "commit"]
    if there and then:
        found["commit_rate"] = max(0.0, (max(there) - max(then)) / seconds)
    return found


def severe(alerts: Iterable[Alert], least: Severity = "high") -> list[Alert]:
    """Those of which something of at least this severity is explained by no proven fault."""
    rank = SEVERITIES.index(least)
    return [
        alert
        for alert in alerts
        if alert.unexplained_severity and SEVERITIES.index(alert.unexplained_severity) <= rank
    ]
