"""Plume's text: one operation a line, `r(key,value,session,transaction)` or `w(..)`.

All are integers. Transaction -1 stands for those that were aborted: such a write had no effect, and
whoever reads it reads what was never committed; what an aborted transaction read is not known. The
operations of a transaction are in the order of the file, the transactions of a session in that of
their first operation. Keys start with 0, which a first transaction in a session of its own may also
write.
"""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkers.txn.columns import FAIL, OK, READ, WRITE
from checkers.txn.sessions.builder import NO_SESSION, Sessions
from dstest.core.errors import HistoryError

LINE: Final = re.compile(rb"[rw]\(\d+,\d+,\d+,-?\d+\)")
ABORTED: Final = -1

_DIGITS_MAX: Final = 18
"""Of a number that surely fits in 64 bits."""

_REMEDY: Final = "r(key,value,session,transaction) or w(..) a line, all integers, -1 = aborted"

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]


def _refuse(text: bytes) -> None:
    """Raises HistoryError for the first line that is none."""
    for number, line in enumerate(text.split(b"\n"), start=1):
        if not LINE.fullmatch(line):
            shown = line[:60].decode("utf-8", "replace")
            raise HistoryError(
                f"no operation: {shown!r}" if line else "an empty line",
                line=number,
                remedy=_REMEDY,
            )


def _numbers(text: bytes, lines: int) -> tuple[I64, I64, U8] | None:
    """Starts and ends of the four numbers of each line, and the bytes; None where a line is none
    of ours."""
    skeleton = text.translate(None, b"0123456789").replace(b"w", b"r").replace(b"-", b"")
    if skeleton != b"r(,,,)\n" * lines:
        return None
    data = np.frombuffer(text, np.uint8)
    digit = (data >= 48) & (data <= 57)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], digit, [False]]).view(np.int8)))
    starts, ends = edges[::2], edges[1::2]
    if len(starts) != 4 * lines:
        return None
    after = data[ends].reshape(-1, 4)
    before = data[starts - 1].reshape(-1, 4)
    minus = before[:, 3] == ord("-")
    signs = int(np.count_nonzero(data == ord("-")))
    whole = (
        (after == np.frombuffer(b",,,)", np.uint8)).all()
        and (before[:, :3] == np.frombuffer(b"(,,", np.uint8)).all()
        and (minus | (before[:, 3] == ord(","))).all()
        and signs == int(np.count_nonzero(minus))
    )
    if not whole or not (data[starts[::4] - 2] != 10).all():
        return None
    return starts, ends, data


def _integers(starts: I64, ends: I64, data: U8) -> I64:
    """The numbers, each of at most _DIGITS_MAX digits."""
    width = int((ends - starts).max(initial=0))
    found = np.zeros(len(starts), np.int64)
    for back in range(width, 0, -1):
        at = ends - back
        digits = np.where(at >= starts, data[np.maximum(at, 0)] - 48, 0)
        found = found * 10 + digits
    return found


def _columns(text: bytes, lines: int) -> tuple[Any, Any, I64, I64, U8] | None:
    """Key, value, session, transaction and kind of each line; None where a line is none."""
    found = _numbers(text, lines)
    if found is None:
        return None
    starts, ends, data = found
    kind = np.where(data[starts[::4] - 2] == ord("w"), WRITE, READ).astype(np.uint8)
    minus = data[starts[3::4] - 1] == ord("-")
    if int((ends - starts).max(initial=0)) > _DIGITS_MAX:
        rows = np.array(
            [int(text[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)], object
        ).reshape(-1, 4)
        for at in (2, 3):
            if len(rows) and int(rows[:, at].max()) >= 2**63:
                raise HistoryError("a session or transaction of more than 63 bits", remedy=_REMEDY)
        signed = np.where(minus, -rows[:, 3], rows[:, 3]).astype(np.int64)
        return rows[:, 0].tolist(), rows[:, 1].tolist(), rows[:, 2].astype(np.int64), signed, kind
    table = _integers(starts, ends, data).reshape(-1, 4)
    signed = np.where(minus, -table[:, 3], table[:, 3])
    return table[:, 0].copy(), table[:, 1].copy(), table[:, 2], signed, kind


def read(raw: bytes) -> Sessions:
    """The sessions of a text. Raises HistoryError with the line of what is none."""
    text = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b"\n")
    if not text:
        raise HistoryError("the history is empty", remedy=_REMEDY)
    lines = text.count(b"\n") + 1
    columns = _columns(text + b"\n", lines)
    if columns is None:
        _refuse(text)
        raise HistoryError("no history of Plume's", remedy=_REMEDY)
    key, value, session, txn, kind = columns
    below = np.flatnonzero(txn < ABORTED)
    if len(below):
        at = int(below[0])
        raise HistoryError(
            f"transaction {txn[at]}: only -1, for aborted ones, is below 0",
            line=at + 1,
            remedy=_REMEDY,
        )
    return _assembled(key, value, session, txn, kind)


def _assembled(key: Any, value: Any, session: I64, txn: I64, kind: U8) -> Sessions:
    aborted = txn == ABORTED
    keep = ~(aborted & (kind == READ))
    where = np.flatnonzero(keep)
    aborted, session, txn = aborted[where], session[where], txn[where].copy()
    # Nobody knows which aborted writes were of one transaction: each is one of its own.
    top = int(txn.max(initial=0)) + 1
    txn[aborted] = top + np.arange(int(aborted.sum()))
    names, first, number = np.unique(txn, return_index=True, return_inverse=True)
    by_place = np.argsort(first, kind="stable")
    place = np.empty(len(names), np.int64)
    place[by_place] = np.arange(len(names))
    names, first, number = names[by_place], first[by_place], place[number.reshape(-1)]
    home = session[first]
    odd = np.flatnonzero(session != home[number])
    if len(odd):
        at = int(odd[0])
        raise HistoryError(
            f"transaction {txn[at]} is in session {session[at]} and in session {home[number[at]]}",
            line=int(where[at]) + 1,
            remedy="a transaction is in one session: record the history again",
        )
    failed = names >= top
    sessions = np.where(failed, NO_SESSION, np.unique(home, return_inverse=True)[1].reshape(-1))
    if isinstance(key, list):
        rows = where.tolist()
        key, value = [key[i] for i in rows], [value[i] for i in rows]
    else:
        key, value = key[where], value[where]
    lost = len(keep) - len(where)
    skipped = {"reads of aborted transactions": lost} if lost else {}
    outcome = np.where(failed, FAIL, OK)
    return Sessions(kind[where], key, value, number, sessions, outcome, names, skipped=skipped)
