"""`history.jsonl`: a header line, then one operation per line with all twelve keys.

The one canonical form of a sealed history, readable by anyone and by any tool.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import HistoryError
from dstest.core.history import SCHEMA, Header, History
from dstest.core.op import FIELDS, Op

__all__ = ["read_history", "read_raw", "write_history"]


def write_history(path: Path, history: History) -> None:
    """Write `history` beside `path` and rename it into place."""
    encoder = msgspec.json.Encoder()
    partial = path.with_suffix(".partial")
    buffer = bytearray()
    with partial.open("wb") as file:
        file.write(encoder.encode(history.header) + b"\n")
        for op in history.ops:
            encoder.encode_into(op, buffer)
            buffer += b"\n"
            file.write(buffer)
        file.flush()
    partial.replace(path)


def _bad(line: bytes, number: int, error: Exception) -> HistoryError:
    """The column of a syntax error; for a well-formed line the field that is wrong."""
    try:
        json.loads(line)
    except json.JSONDecodeError as syntax:
        return HistoryError(f"not JSON: {syntax.msg}", line=number, column=syntax.colno)
    except UnicodeDecodeError as code:
        return HistoryError("not UTF-8", line=number, column=code.start + 1)
    return HistoryError(f"not an operation record: {error}", line=number, column=1)


def read_history(path: Path) -> History:
    """Read a sealed history. Raises HistoryError with line and column."""
    try:
        with path.open("rb") as file:
            head = file.readline()
            try:
                header = msgspec.json.decode(head, type=Header)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise _bad(head, 1, error) from None
            if header.schema != SCHEMA:
                raise HistoryError(f"unknown schema {header.schema!r}", line=1, column=1)
            return History(header=header, ops=_ops(file))
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", remedy="check the path") from None


def _ops(file: Any) -> list[Op]:
    decoder = msgspec.json.Decoder(Op)
    ops: list[Op] = []
    for number, line in enumerate(file, start=2):
        if line == b"\n":
            continue
        try:
            ops.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _bad(line, number, error) from None
        if not line.endswith(b"\n"):
            raise HistoryError(
                "the last line has no newline: the file is cut off",
                line=number,
                column=len(line),
                remedy="seal the run again with `dstest recover RUN`",
            )
    return ops


def read_raw(path: Path) -> list[dict[str, Any]]:
    """The operation records as plain objects, for the lint that asks for all twelve keys."""
    with path.open("rb") as file:
        file.readline()
        return [msgspec.json.decode(line) for line in file if line.strip()]


assert len(FIELDS) == 12
