"""Segments as plain arrays, well-formed or not, for tests that change what a run has recorded."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from dstest.history.segment import Damage, Event, SegmentWriter, read_lines

__all__ = ["Raw", "append", "encode_line", "read_segment"]

Raw = list[Any]


def read_segment(path: Path, damage: list[Damage] | None = None) -> list[Raw]:
    """The arrays of all whole lines."""
    return [json.loads(text) for text in read_lines(path, damage)]


def encode_line(event: Sequence[Any]) -> bytes:
    """A line with a right checksum."""
    body = b" " + msgspec.json.encode(event) + b"\n"
    return b"%08x" % zlib.crc32(body) + body


def append(writer: SegmentWriter, event: Sequence[Any]) -> None:
    """As a writer would that knows no kinds of events."""
    writer.append(cast(Event, event))
