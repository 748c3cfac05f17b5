"""Alerts: causes that were found check by check, put together, and what explains them.

A cause opens an alert of its rule; the alert ends when so many checks in a row (`clear_checks`)
have found none. So one blip is one alert with a beginning and an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from dstest.logs.findings import SEVERITIES, Severity
from dstest.monitor.baseline import Baseline
from dstest.monitor.client import Clients
from dstest.monitor.rules import NODE_RULES, RULES, Cause, Check, NodeCheck, worse
from dstest.monitor.settings import Settings
from dstest.monitor.windows import Faults, Stood


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

    def again(self, cause: Cause, now_ns: int, of: Sequence[Stood]) -> None:
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


NodeSeries = Mapping[tuple[str, str], Sequence[tuple[int, float]]]
"""(node, name) -> series."""


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
        for name, rule in RULES.items():
            check = Check(seen, baseline, settings, book.stands(name, ""), rates)
            book.note(name, "", rule(check), begin, end)
        for node in nodes:
            most = {name: max(row) for (of, name), row in values.items() if of == node}
            for name, of_node in NODE_RULES.items():
                book.note(name, node, of_node(NodeCheck(most, settings)), begin, end)
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
