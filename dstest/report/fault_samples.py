"""What the nodes sampled before, during and after a fault, beside what proves it: it proves nothing
by itself, and no fault is believed or doubted for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dstest.core.evidence import LandingRecord
from dstest.monitor.numbers import mean, quantity
from dstest.monitor.rows import NODES, read_rows

SHOWN: Final = (
    "rss",
    "cpu",
    "fds",
    "connections",
    "queue",
    "fsync",
    "written",
    "net_sent",
    "disk_free",
)
"""Series, in this order, where they were sampled."""

AROUND_NS: Final = 15_000_000_000
"""So long before its injection and after its heal."""

Rows = list[tuple[str, str, str, str]]


def fault_samples(run: Path, records: Sequence[LandingRecord]) -> dict[str, Rows]:
    """By fault rows of (node and series, before, during, after), means ready to print, of the nodes
    that it is aimed at. Nothing of a run that was not sampled."""
    wanted = set(SHOWN)
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    units: dict[str, str] = {}
    for row in read_rows(run / NODES):
        if row.name in wanted:
            series.setdefault((row.node, row.name), []).append((row.time_ns, row.value))
            units[row.name] = row.unit
    found = {record.fault_id: _of(record, series, units) for record in records}
    return {name: rows for name, rows in found.items() if rows}


def _of(
    record: LandingRecord,
    series: Mapping[tuple[str, str], Sequence[tuple[int, float]]],
    units: Mapping[str, str],
) -> Rows:
    if record.injected_at is None or record.healed_at is None:
        return []
    start, end = record.injected_at, record.healed_at
    parts = ((start - AROUND_NS, start), (start, end), (end, end + AROUND_NS))
    rows = []
    for node in record.targets:
        for name in SHOWN:
            points = series.get((node, name))
            if points:
                told = [_mean(points, *part, units[name]) for part in parts]
                rows.append((f"{node} {name}", *told))
    return [(a, b, c, d) for a, b, c, d in rows]


def _mean(points: Sequence[tuple[int, float]], start: int, end: int, unit: str) -> str:
    inside = [value for time_ns, value in points if start <= time_ns < end]
    return quantity(mean(inside), unit) if inside else "-"
