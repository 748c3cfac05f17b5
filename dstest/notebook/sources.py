"""Where the operations of a history come from, each time that somebody goes through them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dstest.core.errors import HistoryError
from dstest.core.formats import AUTO, SESSIONS
from dstest.core.history import SCHEMA, Header
from dstest.core.op import Op
from dstest.notebook.unchanged import Seen, seen
from dstest.store.jsonl import each_op, read_header

_OURS: Final = re.compile(rb'\{"')


class Source(NamedTuple):
    """A header, and a function that goes through the operations from the beginning. `path` with
    `words` is how `dstest check` is given the same, None where there is no such file. `size` says
    how many operations there are: once it was asked, without going through them again."""

    header: Header
    each: Callable[[], Iterator[Op]]
    size: Callable[[], int]
    path: Path | None = None
    words: tuple[str, ...] = ()


def of_ops(header: Header, ops: list[Op]) -> Source:
    """Of operations that are in memory."""
    return Source(header, lambda: iter(ops), lambda: len(ops))


def counted(path: Path, each: Callable[[], Iterator[Op]]) -> Callable[[], int]:
    """Counts what a file has, and counts again only where it is another one since."""
    known: dict[Seen | None, int] = {}

    def count() -> int:
        now = seen(path)
        if now is None or now not in known:
            known.clear()
            known[now] = sum(1 for _ in each())
        return known[now]

    return count


def _is_ours(path: Path) -> bool:
    """Is it a plain file of ours, which can be read line by line?"""
    try:
        with path.open("rb") as file:
            head = file.readline(1 << 20)
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", remedy="check the path") from None
    ours = _OURS.match(head.removeprefix(codecs.BOM_UTF8)) is not None
    return ours and f'"{SCHEMA}"'.encode() in head and b'"dstest"' not in head


def of_file(path: Path, fmt: str, independent: bool | None) -> Source:
    """Of a file in any notation that `dstest check` reads. Raises HistoryError."""
    from checkers.txn.sessions.formats import sessions_in

    words = () if fmt == AUTO else ("--format", fmt)
    sessions = fmt if fmt in SESSIONS else sessions_in(path) if fmt == AUTO else None
    if sessions is not None:
        from dstest.notebook.sessions import read_sessions

        header, ops = read_sessions(path, sessions)
        return of_ops(header, ops)._replace(path=path, words=words)
    if fmt in (AUTO, "dstest") and _is_ours(path):

        def each() -> Iterator[Op]:
            return each_op(path)

        return Source(read_header(path), each, counted(path, each), path, words)
    from dstest.store.importers import load_history

    if independent is not None:
        words = (*words, "--independent" if independent else "--no-independent")
    history = load_history(path, fmt, independent=independent)
    return of_ops(history.header, history.ops)._replace(path=path, words=words)
