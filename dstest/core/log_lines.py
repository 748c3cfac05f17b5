"""Logs of servers as a run keeps them: the names of their files, and the stamps of their lines as
wall time and as run time, in the forms that servers write.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Final

from dstest.core.run_record import RunMeta

LOG_OPTION: Final = "log_mb"

LOG_MB: Final = 32
"""Mebibytes that a run keeps of each log where `-o log_mb` says nothing else."""

PACKED: Final = ".gz"
"""What the name of a large log ends with in a run directory, where it is kept compressed."""

_STRANGE: Final = re.compile(r"[^A-Za-z0-9._+=@,-]")
"""What no path of ours has: a node may name files as it likes."""

PART_MAX: Final = 100

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

_EPOCH: Final = re.compile(r"\s*\[?(\d{10}(?:\.\d{1,9})?|\d{13}|\d{16}|\d{19})\]?\s")
"""Seconds since 1970, or parts of seconds, at the beginning of a line."""

_EPOCH_NAMED: Final = re.compile(
    r"[\"'](?:ts|t|time|timestamp|@timestamp|epoch|datetime|timeUnixNano)[\"']\s*:\s*[\"']?"
    r"(\d{10}(?:\.\d+)?|\d\.\d+[eE]\+?0?9|\d{13}(?:\.\d+)?|\d{16}|\d{19})[\"']?\s*[,}]"
    r"|(?:^|\s)(?:ts|t|time|timestamp)=\"?"
    r"(\d{10}(?:\.\d{1,9})?|\d\.\d+[eE]\+?0?9|\d{13}|\d{16}|\d{19})\"?(?:\s|$)"
)
"""The same as a field, as zap writes it."""

_EPOCH_MAYBE: Final = re.compile(
    r"(?:ts?|time|timestamp|epoch|datetime|timeUnixNano)(?:[\"']\s*:\s*|=)[\"']?\d"
)
"""What every such field has: most lines have not, and are told so four times as fast."""

_ACCESS: Final = re.compile(
    rf"(\d\d)/({'|'.join(_MONTHS)})/(\d{{4}}):(\d\d:\d\d:\d\d) ([+-]\d{{4}})"
)
"""`05/Mar/2024:10:15:30 +0000`, as web servers write it."""

_KLOG: Final = re.compile(r"^[DIWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{1,6})\d*\s")
"""`I0305 10:15:30.123456`, month and day without a year, as klog and glog write it."""

_KLOG_YEAR: Final = re.compile(r"^[DIWEF](\d\d)(\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{1,6})\d*\s")
"""`I240305 10:15:10.223456`, with two digits of the year, as CockroachDB writes it."""

_SYSLOG: Final = re.compile(
    rf"^\s*(?:<\d{{1,3}}>)?({'|'.join(_MONTHS)}) {{1,2}}(\d{{1,2}})"
    r" (\d\d:\d\d:\d\d(?:\.\d{1,6})?)\s"
)
"""`Nov 28 12:00:01 host app[7]: ...`, as RFC 3164 has it: without a year."""

_CLOCK: Final = re.compile(r"\d:\d\d:\d\d")
"""Every stamp but those of an epoch has one."""

_DAY_NS: Final = 86_400_000_000_000


def kept_as(paths: Iterable[str]) -> dict[str, str]:
    """Path -> name: the base name, with as many folders before it as no other path ends with.

    `/opt/db/log` and `/opt/proxy/log` are `db-log` and `proxy-log`.
    """
    ends = {path: _ends(path) for path in paths}
    found = {}
    for path, mine in ends.items():
        others = {end for other, theirs in ends.items() if other != path for end in theirs}
        found[path] = next((end for end in mine if end not in others), mine[-1])
    return found


def kept_name(name: str) -> str:
    """The name of a log, kept compressed or not."""
    return name.removesuffix(PACKED)


def _ends(path: str) -> list[str]:
    """The base name, that with its folder, and so on up to the whole path."""
    parts = [_STRANGE.sub("_", part).lstrip(".")[-PART_MAX:] for part in path.split("/")]
    parts = [part for part in parts if part] or ["unnamed"]
    return ["-".join(parts[at:]) for at in range(len(parts) - 1, -1, -1)]


def _of_epoch(text: str) -> int:
    whole, _, rest = text.partition(".")
    if "e" in text.lower():
        return round(float(text) * 1e6) * 1000
    unit_ns: int = 10 ** (19 - len(whole))  # 10 digits are seconds, 13 milliseconds, ...
    return int(whole) * unit_ns + int(float(f"0.{rest or 0}") * unit_ns)


def _yearless(month: int, day: int, clock: str, now_ns: int | None) -> int | None:
    """In the last year that ends with `now_ns`."""
    if now_ns is None:
        return None
    now = datetime.datetime.fromtimestamp(now_ns / 1e9, datetime.UTC)
    for year in (now.year + 1, now.year, now.year - 1):
        text = f"{year}-{month:02}-{day:02}T{clock}+00:00"
        try:
            wall_ns = int(datetime.datetime.fromisoformat(text).timestamp() * 1e9)
        except ValueError:
            continue
        if wall_ns <= now_ns + _DAY_NS:
            return wall_ns
    return None


def _as_iso(found: re.Match[str]) -> str:
    zone = found[5] if found.re is _ACCESS else ""
    return f"{found[3]}-{_MONTHS.index(found[2]) + 1:02}-{found[1]} {found[4]}{zone}"


def _epoch_ns(line: str) -> int | None:
    if (first := _EPOCH.match(line)) is not None:
        return _of_epoch(first[1])
    if _EPOCH_MAYBE.search(line) is None:
        return None
    named = _EPOCH_NAMED.search(line)
    return None if named is None else _of_epoch(named[1] or named[2])


def _odd_time_ns(line: str, now_ns: int | None) -> int | None:
    """Of a line whose stamp begins with no year."""
    if (epoch_ns := _epoch_ns(line)) is not None:
        return epoch_ns
    if (syslog := _SYSLOG.match(line)) is not None:
        return _yearless(_MONTHS.index(syslog[1]) + 1, int(syslog[2]), syslog[3], now_ns)
    if (klog := _KLOG.match(line)) is not None:
        return _yearless(int(klog[1]), int(klog[2]), klog[3], now_ns)
    if (klog := _KLOG_YEAR.match(line)) is not None:
        return wall_time_ns(f"20{klog[1]}-{klog[2]}-{klog[3]} {klog[4]}")
    access = _ACCESS.search(line)
    return None if access is None else wall_time_ns(_as_iso(access))


def wall_time_ns(line: str, now_ns: int | None = None) -> int | None:
    """A line's own stamp (UTC unless it says otherwise), in nanoseconds since 1970; None where it
    has none. `now_ns` is when it was read: a stamp without a year is of the last one."""
    if _CLOCK.search(line) is None:
        return _epoch_ns(line)
    match = _STAMP.match(line) or _STAMP.search(_IN_WORDS.sub(_as_iso, line, count=1))
    if match is None:
        return _odd_time_ns(line, now_ns)
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
    wall_ns = wall_time_ns(line, meta.clock_start_ns + meta.origin_ns)
    return None if wall_ns is None else wall_ns - meta.clock_start_ns - meta.origin_ns
