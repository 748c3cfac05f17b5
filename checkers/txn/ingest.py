"""Transactional histories from files and bytes, read in C straight into columns; list-append
histories that are larger than memory are executed while they are read (`Stream`).

| format | looks like |
|---|---|
| dstest | `{"schema": "dstest.history/1", ...}` and one record of twelve keys per line |
| edn | `{:process 0, :type :ok, :f :txn, :value [[:append 5 1] [:r 5 nil]]}`, or a vector of them |
| json | `{"process": 0, "type": "ok", "f": "txn", "value": [["r", 5, [1]]]}`, or an array of them |

Any of them may be gzipped. Event maps are paired by process; a completion without an invocation is
a transaction of its own, and so is an invocation without a completion (its outcome is unknown).
Where an event names no process, or its process has several operations open, the micro-ops must tell
which invocation it completes. Events of processes that are not integers (the nemesis) are left out
and counted in `TxnColumns.skipped`; so are EDN's tagged values. Of our records the time stamps give
the event positions; at equal times invocations come first.
"""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from checkers import _core
from checkers.columns import interruptible
from checkers.txn.columns import TxnColumns
from dstest.core.errors import ConfigError, HistoryError, MemorySpent
from dstest.core.near import meant
from dstest.core.op import FIELDS

FORMATS: Final = ("auto", "dstest", "edn", "json")

MEMORY_MB: Final = 8192
"""What reading may take beyond a text that lies in a file; an unpacked text counts."""

_CHUNK: Final = 1 << 20

_CODES: Final = {"dstest": 0, "edn": 1, "json": 2}
_SKIPS: Final = ("process-not-an-integer", "tagged")
_WEAK: Final = (
    "unfinished operations are not marked unknown",
    "ok transactions that read tell no result",
    "records lack a field that tells something: null is not the same as absent (H01)",
)
_REMEDY: Final = "give our history.jsonl, or a Jepsen history as EDN, JSON or log"
_FIELDS: Final = f"a record has {', '.join(FIELDS)}"
_AGAIN: Final = "the history is mixed up or cut: record it again"
_MOP: Final = "a micro-operation is [:r key nil], [:w key value] or [:append key value]"
_OTHER_MOPS: Final = (
    "insert, delete and rp are micro-operations of --workload closed-predicate, read and write "
    "those of --model multi-register, send and poll those of --checker kafka"
)
_OTHER_OPS: Final = (
    "take out what is no transaction, or judge it by the --workload, --model or --checker that "
    "knows its operations"
)
_EVENT: Final = (
    "an event has process, type, f and value; Jepsen's results.edn is what its checkers found, and "
    "the history lies in history.edn beside it"
)
_REMEDIES: Final = {
    "a micro-operation is r, w or append": _OTHER_MOPS,
    "not a transaction": _OTHER_OPS,
    "an event without a type": _EVENT,
    "an event is": _EVENT,
    "a process that is neither": "number the clients, and call the nemesis so",
    "a transaction that does not say": "an invocation or its completion has to name them",
    "the answer is to other": _AGAIN,
    "its process": _AGAIN,
    "the time steps back": "sort the events as they happened, or give every one its index",
    "the index of an event": "write whole numbers, or leave it out where events are in their order",
    "a write needs": "each write and append names what it wrote",
    "a list cannot": "write scalars: a read that returns a list is one of list-append",
    "an element of a list": "lists hold scalars",
    "need a scalar": "values and elements are scalars; a key may be a list of them",
    "a symbol is": "write keywords or strings",
    "an event with a key": "leave the key out, or name it in the micro-operations",
    "a transaction is a list": "a transaction is [[:r key nil] [:append key value]] or the like",
    "a micro-operation": _MOP,
    "an empty micro": _MOP,
    "a key that stands twice": _AGAIN,
}
"""What helps against a refusal that begins so."""

_NOTATION: Final = "the history must be well-formed {}"
MORE: Final = "a larger --budget-mb, or a part of the history"
_STRANGE: Final = "a field that is none of a record's"
_SPENT: Final = "memory budget spent"
COLUMNS: Final = {
    "outcome": "u1",
    "process": "i8",
    "invoke_pos": "i8",
    "complete_pos": "i8",
    "op_index": "i8",
    "mop_start": "i8",
    "mop_kind": "u1",
    "mop_key": "i4",
    "mop_value": "i4",
    "mop_known": "u1",
    "elem_start": "i8",
    "elem": "i4",
}
_NAME: Final = np.dtype([("bits", "<i8"), ("size", "<i4"), ("tag", "u1"), ("pad", "V3")])
_APPENDS, _SETS = 1, 2
_WRITES: Final = {0: "", _APPENDS: "append", _SETS: "w"}
"""As csrc/ingest/ingest.h has them."""

