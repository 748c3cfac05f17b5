"""The wall-clock stamp of a line of a log as run time."""

from __future__ import annotations

import datetime
import re
from typing import Final

from dstest.core.run_meta import RunMeta

__all__ = ["run_time_ns", "wall_time_ns"]

_STAMP: Final = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ]([ \d]\d:\d\d:\d\d(?:[.,]\d{1,6})?)\d*(Z|[+-]\d\d:?\d\d)?"
)
"""Also as NATS writes it, with slashes, and as MariaDB does, with a space in front of an hour."""

_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip
_IN_WORDS: Final = re.compile(
    rf"(\d\d) ({'|'.join(_MONTHS)}) (\d{{4}}) (\d\d:\d\d:\d\d(?:\.\d{{1,6}})?)"
)
"""`23 Nov 2026 05:48:31.249`, as Redis writes it."""


def _as_iso(found: re.Match[str]) -> str:
    return f"{found[3]}-{_MONTHS.index(found[2]) + 1:02}-{found[1]} {found[4]}"


def wall_time_ns(line: str) -> int | None:
    """A line's own stamp (UTC unless it says otherwise), in nanoseconds since 1970; None where it
    has none."""
    match = _STAMP.search(_IN_WORDS.sub(_as_iso, line, count=1))
    if match is None:
        return None
    year, month, day, time, zone = match.groups()
    time = time.replace(" ", "0").replace(",", ".") + (zone or "Z").replace("Z", "+00:00")
    try:
        stamp = datetime.datetime.fromisoformat(f"{year}-{month}-{day}T{time}")
    except ValueError:
        return None
    return int(stamp.timestamp() * 1e9)


def run_time_ns(line: str, meta: RunMeta) -> int | None:
    """A line's own stamp as run time; None where it has none."""
    if meta.origin_ns is None or meta.clock_start_ns is None:
        return None
    wall_ns = wall_time_ns(line)
    return None if wall_ns is None else wall_ns - meta.clock_start_ns - meta.origin_ns
