"""The book of findings: an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from dstest.core.clock import utc_stamp
from dstest.core.errors import ConfigError
from dstest.kb.records import Finding, Fix, Outcome, Sighting, finding_id, finding_number

_FORM: Final = 1

_SCHEMA: Final = """
create table finding (
    number integer primary key autoincrement, system text not null, fingerprint text not null,
    unique (system, fingerprint));
create table sighting (
    finding integer not null references finding (number), run text not null, name text not null,
    path text not null, started text not null, version text not null, workload text not null,
    nemesis text not null, seed text not null, headline text not null,
    bug text not null default '',
    primary key (finding, run));
create table fix (
    finding integer not null references finding (number), commit_ text not null,
    note text not null, at text not null, held integer not null default 0,
    primary key (finding, commit_));
"""


class Seen(NamedTuple):
    """A run with the fingerprints of all that it found."""

    system: str
    fingerprints: tuple[str, ...]
    sighting: Sighting


class Learnt(NamedTuple):
    """How much of what was read is new."""

    findings: int
    sightings: int


class Book:
    """Open one with `opened`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    @staticmethod
    @contextmanager
    def opened(path: Path, *, make: bool = False) -> Iterator[Book]:
        """Raises ConfigError where there is none and `make` is not asked for, and where the file is
        no book of findings."""
        if not make and not path.is_file():
            raise ConfigError(
                f"there is no book of findings at {path}",
                remedy="`dstest kb learn STORE` begins one",
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(path, timeout=30, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"{path}: {error}", remedy="--kb FILE, another place") from None
        try:
            _shaped(db, path)
            yield Book(db)
        except sqlite3.Error as error:
            raise ConfigError(
                f"{path} cannot be used: {error}", remedy="--kb FILE, another place"
            ) from None
        finally:
            db.close()

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """All of it or nothing, and nobody else meanwhile."""
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def learn(self, seen: Iterable[Seen]) -> Learnt:
        """Remember runs; those that it knows already change nothing."""
        findings = sightings = 0
        with self._whole():
            for one in seen:
                for fingerprint in one.fingerprints:
                    done = self._db.execute(
                        "insert or ignore into finding (system, fingerprint) values (?, ?)",
                        (one.system, fingerprint),
                    )
                    findings += done.rowcount
                    number = self._number(one.system, fingerprint)
                    s = one.sighting
                    done = self._db.execute(
                        "insert or ignore into sighting (finding, run, name, path, started,"
                        " version, workload, nemesis, seed, headline, bug)"
                        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        (
                            *(number, s.run, s.name, s.path, s.started, s.version),
                            *(s.workload, s.nemesis, s.seed, s.headline, s.bug),
                        ),
                    )
                    sightings += done.rowcount
        return Learnt(findings, sightings)

    def fix(self, name: str, commit: str, note: str) -> Finding:
        """Write down what was done. Raises ConfigError for a finding that is not there, and a
        commit that stands there already."""
        number = self._known(name)
        try:
            self._db.execute(
                "insert into fix (finding, commit_, note, at) values (?, ?, ?, ?)",
                (number, commit, note, utc_stamp()),
            )
        except sqlite3.IntegrityError:
            raise ConfigError(
                f"{finding_id(number)} has a fix {commit!r} already", remedy="another commit"
            ) from None
        return self._read(number)

    def held(self, name: str, commit: str) -> Finding:
        """Somebody says that a fix held. Raises ConfigError where it is not there."""
        number = self._known(name)
        done = self._db.execute(
            "update fix set held = 1 where finding = ? and commit_ = ?", (number, commit)
        )
        if not done.rowcount:
            raise ConfigError(
                f"{finding_id(number)} has no fix {commit!r}",
                remedy=f"`dstest kb show {finding_id(number)}` lists them",
            )
        return self._read(number)

    def finding(self, name: str) -> Finding:
        """By its id. Raises ConfigError."""
        return self._read(self._known(name))

    def findings(self) -> list[Finding]:
        """All, by number."""
        rows = self._db.execute("select number from finding order by number").fetchall()
        return [self._read(number) for (number,) in rows]

    def of(self, system: str, fingerprints: Iterable[str]) -> list[Finding]:
        """Those of a system with these fingerprints."""
        found = []
        for fingerprint in fingerprints:
            number = self._number(system, fingerprint)
            if number is not None:
                found.append(self._read(number))
        return found

    def _number(self, system: str, fingerprint: str) -> Any:
        row = self._db.execute(
            "select number from finding where system = ? and fingerprint = ?",
            (system, fingerprint),
        ).fetchone()
        return None if row is None else row[0]

    def _known(self, name: str) -> int:
        number = finding_number(name)
        row = self._db.execute("select 1 from finding where number = ?", (number,)).fetchone()
        if number is None or row is None:
            raise ConfigError(
                f"there is no finding {name!r}", remedy="`dstest kb show` lists them: K1, K2, ..."
            )
        return number

    def _read(self, number: int) -> Finding:
        system, fingerprint = self._db.execute(
            "select system, fingerprint from finding where number = ?", (number,)
        ).fetchone()
        rows = self._db.execute(
            "select run, name, path, started, version, workload, nemesis, seed, headline, bug "
            "from sighting where finding = ? order by started, run",
            (number,),
        )
        fields = Sighting.__struct_fields__
        sightings = tuple(Sighting(**dict(zip(fields, row, strict=True))) for row in rows)
        fixes = self._db.execute(
            "select commit_, note, at, held from fix where finding = ? order by at, rowid",
            (number,),
        )
        return Finding(
            id=finding_id(number),
            system=system,
            fingerprint=fingerprint,
            sightings=sightings,
            fixes=tuple(
                Fix(commit=commit, note=note, at=at, outcome=_outcome(at, sightings, bool(held)))
                for commit, note, at, held in fixes
            ),
        )


def _outcome(at: str, sightings: Sequence[Sighting], held: bool) -> Outcome:
    mended = [one for one in sightings if one.started <= at]
    if any(one.started > at and one.may_be(mended or [one]) for one in sightings):
        return "came back"
    return "held" if held else "tried"


def _shaped(db: sqlite3.Connection, path: Path) -> None:
    """An empty file becomes a book; another version's is refused."""
    (form,) = db.execute("pragma user_version").fetchone()
    if form == _FORM:
        columns = {row[1] for row in db.execute("pragma table_info(sighting)")}
        if "bug" not in columns:  # of an older version, which did not ask what kind of bug it was
            db.execute("alter table sighting add column bug text not null default ''")
        return
    tables = db.execute("select count(*) from sqlite_master").fetchone()[0]
    if form or tables:
        raise ConfigError(
            f"{path} is no book of findings of this version", remedy="--kb FILE, another place"
        )
    db.execute("begin immediate")
    if db.execute("pragma user_version").fetchone()[0] == 0:  # nobody else was quicker
        for statement in filter(str.strip, _SCHEMA.split(";")):
            db.execute(statement)
        db.execute(f"pragma user_version = {_FORM}")
    db.execute("commit")
