"""Cobra's logs: a directory with a file `*.log` per client, which is a session.

Records of big-endian 64-bit integers after a letter:

    S transaction [time]                      it begins
    W write key value                         it wrote; `write` is a number that no other write has
    R transaction write key value             it read what that write of that transaction wrote
    C transaction [time]                      it was committed

The number of the write stands for the value. Cobra's clients store both and the transaction in one
cell, and log a hash of what the cell holds; so a read that shows another value than the write which
it names has seen what nobody wrote. A read of the initial state names no real
transaction and write (INITIAL, ABSENT; or the marks of Cobra's garbage collection), and any value.
Aborted transactions are not logged. Some logs carry times of the clients' own clocks, which say
nothing of the order between clients: they are counted as not read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from checkers.txn.columns import OK, READ, WRITE
from checkers.txn.sessions.builder import Sessions, require_once
from dstest.core.errors import HistoryError

SUFFIX: Final = ".log"

INITIAL: Final = 0xBEBEEBEE
ABSENT: Final = 0xDEADBEEF
DELETED: Final = 0xABCDEFAB
"""The number of every write that deletes its key."""

_NO_WRITER: Final = frozenset({INITIAL, ABSENT})
_COLLECTED: Final = frozenset({0x23332333, 0x66666666})

_REMEDY: Final = "a directory of whole logs of Cobra's, one *.log per client"
_S, _W, _R, _C, _A = b"SWRCA"
_ONE: Final = struct.Struct(">q")
_THREE: Final = struct.Struct(">3q")
_FOUR: Final = struct.Struct(">4q")

_Row = tuple[int, int, int, int, int, int]
"""Letter, transaction, write, key, writer, value; 0 where a record has none."""


class _Broken(Exception):
    """No such log; the arguments are the offset and why."""


def _records(raw: bytes, stamp: int) -> Iterator[_Row]:
    """The records of one log, in which times take so many bytes. Raises _Broken."""
    at, end, now, open_ = 0, len(raw), 0, False
    while at < end:
        letter = raw[at]
        size = {_S: 9 + stamp, _C: 9 + stamp, _W: 25, _R: 33}.get(letter)
        if size is None:
            why = "an aborted transaction" if letter == _A else f"no record begins with {letter}"
            raise _Broken(at, why)
        if at + size > end:
            raise _Broken(at, "the log is cut in the middle of a record")
        if open_ is (letter == _S):
            why = "a transaction begins in another" if open_ else "a record outside a transaction"
            raise _Broken(at, why)
        if letter == _W:
            write, key, shown = _THREE.unpack_from(raw, at + 1)
            yield letter, now, write, key, 0, shown
        elif letter == _R:
            writer, write, key, shown = _FOUR.unpack_from(raw, at + 1)
            yield letter, now, write, key, writer, shown
        else:
            (txn,) = _ONE.unpack_from(raw, at + 1)
            if letter == _C and txn != now:
                raise _Broken(at, f"transaction {now} is committed as {txn}")
            now, open_ = txn, letter == _S
            yield letter, txn, 0, 0, 0, 0
        at += size
    if open_:
        raise _Broken(end, f"the log ends inside transaction {now}: it is cut")


def _log(name: str, raw: bytes) -> tuple[list[_Row], bool]:
    """The records of a log, and whether it has times. Raises HistoryError."""
    try:
        return list(_records(raw, 0)), False
    except _Broken as broken:
        first = broken
    try:
        return list(_records(raw, 8)), True
    except _Broken as broken:
        at, why = max((first.args, broken.args), key=lambda said: said[0])
    raise HistoryError(f"{name}: byte {at}: {why}", remedy=_REMEDY)


def is_log(head: bytes) -> bool:
    """Does it begin with a whole transaction of such a log?"""
    for stamp in (0, 8):
        try:
            if any(letter == _C for letter, *_ in _records(head, stamp)):
                return True
        except _Broken:
            continue
    return False


def _of_start(name: str, writer: int, write: int) -> bool:
    """Is it a read of the initial state? Raises HistoryError where it is only half of one."""
    if writer in _NO_WRITER and write in _NO_WRITER | _COLLECTED:
        return True
    if writer in _NO_WRITER or write in _NO_WRITER:
        raise HistoryError(
            f"{name}: a read of write {write} of transaction {writer}, one of which is none",
            remedy=_REMEDY,
        )
    return False


def read(logs: dict[str, bytes], *, whole: bool = True) -> Sessions:
    """The sessions of the logs by name; `whole`: these are all there are. Raises HistoryError for
    what is none, contradicts itself, or reads what only another log can tell of."""
    kind: list[int] = []
    key: list[int] = []
    value: list[int] = []
    shown: list[int] = []
    null: list[bool] = []
    txn: list[int] = []
    session: list[int] = []
    names: list[int] = []
    writers: list[int] = []
    stamped = 0
    for number, name in enumerate(sorted(logs)):
        rows, times = _log(name, logs[name])
        stamped += times
        for letter, own, write, where, writer, seen in rows:
            if letter == _S:
                session.append(number)
                names.append(own)
            elif letter != _C:
                start = letter == _R and _of_start(name, writer, write)
                kind.append(READ if letter == _R else WRITE)
                key.append(where)
                value.append(write)
                shown.append(seen)
                null.append(start)
                txn.append(len(names) - 1)
                writers.append(own if letter == _W else writer)
    if not names:
        raise HistoryError("the history is empty", remedy=_REMEDY)
    require_once(names)
    _require_writers(kind, value, null, writers, whole=whole)
    skipped = {"times of the clients' clocks": stamped} if stamped else {}
    outcome = [OK] * len(names)
    named = _named(kind, key, value, shown, null)
    return Sessions(kind, key, named, txn, session, outcome, names, null=null, skipped=skipped)


def _named(
    kind: list[int], key: list[int], value: list[int], shown: list[int], null: list[bool]
) -> list[int | str]:
    """The number of each write, and of reads that show another value than it a name that says so,
    which no write has."""
    wrote = {(k, w): s for kd, k, w, s in zip(kind, key, value, shown, strict=True) if kd == WRITE}
    return [
        w if kd == WRITE or start or wrote.get((k, w), s) == s else f"{w} (value {s})"
        for kd, k, w, s, start in zip(kind, key, value, shown, null, strict=True)
    ]


def _require_writers(
    kind: list[int], value: list[int], null: list[bool], writers: list[int], *, whole: bool
) -> None:
    """Raises HistoryError where two writes have one number, where a read names another transaction
    than made the write, or a write that may be in another log."""
    made: dict[int, int] = {}
    for k, write, writer in zip(kind, value, writers, strict=True):
        if k == WRITE and write == DELETED:
            raise HistoryError(
                f"transaction {writer} deletes a key: reads after it look like ones of the start",
                remedy="record a run that deletes nothing",
            )
        if k == WRITE and write in made:
            raise HistoryError(
                f"two writes of number {write}, of transactions {made[write]} and {writer}",
                remedy=_REMEDY,
            )
        if k == WRITE:
            made[write] = writer
    for k, write, start, writer in zip(kind, value, null, writers, strict=True):
        if k == READ and not start and write not in made and not whole:
            raise HistoryError(
                f"a read of write {write} of transaction {writer}, which this log does not hold",
                remedy="give the directory with all logs of the run",
            )
        if k == READ and not start and made.get(write, writer) != writer:
            raise HistoryError(
                f"a read says that transaction {writer} made write {write}, but {made[write]} did",
                remedy=_REMEDY,
            )
