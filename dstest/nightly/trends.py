"""What all nights of a name say together, asked of their index."""

from __future__ import annotations

import sqlite3
import statistics
from typing import Any, Final

import msgspec

from dstest.core.shares import Rate, interval
from dstest.nightly.outcome import Shown

NIGHTS_SHOWN: Final = 14


class CellTrend(msgspec.Struct, frozen=True, kw_only=True):
    """A cell over all nights. `nights` are the numbers of the last ones with how it stood there,
    the worst of its seeds, `flaky_nights` of those in which one was flaky. Rates are as in
    `Trends`; `as_it_must` counts seeds by night that came to a verdict, with all their tries in
    view."""

    cell: str
    key: str
    control: str
    nights: list[tuple[int, Shown]]
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


_WORST: Final[tuple[Shown, ...]] = ("failed", "other-bug", "missed", "no-verdict", "as-it-must")


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
    stood: dict[int, list[Shown]] = {}
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
