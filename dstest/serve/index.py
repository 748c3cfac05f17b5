"""All runs of a store, found and read, and kept up to date while they change.

One thread refreshes (`Index.refresh`), any other takes `Index.shown`, which is replaced as a whole.
A store is walked again when one of its folders has changed; a run is read again when one of its
small files has, and as long as it lasts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from dstest.core import clock
from dstest.core.errors import ConfigError
from dstest.core.words import shell_word
from dstest.retention.copies import Recorded, copies_among, digest_of
from dstest.retention.walk import Odd, Place, walk
from dstest.serve.cache import Cache
from dstest.serve.measures import Measures
from dstest.serve.query import choices
from dstest.serve.reading import group_of, key_of, ref_of, row_of
from dstest.serve.row import Group, Row

_EVERY_S: Final = 2.0
_REST: Final = 10
"""A look at everything is followed by a rest of so many times what it took."""

_PUBLISH_NS: Final = 1_000_000_000
_REST_S_MAX: Final = 30.0
LATE_S: Final = 60.0
"""A look that is not over, or not begun, so long after it is due is told on every page."""

_MEASURE_S: Final = 2.0
"""So long histories are read before the store is looked at again."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What is known at one time. `rows` are the newest first. `unread` runs were found and not read
    yet. `at_ns` is when the store was looked at, `problem` why it could not be since then. `places`
    are where runs, sessions, plans and nights lie, `choices` what runs can be filtered by. `copies`
    are the runs that are copies of others, and of which (`dstest.retention.copies`). `tests` are
    the runs of each test, likewise the newest first, without copies."""

    rows: Mapping[str, Row]
    groups: Sequence[Group]
    places: Mapping[str, Place]
    odd: Sequence[Odd]
    choices: Mapping[str, Sequence[tuple[str, int]]]
    copies: Mapping[str, str] = msgspec.field(default_factory=dict)
    tests: Mapping[str, Sequence[Row]] = msgspec.field(default_factory=dict)
    unread: int = 0
    at_ns: int = 0
    problem: str = ""

    @property
    def counted(self) -> list[Row]:
        """Every run once, the newest first: what shares, trends and fingerprints are of."""
        return [row for ref, row in self.rows.items() if ref not in self.copies]

    def standing(self, word: str) -> list[Row]:
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
        self._groups: dict[str, Group] = {}
        self._digests: dict[str, str] = {}
        self._folders: dict[Path, tuple[int, int, int] | None] = {}
        self._places: tuple[Place, ...] = ()
        self._runs: dict[str, Place] = {}
        self._odd: tuple[Odd, ...] = ()
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

    def _read(self, refs: Mapping[str, Place], gone: set[str], stop: Callable[[], bool]) -> None:
        fresh: list[Row] = []
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

    def _is_shown(self, refs: Mapping[str, Place]) -> bool:
        """Nothing came, went or changed, but for sessions, plans and nights, which are few."""
        groups = [place for place in self._places if place.kind != "run"]
        return (
            not groups
            and not self.shown.unread
            and self.shown.rows.keys() == refs.keys()
            and len(self.shown.places) == len(refs)
            and self.shown.odd == self._odd
        )

    def _publish(self, refs: Mapping[str, Place], unread: int) -> None:
        known = [self._rows[ref] for ref in refs if ref in self._rows]
        rows = sorted(known, key=lambda row: (row.started, row.ref), reverse=True)
        self._regroup(rows)
        copies = self._copies(rows)
        tests: dict[str, list[Row]] = {}
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

    def _copies(self, rows: Sequence[Row]) -> dict[str, str]:
        """Of the runs that may be believed, in the order of their places."""
        judged = {row.ref: row for row in rows if row.judged}
        refs = sorted(judged, key=lambda ref: (ref.count("/"), ref))

        def digest(run: Recorded) -> str:
            self._begins_to(LATE_S)
            key = judged[run.name].key
            if key not in self._digests:
                self._digests[key] = digest_of(run)
            return self._digests[key]

        return copies_among(
            (
                Recorded(name=ref, path=self.store / ref, bytes=judged[ref].recorded_bytes)
                for ref in refs
            ),
            digest,
        )

    def _regroup(self, rows: Sequence[Row]) -> None:
        found: dict[str, Group] = {}
        whole = {ref_of(self.store, p.path): p for p in self._places if p.kind != "run"}
        within: dict[str, list[Row]] = {ref: [] for ref in whole}
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
