"""All runs of a store, found, read and kept up to date, with a cache of them that outlives the
process.

One thread refreshes (`Index.refresh`), any other takes `Index.shown`, which is replaced as a whole.
A store is walked again when one of its folders has changed, a run read again when one of its small
files has; figures (`Measures`) need a history, and are kept by its key. The cache is in the user's
own, not in the store; what another version wrote in it is thrown away.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

import msgspec

from dstest import __version__
from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.core.processes import end_with_parent
from dstest.core.summary import Figures, Tested
from dstest.core.words import shell_word
from dstest.history.jsonl import read_history
from dstest.history.layout import RunDir
from dstest.report.summarize import figures_of
from dstest.store.inventory import StorePlace, Stray, walk
from dstest.store.query import choices
from dstest.store.rows import HISTORY, GroupRow, RunRow, group_of, key_of, ref_of, row_of
from dstest.store.verify import Recording, copies_among, digest_of

_FORM: Final = " ".join(
    (*RunRow.__struct_fields__, *Tested.__struct_fields__, *Figures.__struct_fields__)
)
"""Rows with other fields are those of another version, whatever that is called."""

_SCHEMA: Final = """
create table if not exists form (version text);
create table if not exists rows (ref text primary key, row blob);
create table if not exists figures (key text primary key, row blob);
"""
T = TypeVar("T", bound=msgspec.Struct)

LARGEST_BYTES: Final = 64 * 1024 * 1024
"""A larger history takes minutes and gigabytes to read: `dstest compare` does."""

AT_ONCE_BYTES: Final = 2 * 1024 * 1024
"""A page waits for a history of this size."""

_EVERY_S: Final = 2.0
_REST: Final = 10
"""A look at everything is followed by a rest of so many times what it took."""

_PUBLISH_NS: Final = 1_000_000_000
_REST_S_MAX: Final = 30.0
LATE_S: Final = 60.0
"""A look that is not over, or not begun, so long after it is due is told on every page."""

_MEASURE_S: Final = 2.0
"""So long histories are read before the store is looked at again."""


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

    def rows(self) -> dict[str, RunRow]:
        """All that can be read."""
        found = self._read("select row from rows", RunRow)
        return {row.ref: row for row in found}

    def put(self, rows: Iterable[RunRow], gone: Iterable[str] = ()) -> None:
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


def measure(run: Path) -> Figures:
    """Of a run with whose verdict no figures were kept. Never raises for what lies there."""
    path = run / HISTORY
    try:
        if (size := path.stat().st_size) > LARGEST_BYTES:
            mb = size / 1e6
            return Figures(why=f"its history is large ({mb:,.0f} MB): `dstest compare` reads it")
        meta = RunDir(run).read_meta()
        stopped = meta is not None and bool(meta.stopped_by)
        return figures_of(read_history(path), stopped=stopped)
    except Exception as error:
        return Figures(why=f"{error or type(error).__name__}".splitlines()[0])


class Measures:
    """Of the runs of a store. Any thread may ask; `some` is for one thread alone, and reads in a
    process aside, so that pages do not wait for it."""

    def __init__(self, store: Path, cache: Cache) -> None:
        self._store = store
        self._cache = cache
        self._found = cache.figures()
        self._pool: ProcessPoolExecutor | None = None

    def of(self, row: RunRow) -> Figures | None:
        """What is known already; None where nobody has looked."""
        return (row.figures or self._found.get(row.key)) if row.judged else None

    def soon(self, row: RunRow) -> Figures | None:
        """What is known, or can be at once; None where it takes longer, and comes by and by."""
        try:
            large = (self._store / row.ref / HISTORY).stat().st_size > AT_ONCE_BYTES
        except OSError:
            large = False
        return self.of(row) if large else self.now(row)

    def now(self, row: RunRow) -> Figures:
        """Measure, if it is not known."""
        if not row.judged:
            return Figures(why=f"not measured: it is {row.word}")
        return self.of(row) or self._keep(row, measure(self._store / row.ref))

    def some(self, rows: Iterable[RunRow], limit_s: float, stop: Callable[[], bool]) -> int:
        """Measure those that are not known, one after the other, for about so long; how many."""
        end_ns, count = clock.monotonic_ns() + int(limit_s * 1e9), 0
        for row in rows:
            if stop() or clock.monotonic_ns() > end_ns:
                break
            if row.judged and self.of(row) is None:
                found = self._aside(row, stop)
                if found is None:
                    break
                self._keep(row, found)
                count += 1
        return count

    def close(self) -> None:
        """End the process aside."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _keep(self, row: RunRow, found: Figures) -> Figures:
        self._found[row.key] = found
        self._cache.put_figures({row.key: found})
        return found

    def _aside(self, row: RunRow, stop: Callable[[], bool]) -> Figures | None:
        """None where somebody wants to end."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begins)
        try:
            future = self._pool.submit(measure, self._store / row.ref)
            while not stop():
                try:
                    return future.result(timeout=0.2)
                except TimeoutError:
                    continue
        except BrokenProcessPool:
            self.close()
            return Figures(why="the process that read its history died of it")
        return None


def _begins() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(10)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What is known at one time. `rows` are the newest first. `unread` runs were found and not read
    yet. `at_ns` is when the store was looked at, `problem` why it could not be since then. `places`
    are where runs, sessions, plans and nights lie, `choices` what runs can be filtered by. `copies`
    are the runs that are copies of others, and of which (`dstest.store.inventory`). `tests` are
    the runs of each test, likewise the newest first, without copies."""

    rows: Mapping[str, RunRow]
    groups: Sequence[GroupRow]
    places: Mapping[str, StorePlace]
    odd: Sequence[Stray]
    choices: Mapping[str, Sequence[tuple[str, int]]]
    copies: Mapping[str, str] = msgspec.field(default_factory=dict)
    tests: Mapping[str, Sequence[RunRow]] = msgspec.field(default_factory=dict)
    unread: int = 0
    at_ns: int = 0
    problem: str = ""

    @property
    def counted(self) -> list[RunRow]:
        """Every run once, the newest first: what shares, trends and fingerprints are of."""
        return [row for ref, row in self.rows.items() if ref not in self.copies]

    def standing(self, word: str) -> list[RunRow]:
        """The runs that stand so."""
        return [row for row in self.rows.values() if row.standing == word]


