"""Runs on a node: reads etcd's write-ahead log as far as it holds something.

The frames are those of etcd's wal/decoder.go: eight bytes of length, least significant first, whose
top byte tells of the padding, then the record as protobuf, whose data comes last. What follows the
last record is preallocated: a length of zero. Checksums are not looked at. Standard library only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ENTRY = bytes([0x08, 0x02])
"""How a record begins that is an entry of the raft log: its field 1, the type, is 2."""

DATA_FIELD = 3
INDEX_FIELD = 3


class Record(NamedTuple):
    """Offsets in the file: of the protobuf, of its end, and of the next frame."""

    body: int
    body_end: int
    end: int


def newest(folder: Path) -> Path:
    """The file of the log that a data directory's server writes to."""
    return max((folder / "member" / "wal").glob("*.wal"))


def records(data: bytes) -> Iterator[Record]:
    """All whole records, up to the end of what was written."""
    at = 0
    while at + 8 <= len(data):
        (field,) = struct.unpack_from("<q", data, at)
        if field == 0:
            return
        body_end = at + 8 + (field & ((1 << 56) - 1))
        end = body_end + ((field >> 56) & 7 if field < 0 else 0)
        if end > len(data):
            return
        yield Record(at + 8, body_end, end)
        at = end


def entry_index(data: bytes, record: Record) -> int | None:
    """Index of the entry that a record holds; None where it is none."""
    if data[record.body : record.body + 2] != ENTRY:
        return None
    for field, entry in _fields(data[record.body : record.body_end]):
        if field == DATA_FIELD and isinstance(entry, bytes):
            for inner, index in _fields(entry):
                if inner == INDEX_FIELD and isinstance(index, int):
                    return index
    return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protobuf, until one is neither an integer nor bytes."""
    at = 0
    while at < len(data):
        try:
            tag, at = _varint(data, at)
            value, at = _varint(data, at)
        except IndexError:
            return
        if tag & 7 == 0:
            yield tag >> 3, value
        elif tag & 7 == 2:
            yield tag >> 3, data[at : at + value]
            at += value
        else:
            return
