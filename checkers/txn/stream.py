"""list-append histories that are larger than memory: executed while they are read.

Lines of our JSONL come in pieces, in order of invocation. `csrc/stream/stream.h` says what is done
with them and what is kept. An execution that came to the end shows that the history is strict
serializable, and so all that this implies. One that did not says where it ended, and of which keys
the transactions may tell why: those transactions, with their micro-operations on those keys alone,
are a history of their own, and what violates a model there violates it in the whole history. For a
model orders or sees operations, and leaving out keys takes no demand back that the others make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from checkers import _core
from checkers._native import interruptible
from dstest.core.errors import HistoryError

STREAMED: Final = "list-append"
"""The workload whose histories can be judged so."""


class Status(IntEnum):
    """As enum stream_status of csrc/stream/stream.h."""

    GOING = 0
    TIME = 2
    MEMORY = 3
    STOPPED = 4
    REFUSED = 5
    DISORDER = 6
    NAMED = 7


class End(IntEnum):
    """As enum stream_end there."""

    RUNS = 0
    STUCK = 1
    OTHER = 2
    STALE = 3


WHY: Final[Mapping[int, str]] = {
    Status.TIME: "time budget spent",
    Status.MEMORY: "memory budget spent",
    Status.STOPPED: "stopped",
    Status.DISORDER: "its records are not in order of invocation, or not nearly",
    Status.NAMED: "ids of operations are strings, which are not kept",
}
"""Why there is no answer."""

ENDS: Final[Mapping[int, str]] = {
    End.RUNS: "",
    End.STUCK: "it completed before all that its reads and appends ask for could be executed",
    End.OTHER: "it read another list than others did, or than had been executed",
    End.STALE: "it read a version that had been replaced",
}
"""Why the execution ended before the history did."""

_WEAK: Final = (
    "unfinished operations are not marked unknown",
    "ok transactions that read tell no result",
    "records lack a field that tells something: null is not the same as absent (H01)",
)

_REMEDY: Final = "record it again, or judge the file as it was; see docs/formats.md"

_SMALL: Final = 1 << 16
"""Bytes of lines that are read before a thread would have begun."""

WINDOW_SHARE: Final = 4
"""Of the memory, one part in so many is for transactions that are read and not yet executed."""


class Report(NamedTuple):
    """What is known after some lines: operations by outcome; `seen`, reads of what others appended;
    `touching`, operations that began at the instant at which the one before in their process ended;
    bytes at most; where the execution ended (`ENDS`), and keys that may tell why, the most telling
    first, None for those that have no plain name."""

    ok: int
    failed: int
    unknown: int
    seen: int
    keys: int
    touching: int
    last_ns: int
    memory_bytes: int
    end: int
    op_id: int
    weak: tuple[int, int, int]
    involved: list[int | str | bool | None]

    @property
    def ops(self) -> int:
        """How many operations."""
        return self.ok + self.failed + self.unknown

    @property
    def weaknesses(self) -> list[str]:
        """What keeps a clean history from being valid."""
        return [f"{n} {what}" for n, what in zip(self.weak, _WEAK, strict=True) if n]


class Stream:
    """A history that comes in pieces. `window_bytes` of transactions are read ahead."""

    def __init__(self, memory_bytes: int, window_bytes: int | None = None) -> None:
        window = memory_bytes // WINDOW_SHARE if window_bytes is None else window_bytes
        self._core = _core.stream_open(memory_bytes, window)

    def feed(self, lines: bytes, left_s: float) -> str | None:
        """Takes the next whole lines, the header first; without any there are no more. Says why
        there will be no answer. Raises HistoryError for what cannot be read or contradicts itself.
        """
        stop = np.zeros(1, np.int32)
        answers: list[tuple[int, str | None, int, int]] = []
        time_ns = max(0, int(left_s * 1e9))
        interruptible(
            lambda: answers.append(_core.stream_feed(self._core, lines, time_ns, stop)),
            stop,
            small=0 < len(lines) < _SMALL,
        )
        status, message, line, column = answers[0]
        if status == Status.GOING:
            return None
        if status == Status.REFUSED:
            raise HistoryError(
                message or "malformed", line=line or None, column=column if line else None,
                remedy=_REMEDY,
            )  # fmt: skip
        where = f"line {line}: {message}" if message else ""
        return f"{WHY[status]} ({where})" if where else WHY[status]

    def report(self) -> Report:
        """What is known so far."""
        return Report(*_core.stream_report(self._core))

    def naming(self, lines: bytes, keys: int, *, first: bool) -> list[bytes]:
        """Of lines that were fed before, those that name one of the first `keys` involved ones;
        `first` where the history begins with these lines."""
        rows = _core.stream_select(self._core, lines, keys, first)
        if rows is None:
            raise HistoryError("the file has changed while it was read", remedy="judge it again")
        spans = np.frombuffer(rows, np.int64).reshape(-1, 2).tolist()
        return [lines[begin:end] for begin, end in spans]


def on_keys(lines: list[bytes], keys: set[tuple[type, Any]]) -> Iterator[bytes]:
    """The records, with what they did to these keys (types with names) alone."""
    for line in lines:
        record = msgspec.json.decode(line)
        kept = False
        for field in ("input", "output"):
            if isinstance(record.get(field), list):
                record[field] = [m for m in record[field] if (type(m[1]), m[1]) in keys]
                kept = kept or bool(record[field])
        if kept:
            yield msgspec.json.encode(record)
