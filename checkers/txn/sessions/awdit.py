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

from checkers.txn.columns import OK, READ, WRITE
from checkers.txn.sessions.builder import Sessions
from dstest.core.errors import HistoryError

LINE: Final = re.compile(rb"[rw][ \t]+\d{1,20}[ \t]+\d{1,20}")

UNENDED: Final = "last line without a newline, taken for whole"

_KINDS: Final = {b"r": READ, b"w": WRITE}
_REMEDY: Final = "`r key value` or `w key value` a line, --- between transactions, === of sessions"


def read(raw: bytes) -> Sessions:
    """The sessions of a text. Raises HistoryError with the line of what is none."""
    text = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    last = text[text.rfind(b"\n") + 1 :].strip()
    if last and not LINE.fullmatch(last):
        raise HistoryError(
            f"the file is cut: its last line {last[:60].decode('utf-8', 'replace')!r} has no end",
            line=text.count(b"\n") + 1,
            remedy="record it again; where it is whole, end the last line with a newline",
        )
    kind: list[int] = []
    key: list[int] = []
    value: list[int] = []
    txn: list[int] = []
    session: list[int] = []
    own, begun = 0, False
    whole = LINE.fullmatch
    for number, line in enumerate(text.split(b"\n"), start=1):
        line = line.strip()
        if whole(line):
            what, where, which = line.split()
            if not begun:
                session.append(own)
                begun = True
            kind.append(_KINDS[what])
            key.append(int(where))
            value.append(int(which))
            txn.append(len(session) - 1)
        elif not line:
            continue
        elif not line.strip(b"-"):
            begun = False
        elif not line.strip(b"="):
            begun, own = False, own + 1
        else:
            shown = line[:60].decode("utf-8", "replace")
            raise HistoryError(f"no operation: {shown!r}", line=number, remedy=_REMEDY)
    if not kind:
        raise HistoryError("the history is empty", remedy=_REMEDY)
    count = len(session)
    skipped = {UNENDED: 1} if last else {}
    return Sessions(kind, key, value, txn, session, [OK] * count, range(count), skipped=skipped)
