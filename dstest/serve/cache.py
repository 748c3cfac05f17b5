"""What was read of a store, kept over the end of the process: a file that may be thrown away.

It is in the user's own cache, not in the store, which is only read. What it says of a run counts
only as long as the key of its files is the same; what another version wrote is thrown away.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dstest import __version__
from dstest.serve.row import Figures, Row

_FORM: Final = " ".join((*Row.__struct_fields__, *Figures.__struct_fields__))
"""Rows with other fields are those of another version, whatever that is called."""

_SCHEMA: Final = """
create table if not exists form (version text);
create table if not exists rows (ref text primary key, row blob);
create table if not exists figures (key text primary key, row blob);
"""
T = TypeVar("T", bound=msgspec.Struct)


def cache_file(store: Path) -> Path:
    """Where the cache of this store is."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.sha256(str(store.resolve()).encode()).hexdigest()[:16]
    return Path(home) / "dstest" / f"serve-{name}.sqlite"


class Cache:
    """Rows by `ref` and figures by the key of their history. Where the file cannot be had, all is
    kept in memory, and `why_not` says why."""

    def __init__(self, path: Path | None) -> None:
        self.why_not = ""
        self._turn = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        if path is not None:
            try:
                self._db = _opened(path)
            except (OSError, sqlite3.Error) as error:
                self.why_not = f"{path}: {error}"
        self._db.executescript(_SCHEMA)

    def rows(self) -> dict[str, Row]:
        """All that can be read."""
        found = self._read("select row from rows", Row)
        return {row.ref: row for row in found}

    def put(self, rows: Iterable[Row], gone: Iterable[str] = ()) -> None:
        """Keep these, and forget those."""
        encoder = msgspec.msgpack.Encoder()
        with self._turn, contextlib.suppress(sqlite3.Error), self._db:
            self._db.executemany(
                "insert or replace into rows values (?, ?)",
                [(row.ref, encoder.encode(row)) for row in rows],
            )
            self._db.executemany("delete from rows where ref = ?", [(ref,) for ref in gone])

    def figures(self) -> dict[str, Figures]:
        """All that can be read, by key."""
        found: dict[str, Figures] = {}
        with contextlib.suppress(sqlite3.Error, msgspec.DecodeError):
            for key, blob in self._db.execute("select key, row from figures"):
                found[key] = msgspec.msgpack.decode(blob, type=Figures)
        return found

    def put_figures(self, figures: Mapping[str, Figures]) -> None:
        with self._turn, contextlib.suppress(sqlite3.Error), self._db:
            self._db.executemany(
                "insert or replace into figures values (?, ?)",
                [(key, msgspec.msgpack.encode(one)) for key, one in figures.items()],
            )

    def close(self) -> None:
        self._db.close()

    def _read(self, query: str, kind: type[T]) -> list[T]:
        decoder = msgspec.msgpack.Decoder(kind)
        with contextlib.suppress(sqlite3.Error, msgspec.DecodeError):
            return [decoder.decode(blob) for (blob,) in self._db.execute(query)]
        return []


def _opened(path: Path) -> sqlite3.Connection:
    """The file, made anew where another version wrote it or it is none of ours."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(sqlite3.Error):
        db = _tried(path)
        if db is not None:
            return db
    path.unlink(missing_ok=True)
    db = _tried(path)
    if db is None:
        raise OSError("it cannot be written")
    return db


def _tried(path: Path) -> sqlite3.Connection | None:
    db = sqlite3.connect(path, timeout=2, check_same_thread=False)
    try:
        path.chmod(0o600)
        with db:
            db.executescript(_SCHEMA)
            known = db.execute("select version from form").fetchall()
            if not known:
                db.execute("insert into form values (?)", (f"{_FORM} {__version__}",))
    except (OSError, sqlite3.Error):
        db.close()
        raise
    if known and known != [(f"{_FORM} {__version__}",)]:
        db.close()
        return None
    return db
