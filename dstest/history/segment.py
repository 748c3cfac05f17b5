"""The event log of a running test: one append-only file per writer, a checksum per line.

A line is `CCCCCCCC [json array]` and a newline: eight hex digits of CRC-32 over everything that
follows them, the separator and the newline included, so that a flip anywhere in the line is
noticed. Each array is an event: its tag, then its fields in their order.

| tag | event | who writes it |
|---|---|---|
| `h` | `Header`, always the first | any writer |
| `i` | `Invoked` | a load worker |
| `o`, `f`, `u` | `Succeeded`, `Failed`, `Unknown`: how an operation ended | a load worker |
| `fault` | `Fault`: the newest record of a fault wins | the control process |
| `late` | `Late` | the control process |
| `note` | `Note` | either |
| `e` | `End`, the last of a writer that ended well | any writer |

Lines are put into pages that the kernel shares: what was recorded survives `kill -9` of the writer,
and at most the line in flight is torn. Room is taken ahead, so that a full disk refuses a line: no
writer dies of it where the file system keeps what `fallocate` has given, as ext4, xfs and tmpfs do.
What of it is not written yet is NUL bytes, cut off when the writer closes its file; where it was
killed they stay. A file without an `End` is of a writer that died.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest.core.errors import HistoryError
from dstest.core.evidence import LandingRecord
from dstest.core.history import FaultWindow, windows_of
from dstest.core.op import Key, Op

ROOM_BYTES: Final = 1 << 18

_ENCODER: Final = msgspec.json.Encoder()

_LATE_MAX_NS: Final = 1_000_000_000
"""A process that stood for longer is a host in trouble, and H08 is to tell."""


class _Event(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of them all."""


class Writer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose segment it is: that of one of so many workers, or of the control process."""

    worker: int | None = None
    workers: int | None = None
    control: bool = False


class Facts(Writer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A segment `ends` with an `End`, unless its writer has died."""

    schema: Literal["dstest.segment/1"]
    ends: Literal[True]


class Header(_Event, frozen=True, tag="h"):
    facts: Facts

    @classmethod
    def of(cls, writer: Writer) -> Header:
        """The first line of this writer's segment."""
        said = msgspec.structs.asdict(writer)
        return cls(Facts(schema="dstest.segment/1", ends=True, **said))


class Invoked(_Event, frozen=True, tag="i"):
    """Written before the request leaves; `due_ns` is when it should, where that was planned."""

    op_id: int
    process_id: int | str
    time_ns: int
    op_type: str
    key: Key
    input: Any
    node: str
    due_ns: int | None = None


class Succeeded(_Event, frozen=True, tag="o"):
    op_id: int
    time_ns: int
    output: Any
    node_seen: str | None
    epoch: str | None


class Failed(_Event, frozen=True, tag="f"):
    """It had no effect."""

    op_id: int
    time_ns: int
    error: str
    node_seen: str | None
    epoch: str | None


class Unknown(_Event, frozen=True, tag="u"):
    """Whether it had an effect is unknown."""

    op_id: int
    time_ns: int
    error: str
    epoch: str | None


class Fault(_Event, frozen=True, tag="fault"):
    record: LandingRecord


class Note(_Event, frozen=True, tag="note"):
    time_ns: int
    facts: dict[str, Any]


class Late(_Event, frozen=True, tag="late"):
    """A window's beginning or end, at `edge_ns`, of which workers may have heard at `told_ns`."""

    epoch: str
    edge_ns: int
    told_ns: int


class End(_Event, frozen=True, tag="e"):
    """`lines` is how many stand before it."""

    lines: int


Completion = Succeeded | Failed | Unknown
Event = Header | Invoked | Completion | Fault | Late | Note | End

_DECODER: Final = msgspec.json.Decoder(Event)


def event_of(text: bytes) -> Event | None:
    """The event of a line whose checksum matches; None where it is none of these."""
    try:
        found: Event = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found


def encode_line(event: Event) -> bytes:
    """One line of a segment."""
    body = b" " + _ENCODER.encode(event) + b"\n"
    return b"%08x" % zlib.crc32(body) + body


