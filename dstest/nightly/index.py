"""index.sqlite: a row for each try of all nights of a name, for questions over many nights.

It is made anew as a whole from the night.json of each night, and replaced atomically, so that it
can be thrown away at any time. `tries.standing` is how a try stands against what its cell has to
come to (`outcome.py`), `items` the same by night and seed, with all tries in view. Rates are
over `trials` alone: the first try of a seed that this night has drawn, where it came to a verdict.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.nightly.locks import in_turn
from dstest.nightly.outcome import never_run, shown
from dstest.nightly.state import NIGHT, Item, Night, nights_in

INDEX: Final = "index.sqlite"

_SCHEMA: Final = """
create table nights (
  number integer, started text, ended text, exit integer, spent_s real, dstest text, path text,
  chosen integer
);
create table items (
  night integer, id text, cell text, key text, system text, version text, workload text,
  nemesis text, control text, seed integer, why text, standing text, flaky integer, why_not text,
  tries integer
);
create table tries (
  night integer, item text, key text, control text, seed integer, number integer, state text,
  standing text, anomalies text, planned integer, landed integer, found_s real, took_s real,
  lost integer, system_version text, worker text, result text,
  first integer, trial integer
);
create index items_by_key on items (key, night);
create index tries_by_key on tries (key, night);
create view trials as select * from tries where trial;
"""


def rebuild(folder: Path, judged: Iterable[tuple[Path, Night]] | None = None) -> Path:
    """Make the index of the nights in the folder of a name anew; its file. `judged` are the nights
    where they were judged again. Nights that cannot be read are not in it. Raises ConfigError where
    there is no night."""
    _require_nights(folder)
    with in_turn(folder):
        nights = judged
        if nights is None:
            nights = [(one.path, night) for one, night in nights_in(folder).whole]
        for left in folder.glob(f"{INDEX}.*.partial*"):
            left.unlink(missing_ok=True)
        target = folder / INDEX
        partial = folder / f"{INDEX}.{secrets.token_hex(4)}.partial"
        with closing(sqlite3.connect(partial)) as db, db:
            db.executescript(_SCHEMA)
            for path, night in nights:
                _add(db, path.name, night)
        partial.replace(target)
    return target


def _require_nights(folder: Path) -> None:
    """Raises ConfigError where this is not the folder of the nights of one name."""
    if (folder / NIGHT).is_file():
        raise ConfigError(
            f"{folder} is one night",
            remedy=f"give the folder of its name: {folder.resolve().parent}",
        )
    if any(not path.parent.is_symlink() for path in folder.glob(f"*/{NIGHT}")):
        return
    names = sorted({path.parents[1].name for path in folder.glob(f"*/*/{NIGHT}")})
    raise ConfigError(
        f"{folder} has no nights",
        remedy=f"give the folder of a name: {', '.join(str(folder / name) for name in names)}"
        if names
        else "`dstest nightly nightly.toml`",
    )


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
    _insert(db, "nights", (*when, night.spent_s, night.dstest, path, bool(night.chosen)))
    for item in night.items:
        what = (item.id, item.cell, item.key, item.system, item.version, item.workload)
        asked = (item.nemesis, item.expected.control, item.seed, item.why)
        stands = (item.shown, item.flaky, item.why_not, item.made)
        _insert(db, "items", (night.number, *what, *asked, *stands))
        _add_tries(db, night.number, item)


def _add_tries(db: sqlite3.Connection, number: int, item: Item) -> None:
    for one in item.tries:
        judged = one.judged or never_run(one.why_not)
        first = item.why == "new" and one.number == 1 and not one.left
        of = (number, item.id, item.key, item.expected.control, item.seed, one.number)
        stood = shown(one.standing, red=item.expected.red)
        found = (judged.state.value, stood, ",".join(judged.anomalies))
        faults = (judged.planned, judged.landed, judged.found_s)
        where = (one.took_s, one.lost, judged.version, one.worker, one.result)
        counts = (first, first and one.standing != "no-verdict")
        _insert(db, "tries", (*of, *found, *faults, *where, *counts))
