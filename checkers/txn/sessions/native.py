"""The wire to the reader and the placing of sessions in the C core (csrc/sess/sess.h)."""

from __future__ import annotations

from enum import IntEnum
from mmap import mmap
from typing import Any, Final, NamedTuple

import numpy as np

from checkers import _core
from checkers.txn.columns import I32, I64, U8
from checkers.txn.ingest import COLUMNS, MORE
from dstest.core.errors import MemorySpent

Text = bytes | bytearray | mmap

PLUME, AWDIT = range(2)
"""As enum sess_format."""


class Flaw(IntEnum):
    """As enum sess_flaw."""

    SPENT = 0
    EMPTY = 1
    LINE = 2
    BITS = 3
    BELOW = 4
    HOMES = 5
    DIGITS = 6
    BROKEN = 7


class Refused(Exception):
    """No such text. `line` counts from 1, 0 where the cause is not in one; `said` are numbers as
    enum sess_flaw has them."""

    def __init__(self, flaw: Flaw, line: int, *said: int) -> None:
        super().__init__(flaw, line, *said)
        self.flaw, self.line, self.said = flaw, line, said


class Rows(NamedTuple):
    """Operations in the order of a text, `txn` is the transaction of each; of each transaction its
    session, outcome and name. Keys and values below -1 are wide: `wide[-2 - code]` says where in
    the text the digits are, as offset and size. `lost` counts reads of aborted transactions."""

    kind: U8
    key: I64
    value: I64
    txn: I32
    outcome: U8
    session: I64
    name: I64
    wide: I64
    lost: int


_ROWS: Final = ("u1", "i8", "i8", "i4", "u1", "i8", "i8", "i8")
_PLACED: Final = {name: dtype for name, dtype in COLUMNS.items() if name != "elem"}


def _refused(error: ValueError) -> Exception:
    flaw, line, *said = error.args
    if flaw == Flaw.SPENT:
        return MemorySpent("memory budget spent on reading", remedy=MORE)
    return Refused(Flaw(flaw), line, *said)


def read(text: Text, fmt: int, memory_bytes: int) -> Rows:
    """The rows of a text. Raises Refused, MemorySpent."""
    try:
        *parts, lost = _core.read_sessions(text, fmt, max(0, memory_bytes))
    except ValueError as error:
        raise _refused(error) from None
    arrays: list[Any] = [
        np.frombuffer(part, dtype) for part, dtype in zip(parts, _ROWS, strict=True)
    ]
    arrays[-1] = arrays[-1].reshape(-1, 2)
    return Rows._make([*arrays, lost])


def numbers(text: Text, codes: I64, wide: I64) -> I64 | list[int]:
    """What codes of rows stand for: themselves where none is wide."""
    if not len(wide):
        return codes
    large = [int(bytes(text[at : at + size])) for at, size in wide.tolist()]
    return [code if code >= 0 else large[-2 - code] for code in codes.tolist()]


def place(
    rows: tuple[Any, ...], start: int | None, memory_bytes: int
) -> tuple[dict[str, Any], I64, I64, bool]:
    """The columns of rows (kind, null, outcome, key, value, session, name, txn), of keys and of
    values the codes by id, and whether somebody writes `start`. Raises MemorySpent."""
    try:
        *parts, keys, values, wrote = _core.place_sessions(*rows, start, max(0, memory_bytes))
    except ValueError as error:
        raise _refused(error) from None
    columns = {
        name: np.frombuffer(part, dtype)
        for part, (name, dtype) in zip(parts, _PLACED.items(), strict=True)
    }
    return columns, np.frombuffer(keys, np.int64), np.frombuffer(values, np.int64), wrote
