"""A row of `metrics/nodes.jsonl` and `metrics/client.jsonl`: one number of one node at one instant.

    {"time_ns": 12000345678, "node": "n1", "name": "rss", "value": 31457280.0, "unit": "B"}

`time_ns` is run time, on the clock of the history. A `node` that is empty is the whole cluster. Of
a node with several services `rss.SERVICE` and the like stand beside the sum of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from dstest.core.errors import EvidenceError

NODES: Final = "metrics/nodes.jsonl"
"""In a run directory: what was sampled on the nodes. A record, made while the run went on."""

CLIENT: Final = "metrics/client.jsonl"
"""What clients saw, by second: it follows from the history."""

BASELINE: Final = "metrics/baseline.json"
"""The baseline, alerts and health that follow from both."""

UNITS: Final = MappingProxyType(
    {
        **dict.fromkeys(("rss", "memory_free", "disk_free", "db_size"), "B"),
        **dict.fromkeys(("cpu", "sampler"), "%"),
        **dict.fromkeys(("fds", "threads", "processes", "connections", "time_wait"), "1"),
        **dict.fromkeys(("answers", "load", "queue", "messages_sent"), "1"),
        **dict.fromkeys(("read", "written", "net_received", "net_sent"), "B/s"),
        **dict.fromkeys(("answer_time", "p50", "p95", "p99"), "ms"),
        **dict.fromkeys(("failed", "unknown", "throughput"), "1/s"),
    }
)
"""Of what dstest measures of any system. `cpu` is of all CPUs of the node, `sampler` of one of
them, what sampling itself costs. `load` and `memory_free` are the machine's, which nodes share
where they share a kernel. `answers` is 1 where a server said anything to its own node within a
second."""


STEADY: Final = frozenset(
    {
        *("sampler", "cpu", "rss", "fds", "threads", "processes", "read", "written"),
        *("net_received", "net_sent", "load", "memory_free", "connections", "time_wait"),
        *("answers", "messages_sent"),
    }
)
"""What a sampler takes each time, of a node whose servers are dead as well. Any other series is as
a server says it, or rarer, and its silence is no silence of the sampler."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One number. Run nanoseconds; a `unit` of `1` is a count."""

    time_ns: int
    node: str
    name: str
    value: float
    unit: str


VALUE_MOST: Final = 1e18
"""Bytes of an exabyte, nanoseconds of thirty years; sums and squares of these stay numbers."""

Series = Sequence[tuple[int, float]]
"""(run nanoseconds, value), by time."""


def unit_of(name: str) -> str:
    """Of what dstest measures itself, `rss.SERVICE` included; a count where it is not known."""
    return UNITS.get(name.partition(".")[0], "1")


def is_measured(value: float) -> bool:
    """Is it a number that somebody may have counted? Servers say NaN, and infinite, as well."""
    return abs(value) <= VALUE_MOST  # false of NaN


def encoded(rows: Iterable[Row]) -> bytes:
    """As lines of a file. What is no measured number is left out: JSON has no word for it."""
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(row) + b"\n" for row in rows if is_measured(row.value))


def read_rows(path: Path) -> Iterator[Row]:
    """Rows of a file, none where there is no file: a run need not have been sampled. A last line
    without an end is that of a run which goes on, or died. Raises EvidenceError for another one
    that cannot be read."""
    if not path.is_file():
        return
    decoder = msgspec.json.Decoder(Row)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                row = decoder.decode(line)
                if not is_measured(row.value):
                    raise msgspec.ValidationError(f"nothing counts to {row.value:g}")
                yield row
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise EvidenceError(
                    f"{path}, line {number}, cannot be read: {error}",
                    remedy="it was cut off or changed; take it from where the run was made",
                ) from None


def series_of(rows: Iterable[Row]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """(node, name) -> series."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault((row.node, row.name), []).append((row.time_ns, row.value))
    for series in found.values():
        series.sort()
    return found
