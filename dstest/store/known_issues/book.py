"""The book of findings, an SQLite file: what failing runs have shown, which findings resemble one
another, and of a run that failed: was it seen, was it mended, has it come back?
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest.core.clock import utc_stamp
from dstest.core.errors import ConfigError
from dstest.core.fingerprint import parts_of
from dstest.history.layout import operations_digest, recorded_name
from dstest.store.inventory import StorePlace, walk
from dstest.store.rows import HISTORY, RunRow, key_of, row_of

Outcome = Literal["tried", "held", "came back"]
_ID: Final = re.compile(r"[Kk](\d{1,9})")
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


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """A run that showed a finding. `run` is the digest of its history, by which it is known
    wherever it lies; `started` is UTC, `20261128T130000Z`. `bug` is the kind of bug that it showed
    and under which faults; empty where that is not known."""

    run: str
    name: str
    path: str
    started: str
    version: str
    workload: str
    nemesis: str
    seed: str
    headline: str
    bug: str = ""

    def may_be(self, others: Iterable[Sighting]) -> bool:
        """Is it the bug of one of these, as far as is known? One fingerprint may be of several."""
        type_, _, faults = self.bug.partition(" under ")
        for one in others:
            other, _, theirs = one.bug.partition(" under ")
            open_ = "unclassified" in (type_, other) or "" in (type_, other)
            if (not self.bug or not one.bug or faults == theirs) and (open_ or type_ == other):
                return True
        return False


class Fix(msgspec.Struct, frozen=True, kw_only=True):
    """What was done against a finding. `outcome` is `came back` where a run that started later
    showed it again, as the same kind of bug under the same faults, `held` where somebody said so,
    else `tried`."""

    commit: str
    note: str
    at: str
    outcome: Outcome


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A violation of a system by its fingerprint, with all runs that showed it and all that was
    done against it, oldest first."""

    id: str
    system: str
    fingerprint: str
    sightings: tuple[Sighting, ...]
    fixes: tuple[Fix, ...]

    @property
    def came_back(self) -> tuple[Fix, ...]:
        """Fixes after which it was seen again."""
        return tuple(fix for fix in self.fixes if fix.outcome == "came back")

    @property
    def in_circles(self) -> bool:
        """Three fixes or more, and it came back after each."""
        return len(self.came_back) >= 3


def finding_id(number: int) -> str:
    return f"K{number}"


def finding_number(text: str) -> int | None:
    """Of `K12`; None for what is no such name."""
    found = _ID.fullmatch(text.strip())
    return int(found[1]) if found else None


class FailedRun(NamedTuple):
    """A run with the fingerprints of all that it found."""

    system: str
    fingerprints: tuple[str, ...]
    sighting: Sighting


class LearnCounts(NamedTuple):
    """How much of what was read is new."""

    findings: int
    sightings: int


