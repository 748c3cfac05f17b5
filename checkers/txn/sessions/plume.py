"""Plume's text: one operation a line, `r(key,value,session,transaction)` or `w(..)`.

All are integers. Transaction -1 stands for those that were aborted: such a write had no effect, and
whoever reads it reads what was never committed; what an aborted transaction read is not known. The
operations of a transaction are in the order of the file, the transactions of a session in that of
their first operation. Keys start with 0, which a first transaction in a session of its own may also
write.
"""

from __future__ import annotations

import re
from typing import Final

from checkers.txn.sessions import native
from checkers.txn.sessions.builder import Sessions
from checkers.txn.sessions.native import Flaw, Text
from dstest.core.errors import HistoryError

LINE: Final = re.compile(rb"[rw]\(\d+,\d+,\d+,-?\d+\)")

_REMEDY: Final = "r(key,value,session,transaction) or w(..) a line, all integers, -1 = aborted"
_ONE_HOME: Final = "a transaction is in one session: record the history again"


def _line(text: Text, number: int) -> str:
    """What is wrong with a line."""
    plain = bytes(text[:]).removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    line = plain.split(b"\n", number)[number - 1]
    return f"no operation: {line[:60].decode('utf-8', 'replace')!r}" if line else "an empty line"


def _why(text: Text, refused: native.Refused) -> HistoryError:
    """The refusal in words."""
    said, line, remedy = refused.said, refused.line or None, _REMEDY
    match refused.flaw:
        case Flaw.EMPTY:
            why = "the history is empty"
        case Flaw.LINE:
            why = _line(text, refused.line)
        case Flaw.BELOW:
            why = f"transaction {said[0]}: only -1, for aborted ones, is below 0"
        case Flaw.HOMES:
            why = f"transaction {said[0]} is in session {said[1]} and in session {said[2]}"
            remedy = _ONE_HOME
        case Flaw.DIGITS:
            why = "a key or value with more than 4,300 digits"
        case _:
            why = "a session or transaction of more than 63 bits"
    return HistoryError(why, line=line, remedy=remedy)


def read(text: Text, memory_bytes: int) -> Sessions:
    """The sessions of a text. Raises HistoryError with the line of what is none, MemorySpent."""
    try:
        rows = native.read(text, native.PLUME, memory_bytes)
    except native.Refused as refused:
        raise _why(text, refused) from None
    skipped = {"reads of aborted transactions": rows.lost} if rows.lost else {}
    key = native.numbers(text, rows.key, rows.wide)
    value = native.numbers(text, rows.value, rows.wide)
    return Sessions(
        rows.kind, key, value, rows.txn, rows.session, rows.outcome, rows.name, skipped=skipped
    )
