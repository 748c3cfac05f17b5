"""What was measured of a run, as a report tells it: the baseline, its health, alerts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import EvidenceError
from dstest.monitor.alerts import Alert, severe
from dstest.monitor.baseline import Baseline
from dstest.monitor.health import ClusterHealth
from dstest.monitor.rows import BASELINE
from dstest.monitor.told import alert_line

ALERTS_MAX: Final = 30


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Of `metrics/baseline.json` what a report shows."""

    baseline: Baseline
    alerts: list[Alert]
    health: ClusterHealth

    @property
    def severe(self) -> list[Alert]:
        """High or critical, and no proven fault explains it."""
        return severe(self.alerts)


def read_measured(run: Path | None) -> Measured | None:
    """None of a run that was not sampled. Raises EvidenceError for a file that cannot be read."""
    if run is None or not (run / BASELINE).is_file():
        return None
    try:
        return msgspec.json.decode((run / BASELINE).read_bytes(), type=Measured)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EvidenceError(
            f"{run / BASELINE} cannot be read: {error}",
            remedy="judge the run again with `dstest recover RUN`",
        ) from None


def alert_lines(found: Measured) -> list[str]:
    """Sentences: the baseline, health, and alerts, those that nothing explains first."""
    b = found.baseline
    lines = [f"Baseline: {b.status}, {b.said}."]
    if b.status != "none":
        lines[0] += f" {b.throughput:,.1f}/s, p95 {b.p95_ms:,.1f} ms, p99 {b.p99_ms:,.1f} ms."
    if found.health.score is not None:
        lines.append(
            f"Health at the end of the load: {found.health.score:g}, {found.health.healthy} of "
            f"{found.health.measured} nodes healthy; {found.health.measured_said}."
        )
    rows = sorted(found.alerts, key=lambda alert: alert.expected)
    lines += [f"Alert: {alert_line(alert)}." for alert in rows[:ALERTS_MAX]]
    if len(rows) > ALERTS_MAX:
        lines.append(f"{len(rows) - ALERTS_MAX} more alerts are in {BASELINE}.")
    return lines if rows else [*lines, "No alert."]
