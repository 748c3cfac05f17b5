"""Samples out of files of anybody's: Prometheus text, OpenMetrics, and CSV of time, node, name,
value. Names that are known to mean what `dstest monitor` samples become its names.

Sources: Prometheus, "Exposition formats" (text 0.0.4: times in milliseconds); OpenMetrics 1.0,
section 4.1 (times in seconds, `# EOF`).
"""

from __future__ import annotations

import csv
import gzip
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.log_lines import wall_time_ns
from dstest.core.words import one_line

BYTES_MAX: Final = 1 << 30
"""Of one file."""

_SAMPLE: Final = re.compile(
    r"(?P<name>[A-Za-z_:][\w:]*)"
    r'(?:\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\})?'
    r"\s+(?P<value>[^\s#]+)"
    r"(?:\s+(?P<time>-?\d+(?:\.\d+)?))?\s*(?:#.*)?"
)
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_NODES: Final = ("node", "instance", "pod", "host", "hostname", "server")
_COLUMNS: Final = ("time", "node", "name", "value")
_KNOWN: Final[Mapping[str, re.Pattern[str]]] = {
    "rss": re.compile(r"(?:\w*_)?(?:resident_memory|rss)(?:_bytes)?"),
    "fds": re.compile(r"(?:process_)?open_(?:fds|file_descriptors|files)"),
    "threads": re.compile(r"(?:process|go|jvm)_threads(?:_current|_live(?:_threads)?)?"),
    "connections": re.compile(r"\w*connections(?:_(?:current|active|open|total_current))?"),
    "queue": re.compile(r"\w*(?:queue_(?:depth|length|size)|pending_(?:proposals|requests|tasks))"),
}
"""What `dstest monitor` calls it -> what exporters do."""


class Reading(NamedTuple):
    """A value of `name` of `node`, of the time since 1970, None where the file has none."""

    time_ns: int | None
    node: str
    name: str
    value: float
    place: str


def read_metrics(path: Path) -> Iterator[Reading]:
    """Values of a file, also gzipped; what does not count to a number is left out. Raises
    HistoryError for a line that is of no known form, ConfigError for a file that is not there."""
    shown = one_line(str(path))
    lines = _lines(path, shown)
    first = next((line for line in lines if line.strip()), "")
    columns = [name.strip().lower() for name in first.split(",")]
    if set(_COLUMNS) <= set(columns):
        yield from _csv(lines, shown)
    else:
        yield from _exposition(lines, shown, path.name.split(".")[0])


def _lines(path: Path, shown: str) -> list[str]:
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8", newline="") as file:
            return file.read(BYTES_MAX).splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        why = one_line(str(getattr(error, "strerror", None) or error))
        raise ConfigError(f"{shown}: {why}", remedy="check the path") from None


def read_sizes(path: Path) -> list[tuple[int, float]]:
    """(size, value) of each line of a CSV file; a first line that names its columns is left out.
    Raises HistoryError for another line that is no such pair, ConfigError for a file that is not
    there."""
    shown = one_line(str(path))
    found: list[tuple[int, float]] = []
    for number, row in _rows(_lines(path, shown), shown):
        cells = [cell.strip() for cell in row]
        value = _value(cells[1]) if len(cells) == 2 else None
        if value is not None and cells[0].isdecimal() and len(cells[0]) < 16:
            found.append((int(cells[0]), value))
        elif cells and (number > 1 or any(_value(cell) is not None for cell in cells)):
            raise HistoryError(
                f"{shown}: no size and value", line=number, remedy="lines such as 5,12.5"
            )
    return found


def _bad(shown: str, number: int, why: str) -> HistoryError:
    return HistoryError(
        f"{shown}: {why}",
        line=number,
        remedy="Prometheus text, OpenMetrics, or CSV with the columns time,node,name,value",
    )


def _csv(lines: list[str], shown: str) -> Iterator[Reading]:
    rows = _rows(lines, shown)
    header = [name.strip().lower() for name in next(rows)[1]]
    at = [header.index(name) for name in _COLUMNS]
    for number, row in rows:
        if not row:
            continue
        if len(row) <= max(at):
            raise _bad(shown, number, f"{len(row)} columns, and the header names {len(header)}")
        time, node, name, value = (row[column].strip() for column in at)
        found = _value(value)
        if found is None:
            raise _bad(shown, number, f"{value!r} is no number")
        time_ns = wall_time_ns(time + " ")
        if time_ns is None:
            raise _bad(shown, number, f"{time!r} is no time: ISO 8601, or seconds since 1970")
        if _counts(found):
            yield Reading(time_ns, node, known_name(name), found, f"{shown}:{number}")


def _exposition(lines: list[str], shown: str, stem: str) -> Iterator[Reading]:
    seconds = any(line.strip() == "# EOF" for line in lines)
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line.strip())
        found = _value(match["value"]) if match is not None else None
        if match is None or found is None:
            raise _bad(shown, number, "not a sample: NAME{LABELS} VALUE [TIME]")
        if not _counts(found):
            continue
        labels = dict(_LABEL.findall(match["labels"] or ""))
        node = next((labels[name] for name in _NODES if labels.get(name)), stem)
        yield Reading(
            _time_ns(match["time"], seconds=seconds),
            _without_port(node),
            _percentile(match["name"], labels),
            found * _scale(match["name"], labels),
            f"{shown}:{number}",
        )


def _time_ns(text: str | None, *, seconds: bool) -> int | None:
    if text is None:
        return None
    at = float(text) * (1e9 if seconds else 1e6)
    return round(at) if abs(at) < _TIME_MAX else None


_TIME_MAX: Final = 2.0**63
_VALUE_MAX: Final = 1e60
"""Exporters write numbers that large for what has no limit."""


def _counts(value: float) -> bool:
    return math.isfinite(value) and abs(value) < _VALUE_MAX


def _rows(lines: list[str], shown: str) -> Iterator[tuple[int, list[str]]]:
    """(number, cells) of each line of a CSV file. Raises HistoryError."""
    rows = csv.reader(lines)
    try:
        for row in rows:
            yield rows.line_num, row
    except csv.Error as error:
        raise _bad(shown, rows.line_num, str(error)) from None


def _value(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _without_port(node: str) -> str:
    return re.sub(r":\d+$", "", node)


_LATENCY: Final = re.compile(
    r"\w*(?:latency|duration|response_time)_(?P<unit>seconds|milliseconds|ms)"
)


def _percentile(name: str, labels: Mapping[str, str]) -> str:
    """A summary of latencies is `p99` by its quantile."""
    if _LATENCY.fullmatch(name) and labels.get("quantile") == "0.99":
        return "p99"
    return known_name(name)


def _scale(name: str, labels: Mapping[str, str]) -> float:
    """Latencies are milliseconds here."""
    match = _LATENCY.fullmatch(name)
    if match is None or labels.get("quantile") != "0.99":
        return 1.0
    return 1e3 if match["unit"] == "seconds" else 1.0


def known_name(name: str) -> str:
    """What `dstest monitor` calls it; its own name where nobody knows."""
    return next((ours for ours, theirs in _KNOWN.items() if theirs.fullmatch(name)), name)
