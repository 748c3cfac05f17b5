"""What two measurements mean together. Each is a hypothesis, and no cause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from dstest.core.rules import Rule
from dstest.debug.monitor.alerts import NodeSeries, checks_of
from dstest.debug.monitor.baseline import Baseline
from dstest.debug.monitor.client import Clients, ClientStats
from dstest.debug.monitor.settings import Settings

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


class _Stretch(NamedTuple):
    seen: ClientStats
    baseline: Baseline
    settings: Settings
    series: NodeSeries
    begin_ns: int
    end_ns: int

    def nodes_above(self, name: str, limit: float) -> Iterator[str]:
        """Nodes whose samples of this are above on the mean."""
        for (node, other), points in self.series.items():
            if other == name and node:
                values = [v for at, v in points if self.begin_ns <= at < self.end_ns]
                if values and sum(values) / len(values) > limit:
                    yield node


def _no_cpu_left(s: _Stretch) -> Iterator[str]:
    if s.seen.throughput < THROUGHPUT * s.baseline.throughput:
        yield from s.nodes_above("cpu", s.settings.cpu_percent)


def _no_memory_left(s: _Stretch) -> Iterator[str]:
    p95 = s.seen.latency_ms(0.95)
    if p95 is not None and p95 > LATENCY * s.baseline.p95_ms:
        yield from s.nodes_above("rss", s.settings.rss_bytes)


RULES: Final = (
    Rule(
        "cpu-bottleneck",
        "CPU above {cpu:g} % while less than half of the baseline is served: the processor is what"
        " everybody waits for",
        _no_cpu_left,
    ),
    Rule(
        "memory-pressure",
        "memory above {rss:g} MB while latency is more than twice that of the baseline: memory is"
        " short",
        _no_memory_left,
    ),
)
"""They find nodes; `title` says what that means, with the limits."""


def correlations_of(
    clients: Clients, series: NodeSeries, baseline: Baseline, settings: Settings
) -> list[Correlation]:
    """In the order in which they were first seen. Without a baseline there are none."""
    if baseline.status == "none":
        return []
    seen_at: dict[tuple[Rule[_Stretch, Iterator[str]], str], list[int]] = {}
    for begin, end in checks_of(baseline.start_ns, clients.end_ns, settings.check_every_s):
        seen = clients.within(begin, end)
        stretch = _Stretch(seen, baseline, settings, series, begin, end)
        for rule in RULES:
            for node in rule.find(stretch):
                seen_at.setdefault((rule, node), []).append(begin)
    return sorted(
        (
            Correlation(
                name=rule.id,
                node=node,
                first_ns=times[0],
                checks=len(times),
                said=rule.title.format(cpu=settings.cpu_percent, rss=settings.rss_bytes / 1e6),
            )
            for (rule, node), times in seen_at.items()
        ),
        key=lambda one: (one.first_ns, one.name, one.node),
    )
