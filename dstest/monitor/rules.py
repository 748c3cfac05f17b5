"""When something is a cause for an alert: a function for each rule, which looks at one check.

A rule says what it found, or None. What nobody measured gives no alert; `unmeasured` in `look.py`
names such rules, so that silence is not taken for health.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from dstest.logs.findings import SEVERITIES, Severity
from dstest.monitor.baseline import Baseline
from dstest.monitor.client import Seen
from dstest.monitor.settings import Settings

SPREADS: Final = 3.0
"""What lies within so many standard deviations of the baseline is not told from chance."""


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

    seen: Seen
    baseline: Baseline
    settings: Settings
    open: bool
    rates: Mapping[str, float]


class NodeCheck(NamedTuple):
    """Highest values by name that one node sampled in one stretch."""

    most: Mapping[str, float]
    settings: Settings


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


def latency_p95(c: Check) -> Cause | None:
    return _absolute(c, 0.95, c.settings.p95_ms, "p95")


def latency_p99(c: Check) -> Cause | None:
    return _absolute(c, 0.99, c.settings.p99_ms, "p99")


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


RULES: Final[Mapping[str, Callable[[Check], Cause | None]]] = {
    rule.__name__: rule
    for rule in (
        *(latency_spike, latency_p95, latency_p99, throughput_drop, error_rate, timeouts),
        consensus_failures,
    )
}


def _above(name: str, limit_of: str, unit: str) -> Callable[[NodeCheck], Cause | None]:
    def rule(c: NodeCheck) -> Cause | None:
        value, limit = c.most.get(name), getattr(c.settings, limit_of)
        if value is None or value <= limit:
            return None
        shown = "" if unit == "1" else f" {unit}"
        said = f"{name} {value:,.0f}{shown}, {limit:,.0f} at most"
        return Cause("medium", value, limit, unit, said)

    return rule


def node_silent(c: NodeCheck) -> Cause | None:
    """Its server answered its own node not once in the whole stretch."""
    answers = c.most.get("answers")
    if answers is None or answers > 0:
        return None
    said = "its server did not answer its own node within a second"
    return Cause("high", 0.0, 1.0, "1", said)


NODE_RULES: Final[Mapping[str, Callable[[NodeCheck], Cause | None]]] = {
    "rss": _above("rss", "rss_bytes", "B"),
    "cpu": _above("cpu", "cpu_percent", "%"),
    "connections": _above("connections", "connections", "1"),
    "queue": _above("queue", "queue", "1"),
    "node_silent": node_silent,
}
