"""The same pages as files: no server, relative links, nothing asked for from elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

from dstest.core.errors import ConfigError, HarnessError
from dstest.history.layout import way_out
from dstest.serve.files import REPORT, copies_of, files_of, open_below
from dstest.serve.pages import cell_address, neighbours, pair_address, run_address, run_folder
from dstest.serve.views import Views
from dstest.store.index import Index
from dstest.store.query import Query

_EVERY: Final = 100


def export(index: Index, to: Path, say: Callable[[str], None] = lambda text: None) -> int:
    """Write the pages of a store that was refreshed into a directory that is empty or not there;
    how many. Raises ConfigError where it is something else, or lies in the store."""
    _require_place(index.store, to)
    try:
        return _Export(index, to, say).write()
    except OSError as error:
        raise HarnessError(
            f"cannot write {error.filename or to}: {error.strerror}",
            remedy=f"{way_out(to, error)}, and export again",
        ) from None


def _require_place(store: Path, to: Path) -> None:
    if to.resolve().is_relative_to(store):
        raise ConfigError(f"{to} lies in the store", remedy="export to a place outside of it")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError(
            f"{to} is there and not an empty directory", remedy="give another, or remove it"
        )


class _Export:
    def __init__(self, index: Index, to: Path, say: Callable[[str], None]) -> None:
        self._index = index
        self._views = Views(index, static=True)
        self._to = to
        self._say = say
        self._pages = 0

    def write(self) -> int:
        rows = list(self._index.shown.rows.values())
        for number, row in enumerate(rows, start=1):
            self._run(row.ref)
            before, _ = neighbours(self._index.shown.tests.get(row.test.id, ()), row)
            if before is not None:
                address = pair_address(before.ref, row.ref)
                self._put(address, self._views.pair(before.ref, row.ref, address))
            if number % _EVERY == 0:
                self._say(f"{number:,} of {len(rows):,} runs")
        # Whose figures all are known by now.
        for cell in self._views.cells():
            address = cell_address(cell.name)
            self._put(address, self._views.cell(address))
        self._put("triage.html", self._views.triage())
        self._put("trends.html", self._views.trends())
        self._put("live.html", self._views.live())
        self._put("groups.html", self._views.groups())
        self._put("index.html", self._views.runs(Query()))
        return self._pages

    def _put(self, address: str, text: str | None) -> None:
        """Nothing where there is no such page."""
        if text is None:
            return
        self._target(address).write_bytes(text.encode("utf-8", errors="replace"))
        self._pages += 1

    def _target(self, address: str) -> Path:
        path = self._to / address
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _run(self, ref: str) -> None:
        self._put(run_address(ref), self._views.run(ref))
        place = self._index.shown.places[ref]
        row = self._views.read(place)
        for name in copies_of(files_of(place.path)):
            self._copy(f"{ref}/{name}", f"{run_folder(ref)}/{name}.txt")
        if row.reproducer:
            self._copy(row.reproducer, f"run/{row.reproducer}.txt")
        report = self._views.report(row)
        if not report.why:
            self._target(f"{run_folder(ref)}/{REPORT}").write_bytes(report.content)

    def _copy(self, path: str, address: str) -> None:
        file: IO[bytes] | None = open_below(self._index.store, path.split("/"))
        if file is None:
            return
        with file, self._target(address).open("wb") as out:
            shutil.copyfileobj(file, out)
