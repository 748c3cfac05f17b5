"""AWDIT's own text: `r key value` or `w key value` a line, a line of - between transactions, a line
of = between sessions.

All transactions are committed. No value is an initial one: each that is read was written, by a
first transaction if need be, unless it is said otherwise.

Separators stand between what they separate, and AWDIT ends each with a newline: a file that ends
within one, or within a word, is cut. Its own examples have no newline after their last operation,
so that such a file is read, and the answer says it.
"""

from __future__ import annotations

import re
from typing import Final

from checkers.txn.sessions import native
from checkers.txn.sessions.builder import Sessions
from checkers.txn.sessions.native import Flaw, Text
from dstest.core.errors import HistoryError

LINE: Final = re.compile(rb"[rw][ \t]+\d{1,20}[ \t]+\d{1,20}")

UNENDED: Final = "last line without a newline, taken for whole"

_REMEDY: Final = "`r key value` or `w key value` a line, --- between transactions, === of sessions"


def _shown(line: bytes) -> str:
    return repr(line.strip()[:60].decode("utf-8", "replace"))


def read(text: Text, memory_bytes: int) -> Sessions:
    """The sessions of a text. Raises HistoryError with the line of what is none, MemorySpent."""
    last = bytes(text[text.rfind(b"\n") + 1 :]).removeprefix(b"\xef\xbb\xbf").strip()
    if last and not LINE.fullmatch(last):
        raise HistoryError(
            f"the file is cut: its last line {_shown(last)} has no end",
            line=bytes(text[:]).count(b"\n") + 1,
            remedy="record it again; where it is whole, end the last line with a newline",
        )
    try:
        rows = native.read(text, native.AWDIT, memory_bytes)
    except native.Refused as refused:
        if refused.flaw == Flaw.EMPTY:
            raise HistoryError("the history is empty", remedy=_REMEDY) from None
        line = bytes(text[:]).removeprefix(b"\xef\xbb\xbf").split(b"\n")[refused.line - 1]
        raise HistoryError(
            f"no operation: {_shown(line)}", line=refused.line, remedy=_REMEDY
        ) from None
    return Sessions(
        rows.kind,
        native.numbers(text, rows.key, rows.wide),
        native.numbers(text, rows.value, rows.wide),
        rows.txn,
        rows.session,
        rows.outcome,
        rows.name,
        skipped={UNENDED: 1} if last else {},
    )