class Book:
    """Open one with `opened`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

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
            _with_schema(db, path)
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
        self.db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self.db.execute("rollback")
            raise
        self.db.execute("commit")

    def learn(self, seen: Iterable[FailedRun]) -> LearnCounts:
        """Remember runs; those that it knows already change nothing."""
        findings = sightings = 0
        with self._whole():
            for one in seen:
                for fingerprint in one.fingerprints:
                    done = self.db.execute(
                        "insert or ignore into finding (system, fingerprint) values (?, ?)",
                        (one.system, fingerprint),
                    )
                    findings += done.rowcount
                    number = self._number(one.system, fingerprint)
                    s = one.sighting
                    done = self.db.execute(
                        "insert or ignore into sighting (finding, run, name, path, started,"
                        " version, workload, nemesis, seed, headline, bug)"
                        " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        (
                            *(number, s.run, s.name, s.path, s.started, s.version),
                            *(s.workload, s.nemesis, s.seed, s.headline, s.bug),
                        ),
                    )
                    sightings += done.rowcount
        return LearnCounts(findings, sightings)

    def fix(self, name: str, commit: str, note: str) -> Finding:
        """Write down what was done. Raises ConfigError for a finding that is not there, and a
        commit that stands there already."""
        number = self._known(name)
        try:
            self.db.execute(
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
        done = self.db.execute(
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
        rows = self.db.execute("select number from finding order by number").fetchall()
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
        row = self.db.execute(
            "select number from finding where system = ? and fingerprint = ?",
            (system, fingerprint),
        ).fetchone()
        return None if row is None else row[0]

    def _known(self, name: str) -> int:
        number = finding_number(name)
        row = self.db.execute("select 1 from finding where number = ?", (number,)).fetchone()
        if number is None or row is None:
            raise ConfigError(
                f"there is no finding {name!r}", remedy="`dstest kb show` lists them: K1, K2, ..."
            )
        return number

    def _read(self, number: int) -> Finding:
        system, fingerprint = self.db.execute(
            "select system, fingerprint from finding where number = ?", (number,)
        ).fetchone()
        rows = self.db.execute(
            "select run, name, path, started, version, workload, nemesis, seed, headline, bug "
            "from sighting where finding = ? order by started, run",
            (number,),
        )
        fields = Sighting.__struct_fields__
        sightings = tuple(Sighting(**dict(zip(fields, row, strict=True))) for row in rows)
        fixes = self.db.execute(
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


def _with_schema(db: sqlite3.Connection, path: Path) -> None:
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


_WEIGHTS: Final = {"anomaly": 4, "checker": 2, "keys": 1, "model": 1, "system": 3, "faults": 2}
"""What two findings may have in common. The kind of anomaly says most, then the system."""

_LEAST: Final = 0.5


class Resemblance(msgspec.Struct, frozen=True, kw_only=True):
    """Another finding. `score` is the share, from 0 to 1, of what could be in common that is;
    `common` names it."""

    finding: Finding
    score: float
    common: tuple[str, ...]


def resembling(
    system: str, fingerprint: str, nemesis: str, others: Iterable[Finding], top: int
) -> list[Resemblance]:
    """At most `top` findings other than this one, the most alike first."""
    mine = _traits(system, fingerprint, {nemesis})
    found = []
    for other in others:
        if (other.system, other.fingerprint) == (system, fingerprint):
            continue
        nemeses = {one.nemesis for one in other.sightings}
        theirs = _traits(other.system, other.fingerprint, nemeses)
        common = tuple(name for name in _WEIGHTS if mine[name] & theirs[name])
        score = sum(_WEIGHTS[name] for name in common) / sum(_WEIGHTS.values())
        if score >= _LEAST:
            found.append(Resemblance(finding=other, score=score, common=common))
    return sorted(found, key=lambda one: (-one.score, one.finding.id))[:top]


def _traits(system: str, fingerprint: str, nemeses: Iterable[str]) -> dict[str, set[str]]:
    checker, kind, key, model = parts_of(fingerprint)
    faults = {word for name in nemeses for word in name.split(",")} - {"none", ""}
    return {
        "anomaly": {kind},
        "checker": {checker},
        "keys": {key} - {"*"},
        "model": {model} - {"*"},
        "system": {system},
        "faults": faults,
    }


def book_file(given: Path | None = None) -> Path:
    """What was given, else `DSTEST_KB`, else a file of the user's own."""
    if given is not None:
        return given
    if named := os.environ.get("DSTEST_KB"):
        return Path(named)
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return Path(home) / "dstest" / "kb.sqlite"


_TOP = 3


