"""index.sqlite: a row for each try of all nights of a name, for questions over many nights.

It is made anew as a whole from the night.json of each night, and replaced atomically, so that it
can be thrown away at any time. `tries.standing` is how a try stands against what its cell has to
come to (`outcome.py`), `items` the same by night and seed, with all tries in view.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.nightly.state import Item, Night, nights_of

__all__ = ["INDEX", "opened", "rebuild"]

INDEX: Final = "index.sqlite"

_SCHEMA: Final = """
create table nights (
  number integer primary key, started text, ended text, exit integer, spent_s real, dstest text,
  path text
);
create table items (
  night integer, id text, cell text, key text, system text, version text, workload text,
  nemesis text, control text, seed integer, why text, standing text, flaky integer, why_not text
);
create table tries (
  night integer, item text, key text, control text, seed integer, number integer, state text,
  standing text, anomalies text, planned integer, landed integer, found_s real, took_s real,
  lost integer, system_version text, worker text, result text
);
create index items_by_key on items (key, night);
create index tries_by_key on tries (key, night);
"""


def rebuild(folder: Path, judged: Iterable[tuple[Path, Night]] | None = None) -> Path:
    """Make the index of the nights in the folder of a name anew; its file. `judged` are the nights
    where they were judged again. Raises ConfigError where there is no night."""
    nights = judged
    if nights is None:
        nights = [(one.path, one.read()) for one in nights_of(folder)]
    rows = list(nights)
    if not rows:
        raise ConfigError(f"{folder} has no nights", remedy="`dstest nightly nightly.toml`")
    target, partial = folder / INDEX, folder / f"{INDEX}.partial"
    partial.unlink(missing_ok=True)
    with closing(sqlite3.connect(partial)) as db, db:
        db.executescript(_SCHEMA)
        for path, night in rows:
            _add(db, path.name, night)
    partial.replace(target)
    return target


@contextmanager
def opened(folder: Path) -> Iterator[sqlite3.Connection]:
    """The index of a folder, to be read."""
    with closing(sqlite3.connect(f"file:{folder / INDEX}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        yield db


def _insert(db: sqlite3.Connection, table: str, row: tuple[Any, ...]) -> None:
    db.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)


def _add(db: sqlite3.Connection, path: str, night: Night) -> None:
    when = (night.number, night.started, night.ended, night.exit)
    _insert(db, "nights", (*when, night.spent_s, night.dstest, path))
    for item in night.items:
        what = (item.id, item.cell, item.key, item.system, item.version, item.workload)
        asked = (item.nemesis, item.expected.control, item.seed, item.why)
        stands = (item.standing, item.flaky, item.why_not)
        _insert(db, "items", (night.number, *what, *asked, *stands))
        _add_tries(db, night.number, item)


def _add_tries(db: sqlite3.Connection, number: int, item: Item) -> None:
    for one in item.tries:
        if (judged := one.judged) is None:
            continue
        of = (number, item.id, item.key, item.expected.control, item.seed, one.number)
        found = (judged.state.value, one.standing, ",".join(judged.anomalies))
        faults = (judged.planned, judged.landed, judged.found_s)
        where = (one.took_s, one.lost, judged.version, one.worker, one.result)
        _insert(db, "tries", (*of, *found, *faults, *where))
