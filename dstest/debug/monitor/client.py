"""What clients saw, from the history: throughput, latencies and errors of a stretch of time, as
rows of `metrics/client.jsonl`. Those of `metrics/nodes.jsonl` have the same form, one number each:

    {"time_ns": 12000345678, "node": "n1", "name": "rss", "value": 31457280.0, "unit": "B"}

`time_ns` is run time. An empty `node` is the whole cluster; of a node with several services
`rss.SERVICE` and the like stand beside the sum. An operation counts where it ended, an
indeterminate one where its client gave up on it: it took at least so long.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.errors import EvidenceError
from dstest.core.op import Op, Outcome
from dstest.debug.monitor.settings import quantile
from dstest.judge.facts import SECOND_NS

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

VALUE_MOST: Final = 1e18
"""Bytes of an exabyte, nanoseconds of thirty years; sums and squares of these stay numbers."""

Series = Sequence[tuple[int, float]]
"""(run nanoseconds, value), by time."""

BINS_MAX: Final = 3600
WAITING_NS: Final = 500_000_000

_LATE: Final = ("timeout", "timed out", "deadline")
"""In the error of an operation of unknown outcome: it was waited for as long as it may take."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One number. Run nanoseconds; a `unit` of `1` is a count."""

    time_ns: int
    node: str
    name: str
    value: float
    unit: str


def unit_of(name: str) -> str:
    """Of what dstest measures itself, `rss.SERVICE` included; a count where it is not known."""
    return UNITS.get(name.partition(".")[0], "1")


def is_measured(value: float) -> bool:
    """Is it a number that somebody may have counted? Servers say NaN, and infinite, as well."""
    return abs(value) <= VALUE_MOST  # false of NaN


def encode_rows(rows: Iterable[Sample]) -> bytes:
    """As lines of a file. What is no measured number is left out: JSON has no word for it."""
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(row) + b"\n" for row in rows if is_measured(row.value))


def read_rows(path: Path) -> Iterator[Sample]:
    """Rows of a file, none where there is no file: a run need not have been sampled. A last line
    without an end is that of a run which goes on, or died. Raises EvidenceError for another one
    that cannot be read."""
    if not path.is_file():
        return
    decoder = msgspec.json.Decoder(Sample)
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