class SegmentWriter:
    """Appends events. `append` raises OSError where the disk refuses; nothing is half-believed."""

    def __init__(self, path: Path, writer: Writer) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._pages: mmap.mmap | None = None
        self._pages_from = 0
        self._room_end = 0
        self._end = 0
        self._lines = 0
        self.append(Header.of(writer))

    def append(self, event: Event) -> None:
        """Write one event; when this returns, the kernel has it."""
        line = encode_line(event)
        end = self._end + len(line)
        if end > self._room_end:
            self._take_room(end)
        assert self._pages is not None
        self._pages[self._end - self._pages_from : end - self._pages_from] = line
        self._end = end
        self._lines += 1

    def _take_room(self, end: int) -> None:
        """Have pages allocated and mapped from the page that is being written to, to `end` at
        least."""
        page = mmap.ALLOCATIONGRANULARITY
        start = self._end // page * page
        size = max(ROOM_BYTES, (end - start + page - 1) // page * page)
        os.posix_fallocate(self._fd, start, size)
        pages = mmap.mmap(self._fd, size, offset=start)
        if self._pages is not None:
            self._pages.close()
        self._pages, self._pages_from, self._room_end = pages, start, start + size

    def finish(self) -> None:
        """Say that nothing is missing: how many lines there are. Nothing is appended afterwards."""
        self.append(End(self._lines))

    def sync(self) -> None:
        """Make what was written survive a power cut."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Give back what room is left."""
        if self._pages is not None:
            self._pages.close()
        try:
            os.ftruncate(self._fd, self._end)
        finally:
            os.close(self._fd)


class Damage(NamedTuple):
    """What could not be read: damaged lines inside the file, and whether its last line is torn."""

    lines: list[int]
    torn_tail: bool


def read_lines(path: Path, damage: list[Damage] | None = None) -> Iterator[bytes]:
    """The texts of one segment's lines, in order.

    A torn last line is what a killed writer leaves behind and is dropped: where room follows it,
    its end may be there and its middle not. A damaged line elsewhere is skipped and counted;
    without a `damage` list to count in, it raises HistoryError.
    """
    bad: list[int] = []
    torn = False
    data = path.read_bytes()
    written = data.rstrip(b"\0")
    lines = written.split(b"\n")
    last = len(lines) - 1
    for number, line in enumerate(lines):
        if number == last:
            torn = line != b""
            break
        text = text_of(line)
        if text is not None:
            yield text
        elif number == last - 1 and not lines[last] and len(written) < len(data):
            torn = True
            break
        else:
            bad.append(number + 1)
    if damage is not None:
        damage.append(Damage(bad, torn))
    elif bad:
        raise HistoryError(
            f"{path.name}: checksum does not match",
            line=bad[0],
            remedy="`dstest recover` keeps every other line",
        )


def text_of(line: bytes) -> bytes | None:
    """The JSON text of a line without its newline; None where its checksum does not match."""
    if len(line) < 11 or line[8:10] != b" [":
        return None
    if line[:8] != b"%08x" % zlib.crc32(line[8:] + b"\n"):
        return None
    return line[9:]


class Segment(NamedTuple):
    """How one file reads. `lines` counts those that could be read, header and end included.

    `header` is None where the file does not begin with one. `end` is how many lines its writer
    says stand before the last one, None where the writer did not get to say so.
    """

    name: str
    header: Writer | None
    lines: int
    end: int | None
    damaged: list[int]
    torn_tail: bool


class Folded(NamedTuple):
    """What the segments hold. `process_nodes` maps each process to the node it was bound to.

    `by_node` counts per node as the board does: `invoked`, `ok`, `fail`, `unknown`. `late` are the
    edges of windows of which the workers were told when they had passed.
    """

    ops: list[Op]
    records: list[LandingRecord]
    notes: list[dict[str, Any]]
    headers: list[Writer]
    process_nodes: dict[int | str, str]
    counters: dict[str, int]
    segments: list[Segment]
    by_node: dict[str, dict[str, int]]
    late: list[Late] = []


def operation(invoke: Invoked, done: Completion | None, epoch_of_open: str | None) -> Op:
    """One operation of its two events; None = it was never completed."""
    known = None if done is None or isinstance(done, Unknown) else done
    epoch = None if done is None else done.epoch
    if known is None:
        # The worker saw the windows up to its timeout; the operation may last to the run's end.
        epoch = epoch or epoch_of_open
    return Op(
        op_id=invoke.op_id,
        process_id=invoke.process_id,
        invoke_ts=invoke.time_ns,
        complete_ts=None if known is None else known.time_ns,
        op_type=invoke.op_type,
        key=invoke.key,
        input=invoke.input,
        output=known.output if isinstance(known, Succeeded) else None,
        error=_error(done),
        timeout_marker=known is None,
        node_seen=None if known is None else known.node_seen,
        fault_epoch=epoch,
        due_ts=msgspec.UNSET if invoke.due_ns is None else invoke.due_ns,
    )


def _error(done: Completion | None) -> str | None:
    if done is None:
        return "unfinished"
    return None if isinstance(done, Succeeded) else done.error


def _epoch_of_open(invoke_ns: int, windows: list[FaultWindow]) -> str | None:
    """An open operation lasts until the end of the run: the first window not yet healed then."""
    for window in windows:
        if window.healed_ns is None or window.healed_ns >= invoke_ns:
            return window.epoch
    return None


def _is_edge(said: Late, windows: list[FaultWindow]) -> bool:
    """Is it one of a window that there was, told of soon after it had passed? One that was given up
    for a later one, or that nobody came to write down, corrects nothing."""
    return 0 <= said.told_ns - said.edge_ns <= _LATE_MAX_NS and any(
        window.epoch == said.epoch and said.edge_ns in (window.start_ns, window.healed_ns)
        for window in windows
    )


def _timed(op: Op, windows: list[FaultWindow], late: list[Late]) -> Op:
    """The operation, by its times where its worker may have stamped it by an old view: a stamp is
    made when an operation ends, and one without an end has its timeout's."""
    last = op.complete_ts
    if last is None:
        stale = any(op.invoke_ts <= edge.told_ns for edge in late)
    else:
        stale = any(edge.edge_ns <= last <= edge.told_ns for edge in late)
    if not stale or op.fault_epoch not in (None, *(w.epoch for w in windows)):
        return op
    begun = windows if last is None else [w for w in windows if w.start_ns <= last]
    epoch = _epoch_of_open(op.invoke_ts, begun)
    return msgspec.structs.replace(op, fault_epoch=epoch)


class _Fold:
    """Events as they come; `read` reads one segment after the other."""

    def __init__(self) -> None:
        self.invokes: list[Invoked] = []
        self.done: dict[int, Completion] = {}
        self.faults: dict[str, LandingRecord] = {}
        self.notes: list[dict[str, Any]] = []
        self.late: list[Late] = []
        self.segments: list[Segment] = []
        self.counts: Counter[str] = Counter()

    def read(self, path: Path) -> None:
        damage: list[Damage] = []
        header: Writer | None = None
        end: int | None = None
        lines = 0
        for text in read_lines(path, damage):
            lines += 1
            event = event_of(text)
            if event is None or end is not None:
                self.counts["malformed"] += 1
            elif isinstance(event, Header):
                if lines > 1:
                    self.counts["malformed"] += 1
                else:
                    header = event.facts
            elif isinstance(event, End):
                end = event.lines
            elif isinstance(event, Late) and (header is None or not header.control):
                self.counts["malformed"] += 1
            else:
                self._take(event)
        (found,) = damage
        self.segments.append(
            Segment(path.name, header, lines, end, list(found.lines), found.torn_tail)
        )

    def _take(self, event: Invoked | Completion | Fault | Late | Note) -> None:
        if isinstance(event, Invoked):
            self.invokes.append(event)
        elif isinstance(event, Note):
            self.notes.append({**event.facts, "time_ns": event.time_ns})
        elif isinstance(event, Late):
            self.late.append(event)
        elif isinstance(event, Fault):
            self.faults[event.record.fault_id] = event.record
        else:
            self.counts["completions"] += 1
            self.counts["duplicates"] += event.op_id in self.done
            self.done[event.op_id] = event


_COUNTED: Final = {Succeeded: "ok", Failed: "fail", Unknown: "unknown"}


def _by_node(invokes: list[Invoked], done: dict[int, Completion]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for event in invokes:
        row = found.setdefault(event.node, {"invoked": 0, "ok": 0, "fail": 0, "unknown": 0})
        row["invoked"] += 1
        end = done.get(event.op_id)
        if end is not None:
            row[_COUNTED[type(end)]] += 1
    return found


def fold(segments: Path) -> Folded:
    """Read all segments of a run directory. Damaged lines are counted, never guessed.

    An invocation without completion becomes an unknown outcome with error `unfinished`, however the
    run ended; it is never truncated away. Times, ids and epochs are taken as the workers wrote
    them; the lints compare them with what is recomputed here. Only while the control process says
    that it told the workers late of a window's edge, the times decide alone.
    `dstest.runner.judgement` says what the counts of damage are worth.
    """
    read = _Fold()
    for path in sorted(segments.glob("*.seg")):
        read.read(path)
    records = sorted(read.faults.values(), key=lambda r: r.scheduled_at)
    windows = windows_of(records)
    invokes, done = read.invokes, read.done
    invokes.sort(key=lambda e: (e.time_ns, e.op_id))
    ops = [operation(e, done.get(e.op_id), _epoch_of_open(e.time_ns, windows)) for e in invokes]
    late = [said for said in dict.fromkeys(read.late) if _is_edge(said, windows)]
    if late:
        ops = [_timed(op, windows, late) for op in ops]
    known = {e.op_id for e in invokes}
    counters = {
        "invokes": len(invokes),
        "completions": read.counts["completions"],
        "duplicate_completions": read.counts["duplicates"],
        "orphan_completions": sum(1 for op_id in done if op_id not in known),
        "damaged_lines": sum(len(s.damaged) for s in read.segments),
        "malformed_events": read.counts["malformed"],
        "torn_tails": sum(s.torn_tail for s in read.segments),
    }
    return Folded(
        ops,
        records,
        read.notes,
        [s.header for s in read.segments if s.header is not None],
        {e.process_id: e.node for e in invokes},
        counters,
        read.segments,
        _by_node(invokes, done),
        late,
    )