_INT, _FLOAT, _BOOL, _STRING, _KEYWORD, _BIGINT, _LIST, _CHAR, _EXACT = range(9)
_CHARS: Final = {
    b"newline": "\n", b"return": "\r", b"space": " ", b"tab": "\t",
    b"formfeed": "\f", b"backspace": "\b",
}  # fmt: skip

STREAMED: Final = "list-append"
"""The workload whose histories can be judged so."""

_STREAM_REMEDY: Final = (
    "record it again, or judge the file as it was; see docs/reference/formats.md"
)

_SMALL: Final = 1 << 16
"""Bytes of lines that are read before a thread would have begun."""

WINDOW_SHARE: Final = 4
"""Of the memory, one part in so many is for transactions that are read and not yet executed."""


def bytes_of(source: Path) -> bytes | mmap:
    """The file's bytes, mapped where that is possible (pipes and empty files cannot be)."""
    try:
        with source.open("rb") as file:
            try:
                return mmap(file.fileno(), 0, access=ACCESS_READ)
            except (OSError, ValueError):
                return file.read()
    except OSError as error:
        raise HistoryError(
            f"cannot read {source}: {error.strerror}", remedy="check the path and its permissions"
        ) from None


def unpack(raw: bytes | mmap, limit: int) -> bytes | bytearray | mmap:
    """What a gzipped file holds, others as they are. Raises MemorySpent above the limit."""
    if raw[:2] != b"\x1f\x8b":
        return raw
    text = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw[:])) as file:
            while part := file.read(_CHUNK):
                if len(text) + len(part) > limit:
                    raise MemorySpent("memory budget spent on unpacking", remedy=MORE)
                text += part
    except (OSError, EOFError, zlib.error) as error:
        raise HistoryError(f"not whole: {error}", remedy="copy the file again") from None
    return text


def _guess(raw: bytes | bytearray | mmap) -> str:
    """The notation of a text, from its first bytes."""
    head = bytes(raw[:4096]).removeprefix(b"\xef\xbb\xbf").lstrip()
    first = head.split(b"\n", 1)[0]
    if first.startswith(b"{") and re.search(rb'"schema"\s*:\s*"dstest\.', first):
        return "json" if re.search(rb'"dstest"\s*:\s*\{', first) else "dstest"
    if re.match(rb'\[?\s*\{\s*"|\[\s*\]\s*$', head):
        return "json"
    if re.match(rb"[\[{(;#,]", head):
        return "edn"
    if not head:
        raise HistoryError("the history is empty", remedy=_REMEDY)
    raise HistoryError(
        f"not a history: it starts with {first[:40].decode('utf-8', 'replace')!r}",
        line=1,
        column=1,
        remedy=_REMEDY,
    )


def _names(table: bytes, text: bytes) -> list[Any]:
    """Scalars by id."""
    rows = np.frombuffer(table, _NAME)
    names: list[Any] = rows["bits"].tolist()
    for i in np.flatnonzero(rows["tag"] != _INT).tolist():
        bits, size, tag, _ = rows[i].tolist()
        if tag == _FLOAT:
            names[i] = float(rows["bits"][i : i + 1].view(np.float64)[0])
        elif tag == _BOOL:
            names[i] = bool(bits)
        elif tag == _BIGINT:
            names[i] = int(text[bits : bits + size])
        elif tag == _CHAR:
            names[i] = _CHARS.get(text[bits : bits + size], text[bits : bits + size].decode())
        else:
            names[i] = text[bits : bits + size].decode("utf-8")
    return names


def _word_at(text: bytes | bytearray | mmap, line: int, column: int) -> str:
    """The string that begins there, with its quotes."""
    row = bytes(text[:]).split(b"\n", line)[line - 1][column - 1 :]
    word = re.match(rb'"(?:[^"\\]|\\.)*"', row)
    return word[0].decode("utf-8", "replace") if word else "what stands here"


def _remedy(message: str, code: int) -> str:
    """What helps against a refusal."""
    if code == _CODES["dstest"]:
        return _REMEDY
    fit = (remedy for begun, remedy in _REMEDIES.items() if message.startswith(begun))
    return next(fit, _NOTATION.format("JSON" if code == _CODES["json"] else "EDN"))