def series_of(rows: Iterable[Sample]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """(node, name) -> series."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in rows:
        found.setdefault((row.node, row.name), []).append((row.time_ns, row.value))
    for series in found.values():
        series.sort()
    return found


class ClientStats(msgspec.Struct, frozen=True, kw_only=True):
    """One stretch. `latencies_ms` are in order; `raced` were refused because of another operation,
    as a healthy system does."""

    seconds: float
    ok: int
    failed: int
    raced: int
    unknown: int
    latencies_ms: list[float]

    @property
    def operations(self) -> int:
        return self.ok + self.failed + self.raced + self.unknown

    @property
    def throughput(self) -> float:
        """Served per second, refusals because of a race among them."""
        return (self.ok + self.raced) / self.seconds if self.seconds > 0 else 0.0

    @property
    def errors_per_1000(self) -> float:
        """Of all that ended."""
        return 1000 * (self.failed + self.unknown) / self.operations if self.operations else 0.0

    def latency_ms(self, share: float) -> float | None:
        """None where nothing was measured."""
        return quantile(self.latencies_ms, share) if self.latencies_ms else None

    def slower_than(self, limit_ms: float) -> int:
        """How many took longer."""
        return len(self.latencies_ms) - bisect.bisect_right(self.latencies_ms, limit_ms)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The operations of a run, and what it takes to read them: `end_ns` is when the load was told
    to end, None where it was not; `races` are codes with which a healthy server refuses; `node_of`
    tells the node of a process; a client gives up after `timeout_ns`."""

    ops: Sequence[Op]
    end_ns: int | None = None
    races: frozenset[str] = frozenset()
    node_of: Mapping[int | str, str] = {}
    timeout_ns: int = 2 * SECOND_NS

    def took_ns(self, op: Op) -> int | None:
        """How long, or at least how long, an operation took; None of one that its client knew at
        once to be lost, and of one that was under way when the run ended."""
        if op.complete_ts is not None:
            return op.complete_ts - op.invoke_ts
        text = (op.error or "").lower()
        return self.timeout_ns if any(word in text for word in _LATE) else None

    def node(self, op: Op) -> str | None:
        """Whose client it was; None where nobody knows."""
        return op.node_seen or self.node_of.get(op.process_id)


_BECAME: Final = ("ok", "failed", "raced", "unknown")
"""What an operation comes to, and the number that stands for it in columns."""


_UNKNOWN_NS: Final = -(2**63)


class _Columns(NamedTuple):
    """Operations by the time at which they count, a row each of arrays of int64: where it stands
    in the load, that time, when it was asked, when it was last heard of, how long it took
    (_UNKNOWN_NS: nobody knows), what it became. Times in nanoseconds."""

    at: Any
    counted: Any
    asked: Any
    last: Any
    took: Any
    became: Any

    def where(self, chosen: Any) -> _Columns:
        return _Columns(*(column[chosen] for column in self))


def _columns(load: Load) -> _Columns:
    """Of what was asked while the load went on."""
    import numpy as np

    rows = []
    for at, op in enumerate(load.ops):
        if load.end_ns is not None and op.invoke_ts >= load.end_ns:
            continue
        took_ns = load.took_ns(op)
        last_ns = op.complete_ts or op.invoke_ts
        counted_ns = op.invoke_ts + (took_ns or 0)
        known_ns = _UNKNOWN_NS if took_ns is None else took_ns
        became = _became(op, load.races)
        rows.append((at, counted_ns, op.invoke_ts, last_ns, known_ns, became))
    table = np.array(rows, dtype=np.int64).reshape(-1, len(_Columns._fields))
    return _Columns(*table[np.argsort(table[:, 1], kind="stable")].T)


class Clients:
    """The operations of a load, or some of them."""

    def __init__(self, load: Load, columns: _Columns | None = None) -> None:
        self._columns = one = _columns(load) if columns is None else columns
        self._longest_ns = max(0, int(one.took.max(initial=0)))
        self.start_ns = int(one.asked.min()) if len(self) else 0
        last_ns = int(one.last.max()) if len(self) else -1
        self.end_ns = last_ns + 1 if load.end_ns is None else load.end_ns

    def by(self, load: Load, name_of: Callable[[Op], str | None]) -> dict[str, Clients]:
        """Those of each name, by name; what has none is in none of them. `load` is that of which
        these are all."""
        import numpy as np

        named = [name_of(op) for op in load.ops]
        numbers = {name: n for n, name in enumerate(sorted({n for n in named if n is not None}))}
        of = np.array([-1 if n is None else numbers[n] for n in named], dtype=np.int64)
        mine = of[self._columns.at]
        return {
            name: Clients(load, self._columns.where(mine == number))
            for name, number in numbers.items()
        }

    def __len__(self) -> int:
        return len(self._columns.at)

    def within(self, start_ns: int, end_ns: int, *, waiting: bool = False) -> ClientStats:
        """What ended from `start_ns` on and before `end_ns`. With `waiting` the latencies are also
        those, up to then, of what had been waited for half a second or more and had not ended."""
        import numpy as np

        one = self._columns
        a, b = one.counted.searchsorted((start_ns, end_ns))
        became, took_ns = one.became[a:b], one.took[a:b]
        counts = np.bincount(became, minlength=len(_BECAME)).tolist()
        latencies_ns = took_ns[(took_ns > _UNKNOWN_NS) & ((became == 0) | (became == 3))]
        if waiting:
            longest = one.counted.searchsorted(end_ns + self._longest_ns)
            ages_ns = end_ns - one.asked[b:longest]
            latencies_ns = np.concatenate([latencies_ns, ages_ns[ages_ns >= WAITING_NS]])
        return ClientStats(
            seconds=(end_ns - start_ns) / 1e9,
            latencies_ms=(np.sort(latencies_ns) / 1e6).tolist(),
            **dict(zip(_BECAME, counts, strict=True)),
        )


def _became(op: Op, races: frozenset[str]) -> int:
    outcome = op.outcome
    if outcome is Outcome.OK:
        return 0
    if outcome is Outcome.UNKNOWN:
        return 3
    return 2 if (op.error or "").partition(":")[0] in races else 1


def client_rows(load: Load) -> Iterator[Sample]:
    """By second, or longer parts of a long run: of all clients, of each node and each type of
    operation (`p95.read`). A part without operations has a throughput of zero and no latency."""
    whole = Clients(load)
    if not len(whole):
        return
    types, nodes = whole.by(load, attrgetter("op_type")), whole.by(load, load.node)
    parts = [
        ("", "", whole),
        *(("", f".{name}", some) for name, some in types.items()),
        *((name, "", some) for name, some in nodes.items()),
    ]
    bin_ns = SECOND_NS * max(1, math.ceil((whole.end_ns - whole.start_ns) / SECOND_NS / BINS_MAX))
    for at_ns in range(whole.start_ns - whole.start_ns % bin_ns, whole.end_ns, bin_ns):
        for node, of, some in parts:
            yield from _rows(some.within(at_ns, at_ns + bin_ns), at_ns + bin_ns, node, of)


def _rows(seen: ClientStats, time_ns: int, node: str, of: str) -> Iterator[Sample]:
    values: dict[str, float | None] = {
        "throughput": seen.throughput,
        "failed": seen.failed / seen.seconds,
        "unknown": seen.unknown / seen.seconds,
        "p50": seen.latency_ms(0.5),
        "p95": seen.latency_ms(0.95),
        "p99": seen.latency_ms(0.99),
    }
    for name, value in values.items():
        if value is not None and (value or name == "throughput"):
            yield Sample(
                time_ns=time_ns,
                node=node,
                name=f"{name}{of}",
                value=round(value, 6),
                unit=unit_of(name),
            )
