"""What a file is, by its first lines."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from checkers.txn.workloads import WORKLOADS
from dstest.core.formats import AUTO

_OURS: Final = b'{"schema":'
_HEAD_BYTES: Final = 4096
_LOG_HEAD_BYTES: Final = 1 << 16
"""Of a file, to see what it is."""


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """The file, unpacked where it is gzipped."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            yield file
            return
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked


def is_ours(path: Path) -> bool:
    """Does a file begin as histories of ours do? A pipe is not looked at, nor what is packed."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_OURS)) == _OURS
    except OSError:
        return False  # the reader says what is wrong with it


def log_as_edn(path: Path, format_: str, *, first: bool = False) -> str | None:
    """The op maps that a log of Jepsen's tells of, each in its line; some of the `first` where they
    are enough; None where the file is none. Raises HistoryError for a line that cannot be read."""
    from dstest.store.jepsen_log import as_edn, is_log

    if format_ not in (AUTO, "log"):
        return None
    try:
        with opened(path) as file:
            head = file.read(_LOG_HEAD_BYTES)
            told = head.decode("utf-8-sig", "replace")
            if format_ == AUTO and (told[:1] in "{[(#;" or not is_log(told)):
                return None
            if first and (found := as_edn(told[: told.rfind("\n") + 1])).strip():
                return found
            return as_edn((head + file.read()).decode("utf-8-sig"))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError):
        return None  # the reader says what is wrong with it


def transactions_in(path: Path, format_: str = AUTO) -> str | None:
    """The workload of a transactional history that nobody named, by the first lines of the file."""
    try:
        with opened(path) as file:
            head = file.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return None  # the reader says what is wrong with it
    if (told := log_as_edn(path, format_, first=True)) is not None:
        head = told.lstrip()[:_HEAD_BYTES].encode()
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if named := re.match(rb'\[?\s*\{[^\n]*"workload"\s*:?\s*"([^"]*)"', head):
        name = named[1].decode(errors="replace")
        return name if name in WORKLOADS else None
    if _other_than_transactions(head):
        return None
    if re.search(rb"\[\s*[:\"](rp|insert|delete)\b", head):
        return None  # transactions with reads by predicate are of a checker of their own
    if re.search(rb"\[\s*[:\"]append\b", head):
        return "list-append"
    if not re.search(rb"\[\s*\[\s*[:\"][rw][\" ]", head):
        return None
    # Reads of groups look alike, and what is no transaction needs the processes to be judged.
    transactions = b"process" in head or re.search(rb"\btxn\b", head) is not None
    return "rw-register" if transactions else None


def _other_than_transactions(head: bytes) -> bool:
    """Do types of operations say so? A look is made of steps that are written as reads are; other
    histories may call their transactions as they like."""
    types = set(re.findall(rb'"op_type"\s*:\s*"([^"]*)"', head))
    calls = set(re.findall(rb'(?:"f"\s*:\s*"|:f\s+[:"]?)([\w-]+)', head))
    return bool(types and b"txn" not in types) or not calls.isdisjoint({b"bump", b"look"})
