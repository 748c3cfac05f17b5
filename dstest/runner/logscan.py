"""Look through the system's logs for lines that no healthy system writes."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final

from dstest.judge.facts import Alarm
from dstest.store.layout import RunDir

__all__ = ["scan_logs"]

_LINES_MAX: Final = 200
_STAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d*(Z|[+-]\d\d:?\d\d)?"
)


def _run_time_ns(line: str, facts: Mapping[str, Any]) -> int | None:
    """A line's own wall-clock stamp (UTC unless it says otherwise) as run time."""
    found = _STAMP.search(line)
    if found is None or "origin_ns" not in facts or "clock_start_ns" not in facts:
        return None
    zone = (found[2] or "Z").replace("Z", "+00:00")
    try:
        stamp = datetime.datetime.fromisoformat(found[1].replace(" ", "T") + zone)
    except ValueError:
        return None
    wall_ns = int(stamp.timestamp() * 1e9)
    return wall_ns - int(facts["clock_start_ns"]) - int(facts["origin_ns"])


def scan_logs(
    run: RunDir, patterns: tuple[str, ...], facts: Mapping[str, Any]
) -> tuple[dict[str, int] | None, list[Alarm]]:
    """Lines per node and those that hold one of `patterns`; None where no log was kept.

    A line without a stamp of its own, such as a runtime's last words, is of the time of the last
    line before it that has one.
    """
    counts: dict[str, int] = {}
    alarms: list[Alarm] = []
    for path in sorted(run.nodes.glob("*/*")) if run.nodes.is_dir() else []:
        node = path.parent.name
        stamped = ""
        with path.open(errors="replace") as file:
            for line in file:
                counts[node] = counts.get(node, 0) + 1
                if _STAMP.search(line):
                    stamped = line
                if len(alarms) < _LINES_MAX and any(p in line for p in patterns):
                    ts = _run_time_ns(stamped, facts)
                    alarms.append(Alarm(node=node, line=line.strip()[:300], ts=ts))
    return counts or None, alarms
