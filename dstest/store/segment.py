"""The event log of a running test: one append-only file per writer, a checksum per line.

A line is `CCCCCCCC [json array]\\n`: eight hex digits of CRC-32 over everything that follows them,
the separator and the newline included, so that a flip anywhere in the line is noticed. Lines are
written with one unbuffered `write(2)` each: what was recorded survives `kill -9` of the writer, and
at most the line in flight is torn. `dstest.store.events` has what the arrays say.

A file without an `End` is of a writer that died.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from dstest.core.errors import HistoryError
from dstest.store.events import End, Event, Header, Writer

__all__ = [
    "Damage",
    "SegmentWriter",
    "encode_line",
    "read_lines",
    "text_of",
]

_ENCODER = msgspec.json.Encoder()


def encode_line(event: Event) -> bytes:
    """One line of a segment."""
    body = b" " + _ENCODER.encode(event) + b"\n"
    return b"%08x" % zlib.crc32(body) + body


class SegmentWriter:
    """Appends events. `append` raises OSError where the disk refuses; nothing is half-believed.

    After a failed or short write the torn line is cut off again if the file system allows it, so
    that a later line starts at a line's beginning.
    """

    def __init__(self, path: Path, writer: Writer) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._end = 0
        self._lines = 0
        self.append(Header.of(writer))

    def append(self, event: Event) -> None:
        """Write one event; when this returns, the kernel has it."""
        line = encode_line(event)
        try:
            written = os.pwrite(self._fd, line, self._end)
        except OSError:
            self._cut()
            raise
        if written != len(line):
            self._cut()
            raise OSError(errno.ENOSPC, "short write: no space left for an event")
        self._end += written
        self._lines += 1

    def finish(self) -> None:
        """Say that nothing is missing: how many lines there are. Nothing is appended afterwards."""
        self.append(End(self._lines))

    def _cut(self) -> None:
        try:
            os.ftruncate(self._fd, self._end)
        except OSError:
            return

    def sync(self) -> None:
        """Make what was written survive a power cut."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class Damage(NamedTuple):
    """What could not be read: damaged lines inside the file, and whether its last line is torn."""

    lines: list[int]
    torn_tail: bool


def read_lines(path: Path, damage: list[Damage] | None = None) -> Iterator[bytes]:
    """The texts of one segment's lines, in order.

    A torn last line is what a killed writer leaves behind and is dropped. A damaged line elsewhere
    is skipped and counted; without a `damage` list to count in, it raises HistoryError.
    """
    bad: list[int] = []
    torn = False
    data = path.read_bytes()
    lines = data.split(b"\n")
    last = len(lines) - 1
    for number, line in enumerate(lines):
        if number == last:
            torn = line != b""
            break
        text = text_of(line)
        if text is None:
            bad.append(number + 1)
            continue
        yield text
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
