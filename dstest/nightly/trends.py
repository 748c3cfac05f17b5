"""What all nights of a name say together, asked of their index."""

from __future__ import annotations

import sqlite3
import statistics
from typing import Any, Final

import msgspec

from dstest.core.shares import Rate, interval
from dstest.nightly.outcome import Standing

__all__ = ["CellTrend", "NightTrend", "Trends", "trends_of"]

NIGHTS_SHOWN: Final = 14


class CellTrend(msgspec.Struct, frozen=True, kw_only=True):
    """A cell over all nights. `nights` are the numbers of the last ones with how it stood there,
    the worst of its seeds; `as_it_must` counts seeds by night, `flaky` those of them that needed
    more than one try. `found` is the share of all tries of a red control that showed what it has
    to; `found_s` the median of the seconds of load until then."""

    cell: str
    key: str
    control: str
    nights: list[tuple[int, Standing]]
    as_it_must: Rate
    flaky: Rate
    found: Rate
    found_s: float | None


class NightTrend(msgspec.Struct, frozen=True, kw_only=True):
    """A night in short; `counts` are its items by how they stand."""

    number: int
    started: str
    exit: int | None
    spent_s: float
    path: str
    counts: dict[str, int]


class Trends(msgspec.Struct, frozen=True, kw_only=True):
    """`found` is the share of tries of all red controls that showed what they have to, `alarms` the
    share of tries of green ones that saw a violation, `flaky` of all seeds by night that were as
    they must be those that needed more than one try."""

    found: Rate
    found_s: float | None
    alarms: Rate
    flaky: Rate
    nights: list[NightTrend]
    cells: list[CellTrend]


_WORST: Final[tuple[Standing, ...]] = ("failed", "missed", "no-verdict", "as-it-must")


def trends_of(db: sqlite3.Connection) -> Trends:
    """Of an index that was opened by `index.opened`."""
    newest = "select max(night) from items"
    keys = db.execute(
        f"select key, cell, control from items where night = ({newest}) group by key order by cell"
    )
    nights = db.execute("select * from nights order by number desc limit ?", (NIGHTS_SHOWN,))
    return Trends(
        found=_share(db, "control = 'red'", "standing = 'as-it-must'"),
        found_s=_found_s(db, "1 = 1", ()),
        alarms=_share(db, "control = 'green'", "standing = 'failed'"),
        flaky=_flaky(db, "1 = 1", ()),
        nights=[_night(db, row) for row in reversed(nights.fetchall())],
        cells=[_cell(db, row) for row in keys.fetchall()],
    )


def _share(
    db: sqlite3.Connection, of: str, hit: str, given: tuple[Any, ...] = (), table: str = "tries"
) -> Rate:
    row = db.execute(f"select count(*), coalesce(sum({hit}), 0) from {table} where {of}", given)
    total, hits = row.fetchone()
    return interval(hits, total)


def _flaky(db: sqlite3.Connection, of: str, given: tuple[Any, ...]) -> Rate:
    return _share(db, f"standing = 'as-it-must' and {of}", "flaky", given, "items")


def _found_s(db: sqlite3.Connection, of: str, given: tuple[Any, ...]) -> float | None:
    rows = db.execute(
        "select found_s from tries where control = 'red' and standing = 'as-it-must' "
        f"and found_s is not null and {of}",
        given,
    )
    times = [row[0] for row in rows]
    return statistics.median(times) if times else None


def _cell(db: sqlite3.Connection, row: sqlite3.Row) -> CellTrend:
    one = (row["key"],)
    stood: dict[int, list[Standing]] = {}
    for night, standing in db.execute(
        "select night, standing from items where key = ? order by night", one
    ):
        stood.setdefault(night, []).append(standing)
    nights = [(night, min(all_, key=_WORST.index)) for night, all_ in stood.items()]
    return CellTrend(
        cell=row["cell"],
        key=row["key"],
        control=row["control"],
        nights=nights[-NIGHTS_SHOWN:],
        as_it_must=_share(db, "key = ?", "standing = 'as-it-must'", one, "items"),
        flaky=_flaky(db, "key = ?", one),
        found=_share(db, "key = ? and control = 'red'", "standing = 'as-it-must'", one),
        found_s=_found_s(db, "key = ?", one),
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