class Recollection(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that this run shows once more, and others that resemble them. Sightings of the run
    itself are not among them."""

    known: tuple[Finding, ...]
    alike: tuple[Resemblance, ...]
    run: Sighting


def recall(book: Book, seen: FailedRun, top: int = _TOP) -> Recollection:
    """Look up a run, before or after it was learnt."""
    known = []
    for finding in book.of(seen.system, seen.fingerprints):
        before = tuple(one for one in finding.sightings if one.run != seen.sighting.run)
        if before:
            came = _with_this(finding, seen.sighting)
            known.append(msgspec.structs.replace(came, sightings=before))
    everything = book.findings()
    shown = {(seen.system, fingerprint) for fingerprint in seen.fingerprints}
    others = [one for one in everything if (one.system, one.fingerprint) not in shown]
    near: dict[str, Resemblance] = {}
    for fingerprint in seen.fingerprints:
        for one in resembling(seen.system, fingerprint, seen.sighting.nemesis, others, top):
            if one.finding.id not in near or near[one.finding.id].score < one.score:
                near[one.finding.id] = one
    best = sorted(near.values(), key=lambda one: (-one.score, one.finding.id))[:top]
    return Recollection(known=tuple(known), alike=tuple(best), run=seen.sighting)


def _with_this(finding: Finding, run: Sighting) -> Finding:
    """As it stands once this run is among its sightings."""
    fixes = []
    for fix in finding.fixes:
        mended = [one for one in finding.sightings if one.started <= fix.at]
        came = run.started > fix.at and run.may_be(mended or [run])
        fixes.append(msgspec.structs.replace(fix, outcome="came back") if came else fix)
    return msgspec.structs.replace(finding, fixes=tuple(fixes))


def render(found: Recollection) -> Iterator[str]:
    """A line or two for each, as a terminal shows it."""
    for finding in found.known:
        yield _line(finding)
        others = sorted({one.bug for one in finding.sightings if one.bug})
        if not found.run.may_be(finding.sightings):
            yield (
                f"  by its fingerprint alone: this bug is {found.run.bug}, that was"
                f" {'; '.join(others)} (type and faults): it may be another one"
            )
        for fix in finding.fixes:
            yield f"  {fix.commit} ({_day(fix.at)}): {fix.note or 'no note'}: {fix.outcome}"
        if finding.in_circles:
            yield (
                f"  going in circles: {len(finding.came_back)} fixes, and it came back after each; "
                "drive a model there and ask why (dstest spec drive, dstest spec why)"
            )
    for one in found.alike:
        common = ", ".join(one.common)
        yield f"like {one.finding.id} ({one.score:.0%}: {common}): {_short(one.finding)}"
        held: Sequence[str] = [
            fix.commit for fix in one.finding.fixes if fix.outcome != "came back"
        ]
        if held:
            yield f"  mended there by {', '.join(held)}"


def _line(finding: Finding) -> str:
    count, first = len(finding.sightings), finding.sightings[0]
    back = " It has come back." if finding.came_back else ""
    times = "once" if count == 1 else f"{count} times"
    return (
        f"{finding.id} {finding.fingerprint}: seen {times} before, first on {_day(first.started)} "
        f"({first.name}).{back}"
    )


def _short(finding: Finding) -> str:
    said = next((one.headline for one in finding.sightings if one.headline), "")
    return f"{finding.system}: {said or finding.fingerprint}"


def _day(stamp: str) -> str:
    """`20261128T130000Z` -> `2026-11-28`"""
    return f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}" if len(stamp) >= 8 else "an unknown day"


def failing_runs(
    store: Path, *, own: bool = False, tell: Callable[[str], None] = lambda what: None
) -> Iterator[FailedRun | str]:
    """Each run below a directory that failed; in words, each that says so and is not to be
    believed: its files are not as they were summed up, or its verdict does not follow from them.
    `own`: this process made the run, and is through with it."""
    root = store.resolve()
    for number, place in enumerate(runs_below(store), 1):
        tell(f"{store}: run {number}, {place.path.name}")
        row = row_of(root, place, key_of(place), own=own)
        if not row.failed:
            continue
        if row.judged and row.fingerprints:
            yield failed_run(row, place)
        else:
            yield f"{place.path}: {row.why or 'it names no violation'}"


def runs_below(store: Path) -> Iterator[StorePlace]:
    """All runs of a directory."""
    return (place for place in walk(store).places if place.kind == "run")


def failed_run(row: RunRow, place: StorePlace) -> FailedRun:
    """A run that failed, and is as it was summed up."""
    test = row.test
    return FailedRun(
        test.system,
        row.fingerprints,
        Sighting(
            run=_digest(place.path),
            name=place.path.name,
            path=str(place.path.resolve()),
            started=row.started,
            version=test.version,
            workload=test.workload,
            nemesis=test.nemesis,
            seed=test.seed_text,
            headline=row.headline,
            bug=row.bug,
        ),
    )


def _digest(run: Path) -> str:
    """A copy of a run is the same run; a simulated one that was made again has the same operations
    and another name."""
    name = recorded_name(run)
    return hashlib.sha256(f"{name} {operations_digest(run / HISTORY)}".encode()).hexdigest()[:32]
