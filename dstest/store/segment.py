"""The event log of a running test: one append-only file per writer, a checksum per line.

A line is `CCCCCCCC [json array]\\n`: eight hex digits of CRC-32 over everything that follows them,
the separator and the newline included, so that a flip anywhere in the line is noticed. Lines are
put into pages that the kernel shares: what was recorded survives `kill -9` of the writer, and at
most the line in flight is torn. `dstest.store.events` has what the arrays say.

Room is taken ahead, so that a full disk refuses a line: no writer dies of it where the file system
keeps what `fallocate` has given, as ext4, xfs and tmpfs do. What of it is not written yet is NUL
bytes, cut off when the writer closes its file; where it was killed they stay. A file without an
`End` is of a writer that died.
"""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dstest.core.errors import HistoryError
from dstest.store.events import End, Event, Header, Writer

ROOM_BYTES: Final = 1 << 18

_ENCODER: Final = msgspec.json.Encoder()


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
