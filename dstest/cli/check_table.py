"""A history of ours whose operations are an `OpTable`: read in C, made when they are looked at."""

from __future__ import annotations

from mmap import ACCESS_READ, mmap
from pathlib import Path

import msgspec

from checkers.ops.read import table_of
from dstest.core.errors import HistoryError
from dstest.core.history import SCHEMA, Header, History
from dstest.store.jsonl import require_plain


def _header(text: bytes | mmap) -> Header | None:
    first = text[: max(0, text.find(b"\n"))]
    try:
        require_plain(first, 1)
        header = msgspec.json.decode(first, type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, HistoryError):
        return None
    return header if header.schema == SCHEMA else None


def read_table(path: Path, memory_mb: int) -> History | None:
    """The history in a file, its operations as an `OpTable`; None where the file has to be read
    otherwise, or where there is none."""
    try:
        with path.open("rb") as file:
            text = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, ValueError):
        return None
    return history_of(text, memory_mb)


def history_of(text: bytes | mmap, memory_mb: int) -> History | None:
    """The same of what a file holds."""
    header = _header(text)
    table = None if header is None else table_of(text, memory_mb)
    if header is None or table is None:
        return None
    # A sequence of operations, made when they are looked at.
    return History(header=header, ops=table)  # type: ignore[arg-type]
