"""Which of these formats a path is in, and its columns."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from mmap import mmap
from pathlib import Path
from typing import Any, Final, NamedTuple

from checkers._findings import Start
from checkers.txn.columns import TxnColumns
from checkers.txn.ingest import MEMORY_MB, MORE, bytes_of, unpack
from checkers.txn.sessions import awdit, cobra, dbcop, plume
from checkers.txn.sessions.builder import Sessions
from checkers.txn.sessions.native import Text
from dstest.core.errors import ConfigError, HistoryError, MemorySpent

_HEAD_BYTES: Final = 1 << 16
_BINCODE: Final = "history.bincode"
_ZERO: Final = Start(0, None)


class Reader(NamedTuple):
    """`looks` tells by a file's first bytes; `load` gives the sessions and what their keys start
    with, which `assumed` says in words. `numbered`: values are numbers of
    writes, and reads of the start say so themselves."""

    looks: Callable[[bytes], bool]
    load: Callable[[Path, int], tuple[Sessions, Start | None]]
    assumed: str
    numbered: bool = False


def _text(path: Path, limit: int) -> Text:
    """The bytes of a file, unpacked where it is gzipped."""
    if path.is_dir():
        raise HistoryError(f"{path} is a directory", remedy="give the file itself")
    raw = bytes_of(path)
    if len(raw) > limit:
        raise MemorySpent("memory budget spent on reading", remedy=MORE)
    return unpack(raw, limit)


def _room(text: Text, limit: int) -> int:
    """What is left beside a text, which takes nothing where it lies in a file."""
    return limit if isinstance(text, mmap) else limit - len(text)


def _plume(path: Path, limit: int) -> tuple[Sessions, Start | None]:
    text = _text(path, limit)
    return plume.read(text, _room(text, limit)), _ZERO


def _awdit(path: Path, limit: int) -> tuple[Sessions, Start | None]:
    text = _text(path, limit)
    return awdit.read(text, _room(text, limit)), None


def _dbcop(path: Path, limit: int) -> tuple[Sessions, Start | None]:
    file = path / _BINCODE if path.is_dir() else path
    sessions, written = dbcop.read(bytes(_text(file, limit)[:]))
    if not written:
        return sessions, _ZERO
    names = sessions.key_names
    assert names is not None
    keys = {key: None for key in names if key not in written}
    return sessions, Start(None, {str(key): 0 for key in keys})


def _logs(path: Path) -> list[Path]:
    try:
        return sorted(p for p in path.iterdir() if p.suffix == cobra.SUFFIX and p.is_file())
    except OSError as error:
        raise HistoryError(
            f"cannot read {path}: {error.strerror}", remedy="check the path and its permissions"
        ) from None


def _cobra(path: Path, limit: int) -> tuple[Sessions, Start | None]:
    logs = _logs(path) if path.is_dir() else [path]
    if not logs:
        raise HistoryError(f"{path} has no *.log", remedy="a directory of logs of Cobra's")
    held: dict[str, bytes] = {}
    for log in logs:
        held[log.name] = bytes(_text(log, limit)[:])
        limit -= len(held[log.name])
    return cobra.read(held, whole=path.is_dir()), None


def _is_plume(head: bytes) -> bool:
    return plume.LINE.fullmatch(head.split(b"\n", 1)[0].rstrip(b"\r")) is not None


def _is_awdit(head: bytes) -> bool:
    first = head.lstrip(b"-=\r\n\t ").split(b"\n", 1)[0]
    return awdit.LINE.fullmatch(first.rstrip()) is not None


_TXN_STARTS: Final = rb'\[\s*(?:\[\s*\]\s*,\s*)*\[\s*\{\s*"(?:events|committed|success)"\s*:'
"""A list of lists of transactions of DBCop's, some of the first perhaps empty."""

_FLAT: Final = rb"[^{}\[\]]*"
_DBCOP_JSON: Final = re.compile(
    rb"(?:\{%b(?:\"params\"\s*:\s*\{%b\}%b)?\"data\"\s*:\s*)?%b"
    % (_FLAT, _FLAT, _FLAT, _TXN_STARTS)
)
_DBCOP_TEXT: Final = re.compile(rb"(?:(?://[^\n]*|-+[ \t\r]*)\n\s*)*\[\w+(:=\d|==[\d?])")


def _is_dbcop(head: bytes) -> bool:
    text = head.lstrip()
    named = text[:1] == b"{" and b'"params"' in text and b'"n_node"' in text
    return (
        named
        or _DBCOP_JSON.match(text) is not None
        or _DBCOP_TEXT.match(text) is not None
        or dbcop.is_bincode(head)
    )


READERS: Final[Mapping[str, Reader]] = {
    "plume": Reader(_is_plume, _plume, "every key starts as 0"),
    "dbcop": Reader(
        _is_dbcop, _dbcop, "every key starts as 0, but for those to which a new file writes 0"
    ),
    "cobra": Reader(
        cobra.is_log, _cobra, "every key starts as what no write has, as the marks say", True
    ),
    "awdit": Reader(_is_awdit, _awdit, "no key starts with a value"),
}


def _directory(path: Path) -> str | None:
    if (path / "history.jsonl").exists() or (path / "run.json").exists():
        return None
    if (path / _BINCODE).is_file():
        return "dbcop"
    heads = [_head(log) for log in _logs(path)]
    like = all(h[:1] in (b"S", b"") for h in heads) and any(map(cobra.is_log, heads))
    return "cobra" if like else None


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return b""  # the reader says what is wrong with it
    if head[:2] != b"\x1f\x8b":
        return head
    try:
        return zlib.decompressobj(31).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return b""


def sessions_in(path: Path) -> str | None:
    """The format of a path that is unmistakably in one of these; None for others."""
    if path.is_dir():
        return _directory(path)
    if not path.is_file():
        return None  # a pipe cannot be looked at twice
    head = _head(path).removeprefix(b"\xef\xbb\xbf")
    return next((name for name, found in READERS.items() if found.looks(head)), None)


_USUAL: Final[Any] = object()


def load_sessions(
    path: Path, fmt: str, start: Start | None = _USUAL, memory_mb: int = MEMORY_MB
) -> TxnColumns:
    """Columns of a path in one of these; what its keys start with is the format's, or `start`.

    Raises HistoryError for what is none or contradicts itself, MemorySpent where `memory_mb` is not
    enough, ConfigError for a start that cannot be.
    """
    sessions, usual = READERS[fmt].load(path, memory_mb << 20)
    if start is _USUAL:
        start = usual
        if start is not None and start.by_key is None and start.every is not None:
            sessions.without_initial(start.every)
    elif READERS[fmt].numbered:
        raise ConfigError(
            f"a {fmt} file has numbers of writes for values: none of them is an initial one",
            remedy="leave --initial out: the file says which reads saw the start",
        )
    return sessions.columns(start, memory_mb)
