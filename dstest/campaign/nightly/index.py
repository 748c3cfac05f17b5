"""index.sqlite: a row for each try of all nights of a name, and the trends that they say together.

It is made anew from the night.json of each night and replaced atomically, so that it can be thrown
away. `tries.standing` is how a try stands against what its cell has to come to (`outcome.py`),
`items` the same by night and seed. Rates are over `trials` alone, the first tries with a verdict of
seeds that this night has drawn, since intervals hold for independent trials.
"""

from __future__ import annotations

import secrets
import sqlite3
import statistics
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.campaign.nightly.outcome import Shade, never_run, shade_of
from dstest.campaign.nightly.state import NIGHT, Item, Night, in_turn, nights_in
from dstest.core.errors import ConfigError
from dstest.core.rates import Rate, interval

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

NIGHTS_SHOWN: Final = 14
_WORST: Final[tuple[Shade, ...]] = ("failed", "other-bug", "missed", "no-verdict", "as-it-must")


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
def open_index(folder: Path) -> Iterator[sqlite3.Connection]:
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
        stood = shade_of(one.standing, red=item.expected.red)
        found = (judged.state.value, stood, ",".join(judged.anomalies))
        faults = (judged.planned, judged.landed, judged.found_s)
        where = (one.took_s, one.lost, judged.version, one.worker, one.result)
        counts = (first, first and one.standing != "no-verdict")
        _insert(db, "tries", (*of, *found, *faults, *where, *counts))


class CellTrend(msgspec.Struct, frozen=True, kw_only=True):
    """A cell over all nights. `nights` are the numbers of the last ones with how it stood there,
    the worst of its seeds, `flaky_nights` of those in which one was flaky. Rates are as in
    `Trends`; `as_it_must` counts seeds by night that came to a verdict, with all their tries in
    view."""

    cell: str
    key: str
    control: str
    nights: list[tuple[int, Shade]]
    as_it_must: Rate
    flaky: Rate
    found: Rate
    found_s: float | None
    no_verdict: Rate
    flaky_nights: list[int]


class NightTrend(msgspec.Struct, frozen=True, kw_only=True):
    """A night in short; `counts` are its items by how they stand."""

    number: int
    started: str
    exit: int | None
    spent_s: float
    path: str
    counts: dict[str, int]


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """What is a rate here is one of independent trials: of first tries with seeds that a night has
    drawn. A second try of a seed, one that failed before, and one that the file names are none.

    `found` is the share of trials of red controls that showed what they have to, `found_s` the
    median of the seconds of load until then, `alarms` the share of those of green ones that saw a
    violation, all three of trials with a verdict; `no_verdict` the share of first tries without
    one. `flaky` is of seeds by night that were as they must be the share that needed another try.
    """

    found: Rate
    found_s: float | None
    alarms: Rate
    flaky: Rate
    no_verdict: Rate
    nights: list[NightTrend]
    cells: list[CellTrend]


def trends_of(db: sqlite3.Connection) -> Trends:
    """Of an index that was opened by `index.opened`."""
    newest = "select max(night) from items"
    whole = "select max(number) from nights where not chosen"
    keys = db.execute(
        f"select key, cell, control from items where night in (({newest}), ({whole})) "
        "group by key order by cell"
    )
    nights = db.execute("select * from nights order by number desc limit ?", (NIGHTS_SHOWN,))
    return Trends(
        found=_share(db, "control = 'red'", "standing = 'as-it-must'"),
        found_s=_found_s(db, "1 = 1", ()),
        alarms=_share(db, "control = 'green'", "standing = 'failed'"),
        flaky=_flaky(db, "1 = 1", ()),
        no_verdict=_no_verdict(db, "1 = 1", ()),
        nights=[_night(db, row) for row in reversed(nights.fetchall())],
        cells=[_cell(db, row) for row in keys.fetchall()],
    )


def _share(
    db: sqlite3.Connection, of: str, hit: str, given: tuple[Any, ...] = (), table: str = "trials"
) -> Rate:
    row = db.execute(f"select count(*), coalesce(sum({hit}), 0) from {table} where {of}", given)
    total, hits = row.fetchone()
    return interval(hits, total)


def _flaky(db: sqlite3.Connection, of: str, given: tuple[Any, ...]) -> Rate:
    drawn = "standing = 'as-it-must' and why = 'new'"
    return _share(db, f"{drawn} and {of}", "flaky", given, "items")


def _no_verdict(db: sqlite3.Connection, of: str, given: tuple[Any, ...]) -> Rate:
    return _share(db, f"first and {of}", "standing = 'no-verdict'", given, "tries")


def _found_s(db: sqlite3.Connection, of: str, given: tuple[Any, ...]) -> float | None:
    rows = db.execute(
        "select found_s from trials where control = 'red' and standing = 'as-it-must' "
        f"and found_s is not null and {of}",
        given,
    )
    times = [row[0] for row in rows]
    return statistics.median(times) if times else None


def _cell(db: sqlite3.Connection, row: sqlite3.Row) -> CellTrend:
    one = (row["key"],)
    stood: dict[int, list[Shade]] = {}
    for night, standing in db.execute(
        "select night, standing from items where key = ? order by night", one
    ):
        stood.setdefault(night, []).append(standing)
    nights = [(night, min(all_, key=_WORST.index)) for night, all_ in stood.items()]
    flaky = db.execute("select distinct night from items where key = ? and flaky", one)
    return CellTrend(
        cell=row["cell"],
        key=row["key"],
        control=row["control"],
        nights=nights[-NIGHTS_SHOWN:],
        as_it_must=_share(
            db,
            "key = ? and why = 'new' and standing != 'no-verdict'",
            *("standing = 'as-it-must'", one, "items"),
        ),
        flaky=_flaky(db, "key = ?", one),
        found=_share(db, "key = ? and control = 'red'", "standing = 'as-it-must'", one),
        found_s=_found_s(db, "key = ?", one),
        no_verdict=_no_verdict(db, "key = ?", one),
        flaky_nights=sorted(row[0] for row in flaky),
    )


def _night(db: sqlite3.Connection, row: sqlite3.Row) -> NightTrend:
    counts = db.execute(
        "select standing, count(*) from items where night = ? group by standing", (row["number"],)
    )
    return NightTrend(
        number=row["number"],
        started=row["started"],
        exit=row["exit"],
        spent_s=row["spent_s"],
        path=row["path"],
        counts=dict(counts.fetchall()),
    )
