"""Text of Plume and AWDIT and the columns of sessions, slowly: the oracle of csrc/sess.

Written with numpy before the C core did both; it shares no line with that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from checkers._findings import Start
from checkers.txn.columns import FAIL, NIL, NULL_READ, OK, READ, WRITE, TxnColumns, start_at_null
from checkers.txn.sessions.awdit import UNENDED
from checkers.txn.sessions.builder import INITIAL_TXN
from dstest.core.errors import HistoryError

LINE: Final = re.compile(rb"[rw]\(\d+,\d+,\d+,-?\d+\)")
ABORTED: Final = -1
NO_SESSION: Final = -1

_DIGITS_MAX: Final = 18
"""Of a number that surely fits in 64 bits."""

_REMEDY: Final = "r(key,value,session,transaction) or w(..) a line, all integers, -1 = aborted"

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]


def dense(values: Any) -> tuple[I64, list[Any]]:
    """Numbers for values from 0 on, and the values by number."""
    if isinstance(values, np.ndarray):
        names, numbers = np.unique(values, return_inverse=True)
        return numbers.astype(np.int64).reshape(-1), names.tolist()
    ids: dict[Any, int] = {}
    rows = np.fromiter((ids.setdefault(v, len(ids)) for v in values), np.int64, len(values))
    return rows, list(ids)


def require_once(names: Any) -> None:
    """Raises HistoryError where a name stands for two transactions."""
    named = np.sort(names)
    twice = np.flatnonzero(named[1:] == named[:-1])
    if len(twice):
        raise HistoryError(
            f"transaction {named[twice[0]]} stands twice", remedy="record the history again"
        )


@dataclass
class Sessions:
    """What a file holds. `txn` is the transaction of each operation, `null` which operations read
    the initial state without a value. Of each transaction `session` is a number (NO_SESSION where
    its place is not known), `outcome` OK, FAIL or INFO, `name` what the file or its place in the
    file calls it; those of a session are in its order."""

    kind: Any
    key: Any
    value: Any
    txn: Any
    session: Any
    outcome: Any
    name: Any
    null: Any = None
    skipped: dict[str, int] = field(default_factory=dict)
    weak: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kind = np.asarray(self.kind, np.uint8)
        self.txn = np.asarray(self.txn, np.int64)
        self.session = np.asarray(self.session, np.int64)
        self.outcome = np.asarray(self.outcome, np.uint8)
        self.name = np.asarray(self.name, np.int64)
        empty = np.zeros(len(self.kind), np.bool_)
        self.null = empty if self.null is None else np.asarray(self.null, np.bool_)

    def _places(self) -> I64:
        """The transactions in an order that holds that of each session."""
        count = len(self.session)
        order = np.argsort(self.session, kind="stable")
        session = self.session[order]
        first = np.flatnonzero(np.append(True, session[1:] != session[:-1])[:count])
        sizes = np.diff(np.append(first, count))
        rank = np.arange(count) - np.repeat(first, sizes)
        share = (rank + 0.5) / np.repeat(sizes, sizes)
        return order[np.lexsort((session, share))]

    def without_initial(self, value: Any) -> None:
        """Leaves out the transaction that tells the initial state: in a session of its own it only
        writes `value`, and it is the first of all. Another one may have been a write like any."""
        if not len(self.kind):
            return
        first = (
            np.fromiter((v == value for v in self.value), np.bool_, len(self.value))
            if (isinstance(self.value, list))
            else self.value == value
        )
        writes = (self.kind == WRITE) & first
        whole = np.ones(len(self.session), np.bool_)
        whole[self.txn[~writes]] = False
        there = np.zeros(len(self.session), np.bool_)
        there[self.txn] = True
        sizes = np.bincount(self.session[self.session >= 0], minlength=1)
        alone = (self.session >= 0) & (sizes[np.maximum(self.session, 0)] == 1)
        gone = whole & there & alone & (self.outcome == OK)
        if gone.sum() != 1 or not gone[0]:
            return
        self.skipped[INITIAL_TXN] = int(gone.sum())
        keep = ~gone[self.txn]
        number = np.cumsum(~gone) - 1
        self.kind, self.txn, self.null = self.kind[keep], number[self.txn[keep]], self.null[keep]
        for name in ("key", "value"):
            held = getattr(self, name)
            some = (
                held[keep]
                if isinstance(held, np.ndarray)
                else [v for v, stays in zip(held, keep.tolist(), strict=True) if stays]
            )
            setattr(self, name, some)
        for name in ("session", "outcome", "name"):
            setattr(self, name, getattr(self, name)[~gone])

    def columns(self, start: Start | None) -> TxnColumns:
        """The columns; keys start with what `start` says. Raises HistoryError where a name stands
        for two transactions, ConfigError and HistoryError for a start that cannot be."""
        require_once(self.name)
        places = self._places()
        number = np.empty(len(places), np.int64)
        number[places] = np.arange(len(places))
        txn = number[self.txn]
        order = np.argsort(txn, kind="stable")
        keys, key_names = dense(self.key)
        values, value_names = dense(self.value)
        kind, outcome = self.kind[order], self.outcome[places]
        value = np.where(self.null, NIL, values)[order]
        known = np.where(kind == WRITE, 1, outcome[txn[order]] == OK)
        first = (kind == READ) & (known == 1) & self.null[order]
        known = np.where(first, 0, known)
        value = np.where((kind == READ) & (known == 0), NIL, value)
        at = 2 * np.arange(len(places), dtype=np.int64)
        sessions = np.where(outcome == FAIL, NO_SESSION, self.session[places])
        made = TxnColumns(
            outcome=outcome,
            process=np.ascontiguousarray(sessions),
            invoke_pos=at,
            complete_pos=at + 1,
            op_index=np.ascontiguousarray(self.name[places]),
            mop_start=np.searchsorted(txn[order], np.arange(len(places) + 1)).astype(np.int64),
            mop_kind=np.ascontiguousarray(kind),
            mop_key=keys[order].astype(np.int32),
            mop_value=value.astype(np.int32),
            mop_known=known.astype(np.uint8),
            elem_start=np.zeros(len(kind) + 1, np.int64),
            elem=np.empty(0, np.int32),
            key_names=key_names,
            value_names=value_names,
            skipped=self.skipped,
            weak=self.weak,
        )
        if start is not None:
            made = start_at_null(made, "rw-register", start)
        # What names no value is a read of the start, whatever that is.
        return replace(made, mop_known=np.where(first, NULL_READ, made.mop_known).astype(np.uint8))


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
    if aborted.any():
        if top + len(aborted) >= 2**63:
            raise HistoryError("a session or transaction of more than 63 bits", remedy=_REMEDY)
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


_AWDIT: Final = re.compile(rb"[rw][ \t]+\d{1,20}[ \t]+\d{1,20}")
_KINDS: Final = {b"r": READ, b"w": WRITE}
_AWDIT_REMEDY: Final = (
    "`r key value` or `w key value` a line, --- between transactions, === of sessions"
)


def read_awdit(raw: bytes) -> Sessions:
    """The sessions of a text of AWDIT's. Raises HistoryError with the line of what is none."""
    text = raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    last = text[text.rfind(b"\n") + 1 :].strip()
    if last and not _AWDIT.fullmatch(last):
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
    whole = _AWDIT.fullmatch
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
            raise HistoryError(f"no operation: {shown!r}", line=number, remedy=_AWDIT_REMEDY)
    if not kind:
        raise HistoryError("the history is empty", remedy=_AWDIT_REMEDY)
    count = len(session)
    skipped = {UNENDED: 1} if last else {}
    return Sessions(kind, key, value, txn, session, [OK] * count, range(count), skipped=skipped)