_NOTHING: Final = Shown(rows={}, groups=(), places={}, odd=(), choices={})


class Index:
    """Of one store. Raises ConfigError where that is none."""

    def __init__(self, store: Path, cache: Cache) -> None:
        self.store = _required(store)
        self.measures = Measures(self.store, cache)
        self._cache = cache
        self._rows = cache.rows()
        self._kept = set(self._rows)
        self._groups: dict[str, GroupRow] = {}
        self._digests: dict[str, str] = {}
        self._folders: dict[Path, tuple[int, int, int] | None] = {}
        self._places: tuple[StorePlace, ...] = ()
        self._runs: dict[str, StorePlace] = {}
        self._odd: tuple[Stray, ...] = ()
        self.shown = _NOTHING
        self._due_ns: int | None = None

    def refresh(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Look at the store, and read what has changed. Never raises for what lies there."""
        try:
            self._walked()
        except (ConfigError, OSError) as error:
            self.shown = msgspec.structs.replace(self.shown, problem=str(error).splitlines()[0])
            return
        refs = self._runs
        gone = self._kept - refs.keys()
        for ref in self._rows.keys() - refs.keys():
            del self._rows[ref]
        self._read(refs, gone, stop)

    def follow(self, stop: threading.Event) -> None:
        """Keep up to date until told to stop."""
        while not stop.is_set():
            began = clock.monotonic_ns()
            self._guarded(stop)
            took_s = (clock.monotonic_ns() - began) / 1e9
            rest_s = min(_REST_S_MAX, max(_EVERY_S, _REST * took_s))
            self._begins_to(rest_s + LATE_S)
            stop.wait(rest_s)
        self.measures.close()

    def _guarded(self, stop: threading.Event) -> None:
        """A look that goes wrong is told on every page, and the next one is taken."""
        try:
            self._begins_to(LATE_S)
            self.refresh(stop.is_set)
            self._begins_to(LATE_S)
            self.measures.some(self.shown.counted, _MEASURE_S, stop.is_set)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
            self.shown = msgspec.structs.replace(self.shown, problem=problem)

    def _begins_to(self, for_s: float) -> None:
        """Whoever follows does something that is over by then."""
        self._due_ns = clock.monotonic_ns() + int(for_s * 1e9)

    @property
    def late(self) -> bool:
        """Nobody looks at the store any longer, though somebody should: what is shown is old."""
        return self._due_ns is not None and clock.monotonic_ns() > self._due_ns

    def _walked(self) -> None:
        if self._folders and all(_mark(p) == mark for p, mark in self._folders.items()):
            return
        marks = {folder: _mark(folder) for folder in self._folders}
        walked = walk(self.store)
        # A folder that changed between its mark and the walk is walked once more.
        self._folders = {
            folder: marks[folder] if folder in marks else _mark(folder) for folder in walked.folders
        }
        self._places, self._odd = walked.places, walked.odd
        runs = [place for place in walked.places if place.kind == "run"]
        # The name begins with the time: the newest come first.
        runs.sort(key=lambda place: (place.path.name, str(place.path)), reverse=True)
        self._runs = {ref_of(self.store, place.path): place for place in runs}

    def _read(
        self, refs: Mapping[str, StorePlace], gone: set[str], stop: Callable[[], bool]
    ) -> None:
        fresh: list[RunRow] = []
        left, published = len(refs), clock.monotonic_ns()
        for ref, place in refs.items():
            if stop():
                break
            left -= 1
            self._begins_to(LATE_S)
            key, known = key_of(place), self._rows.get(ref)
            if known is None or known.key != key or known.standing == "running":
                row = row_of(self.store, place, key)
                if row != known:
                    self._rows[ref] = row
                    fresh.append(row)
            if clock.monotonic_ns() - published > _PUBLISH_NS and fresh:
                self._publish(refs, left)
                published = clock.monotonic_ns()
        if fresh or not self._is_shown(refs):
            self._publish(refs, left)
        else:
            now = {"at_ns": clock.wall_ns(), "problem": ""}
            self.shown = msgspec.structs.replace(self.shown, **now)
        if fresh or gone:
            self._cache.put(fresh, gone)
            self._kept = (self._kept | {row.ref for row in fresh}) - gone

    def _is_shown(self, refs: Mapping[str, StorePlace]) -> bool:
        """Nothing came, went or changed, but for sessions, plans and nights, which are few."""
        groups = [place for place in self._places if place.kind != "run"]
        return (
            not groups
            and not self.shown.unread
            and self.shown.rows.keys() == refs.keys()
            and len(self.shown.places) == len(refs)
            and self.shown.odd == self._odd
        )

    def _publish(self, refs: Mapping[str, StorePlace], unread: int) -> None:
        known = [self._rows[ref] for ref in refs if ref in self._rows]
        rows = sorted(known, key=lambda row: (row.started, row.ref), reverse=True)
        self._regroup(rows)
        copies = self._copies(rows)
        tests: dict[str, list[RunRow]] = {}
        for row in rows:
            if row.test.id and row.ref not in copies:
                tests.setdefault(row.test.id, []).append(row)
        self.shown = Shown(
            rows={row.ref: row for row in rows},
            groups=sorted(self._groups.values(), key=lambda one: one.started, reverse=True),
            places={ref_of(self.store, place.path): place for place in self._places},
            odd=self._odd,
            choices=choices(rows),
            copies=copies,
            tests=tests,
            unread=unread if len(known) < len(refs) else 0,
            at_ns=clock.wall_ns(),
        )

    def _copies(self, rows: Sequence[RunRow]) -> dict[str, str]:
        """Of the runs that may be believed, in the order of their places."""
        judged = {row.ref: row for row in rows if row.judged}
        refs = sorted(judged, key=lambda ref: (ref.count("/"), ref))

        def digest(run: Recording) -> str:
            self._begins_to(LATE_S)
            key = judged[run.name].key
            if key not in self._digests:
                self._digests[key] = digest_of(run)
            return self._digests[key]

        return copies_among(
            (
                Recording(name=ref, path=self.store / ref, bytes=judged[ref].recorded_bytes)
                for ref in refs
            ),
            digest,
        )

    def _regroup(self, rows: Sequence[RunRow]) -> None:
        found: dict[str, GroupRow] = {}
        whole = {ref_of(self.store, p.path): p for p in self._places if p.kind != "run"}
        within: dict[str, list[RunRow]] = {ref: [] for ref in whole}
        for row in (row for row in rows if row.within):
            for above in PurePosixPath(row.ref).parents:
                if str(above) in within:
                    within[str(above)].append(row)
        for ref, place in whole.items():
            inner = within[ref]
            key = f"{key_of(place)} {hash(tuple((row.ref, row.standing) for row in inner))}"
            known = self._groups.get(ref)
            if known is None or known.key != key or known.life == "running":
                known = group_of(self.store, place, key, inner)
            found[ref] = known
        self._groups = found


def _required(store: Path) -> Path:
    """The store itself. Raises ConfigError where it is none, or a single run."""
    if not store.is_dir():
        what = "is no directory" if store.exists() else "is not there"
        raise ConfigError(f"{store} {what}", remedy="give a store: a directory of runs")
    found = store.resolve()
    walked = walk(found)
    if any(place.path == found and place.kind == "run" for place in walked.places):
        raise ConfigError(
            f"{store} is a single run",
            remedy=f"`dstest report {shell_word(store)}`, or give its store",
        )
    if not walked.places:
        raise ConfigError(
            f"{store} holds no run, session, plan or night",
            remedy="give the store of `dstest run`, which is ./store if nobody said otherwise",
        )
    return found


def _mark(folder: Path) -> tuple[int, int, int] | None:
    try:
        s = os.stat(folder)
    except OSError:
        return None
    return s.st_ino, s.st_mtime_ns, s.st_ctime_ns