class OutOfOrder(HistoryError):
    """The events are not in the order of their index."""


class _Id(msgspec.Struct):
    op_id: int | str


def _twice(text: bytes | bytearray | mmap) -> int | str | None:
    """An op_id that two records of ours share."""
    seen: set[int | str] = set()
    lines = iter(io.BytesIO(text[:]).readline, b"")
    next(lines, None)
    for line in lines:
        if line.strip():
            op_id = msgspec.json.decode(line, type=_Id).op_id
            if op_id in seen:
                return op_id
            seen.add(op_id)
    return None


def _repetitions(index: NDArray[np.int64]) -> int | None:
    """A number that two transactions share."""
    if len(index) < 2 or bool((index[1:] > index[:-1]).all()):
        return None
    ordered = np.sort(index)
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    return int(ordered[same[0]]) if len(same) else None


_SHARED_BYTES_MIN: Final = 1 << 20


def load(
    source: Path | str | bytes,
    fmt: str = "auto",
    *,
    threads: int | None = None,
    memory_mb: int = MEMORY_MB,
) -> TxnColumns:
    """Columns of the history in a file, or in the bytes themselves.

    Without `threads` one reads it, or two from a mebibyte on.
    Raises HistoryError with line and column (in bytes, from 1) for what is no such history or
    contradicts itself, OutOfOrder where its events can be sorted, MemorySpent where `memory_mb` is
    not enough.
    """
    if fmt not in FORMATS:
        raise ConfigError(f"no format called {fmt!r}", remedy=meant(fmt, FORMATS))
    raw = source if isinstance(source, bytes) else bytes_of(Path(source))
    text = unpack(raw, memory_mb << 20)
    code = _CODES[_guess(text) if fmt == "auto" else fmt]
    try:
        # Threads that wait for one another cost a short text more than they save.
        usual = 2 if len(text) >= _SHARED_BYTES_MIN else 1
        some = usual if threads is None else threads
        room = (memory_mb << 20) - (0 if text is raw else len(text))
        parts: Any = _core.read_history(text, code, some, max(0, room))
    except ValueError as error:
        message, line, column = error.args
        if message == _SPENT:
            raise MemorySpent("memory budget spent on reading", remedy=MORE) from None
        if message == _STRANGE:
            message = f"{_word_at(text, line, column)} is no field of a record"
            raise HistoryError(message, line=line, column=column, remedy=_FIELDS) from None
        remedy = _remedy(message, code)
        kind = OutOfOrder if message.startswith("the index steps back") else HistoryError
        raise kind(
            message, line=line or None, column=column if line else None, remedy=remedy
        ) from None
    arrays: dict[str, Any] = {
        name: np.frombuffer(part, dtype)
        for part, (name, dtype) in zip(parts, COLUMNS.items(), strict=False)
    }
    names = parts[len(COLUMNS) :]
    *counts, writes, unread = names[4:]
    if writes == _APPENDS | _SETS:
        raise HistoryError(
            "append and w stand in one history: is it list-append, or rw-register?",
            remedy="give the histories of lists and of registers one by one",
        )
    twice = _twice(text) if counts[-1] else _repetitions(arrays["op_index"])
    if twice is not None:
        what = "op_id" if code == _CODES["dstest"] else "index"
        raise HistoryError(f"{what} {twice} stands twice", remedy=_AGAIN)
    return TxnColumns(
        **arrays,
        key_names=_names(names[0], names[1]),
        value_names=_names(names[2], names[3]),
        skipped={why: n for why, n in zip(_SKIPS, counts, strict=False) if n},
        weak={why: n for why, n in zip(_WEAK, counts[len(_SKIPS) :], strict=False) if n},
        named=bool(counts[-1]),
        writes=_WRITES[writes],
        unread=unread,
    )


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
    """A list-append history that comes in pieces, lines of our JSONL in order of invocation,
    executed while it is read (csrc/stream/stream.h). `window_bytes` of transactions are read ahead.

    An execution that came to the end shows that the history is strict serializable, and so all that
    this implies. One that did not says where it ended, and of which keys the transactions may tell
    why: those transactions, with their micro-operations on those keys alone, are a history of their
    own, and what violates a model there violates it in the whole history. For a model orders or
    sees operations, and leaving out keys takes no demand back that the others make.
    """

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
                remedy=_STREAM_REMEDY,
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
