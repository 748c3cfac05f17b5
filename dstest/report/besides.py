"""What went wrong in a run besides what its verdict is about: a line each, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from dstest.judge.rows import NOT_SERVING, UNEXPLAINED
from dstest.monitor.told import alert_line
from dstest.report.model import FaultView, RunReport
from dstest.report.service import Stretch, first_shown

_LEAST_NS: Final = 5_000_000_000
"""How long nothing succeeds before it is worth a line of its own."""

_CUT: Final = 300
_ALERTS_MAX: Final = 3


class Besides(NamedTuple):
    """A sentence, and the id of the element of the page that tells more."""

    said: str
    anchor: str


def _unexplained(report: RunReport) -> list[Besides]:
    """Crashes, panics and ends of processes, as the audit says them."""
    found = []
    for row in report.audit:
        if row.status == "short" and UNEXPLAINED in row.evidence:
            said = row.evidence if len(row.evidence) <= _CUT else row.evidence[: _CUT - 1] + "…"
            found.append(Besides(f"{said}.", f"audit-{row.id}"))
    return found


def _not_serving(report: RunReport) -> list[Besides]:
    down = [node for node, serves in (report.meta.healthy or {}).items() if serves is False]
    if not down:
        return []
    who = "No node" if len(down) == len(report.meta.healthy or {}) > 1 else ", ".join(down)
    verb = "served" if who == "No node" else "did not serve"
    row = next((row for row in report.audit if NOT_SERVING in row.evidence), None)
    anchor = "audit" if row is None else f"audit-{row.id}"
    return [Besides(f"{who} {verb} after the settle phase.", anchor)]


def _free(start_ns: int, end_ns: int, faults: Sequence[FaultView]) -> tuple[int, int]:
    """The longest part of a stretch in which no fault stood."""
    parts, at = [], start_ns
    windows = [(f.start_ns, f.end_ns) for f in faults if f.start_ns is not None]
    for begun, healed in sorted(windows, key=lambda window: window[0]):
        parts.append((at, min(end_ns, begun)))
        at = max(at, end_ns if healed is None else healed)
    parts.append((at, end_ns))
    return max(parts, key=lambda part: part[1] - part[0])


def _silence(report: RunReport, outages: Sequence[Stretch]) -> list[Besides]:
    """The longest stretch of the whole system while no fault stood."""
    whole = [(n, row) for n, row in enumerate(outages) if row.whole]
    found = [(*_free(row.start_ns, row.end_ns, report.faults), n) for n, row in whole]
    longest = max(found, key=lambda row: row[1] - row[0], default=None)
    if longest is None or longest[1] - longest[0] < _LEAST_NS:
        return []
    start, end, n = longest
    until = f"from {start / 1e9:.1f} s to {end / 1e9:.1f} s ({(end - start) / 1e9:.1f} s)"
    shown = {number for number, _ in first_shown(outages)[0]}
    anchor = f"outage-{n + 1}" if n + 1 in shown else "timeline-charts"
    return [Besides(f"No operation succeeded {until}, while no fault stood.", anchor)]


def _alerts(report: RunReport) -> list[Besides]:
    """What was measured, was high or critical, and is explained by no proven fault."""
    found = [] if report.measured is None else report.measured.severe
    return [Besides(f"Alert: {alert_line(alert)}.", "measured") for alert in found[:_ALERTS_MAX]]


def besides(report: RunReport, outages: Sequence[Stretch]) -> list[Besides]:
    """All of it; `outages` are the stretches without service, as the page lists them."""
    return [
        *_unexplained(report),
        *_not_serving(report),
        *_silence(report, outages),
        *_alerts(report),
    ]
