"""What each page shows, gathered from the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from dstest.core.fingerprint import parts_of
from dstest.report.meanings import meaning_of
from dstest.retention.verify import wrong_sums
from dstest.retention.walk import Place
from dstest.serve.charts import Dot, dots
from dstest.serve.files import Report, copied_of, files_of, report_of
from dstest.serve.index import Index, Shown
from dstest.serve.links import Site, cell_address, run_address
from dstest.serve.live import live_of
from dstest.serve.pages import Pages, figure, neighbours, stamp
from dstest.serve.pair import pair_of
from dstest.serve.query import PAGE, SORTS, Asked, found
from dstest.serve.reading import contents_shown, key_of, row_of
from dstest.serve.row import Figures, Row
from dstest.serve.trends import Cell, cells
from dstest.serve.triage import Seen, triage

_CHARTS: Final = (
    ("ok_per_s", "Operations served per second", "/s"),
    ("p50_ms", "Median latency", "ms"),
    ("p99_ms", "99th percentile of latency", "ms"),
)
_CELL_RUNS_MAX: Final = 400
"""Runs of a cell that its page shows, the newest."""


class Views:
    """Pages as text; `static` ones are for files. `base` is what stands on all of them."""

    def __init__(self, index: Index, *, static: bool) -> None:
        self.index = index
        self.pages = Pages(index.store)
        self._static = static

    @property
    def shown(self) -> Shown:
        return self.index.shown

    def _page(self, template: str, address: str, **parts: Any) -> str:
        site = Site(address, self._static)
        late = self.index.late and not self._static
        return self.pages.render(template, site, shown=self.shown, late=late, **parts)

    def runs(self, asked: Asked, unread: Mapping[str, str] | None = None) -> str:
        """The list of runs; of an export all of them. `unread` are times that cannot be read."""
        rows = self.shown.rows.values()
        every = found(rows, asked, self.index.measures.headline)
        pages = 1 if self._static else max(1, -(-len(every) // PAGE))
        page = min(asked.page, pages)
        part = every if self._static else every[(page - 1) * PAGE : page * PAGE]
        return self._page(
            "runs.html.j2",
            "index.html",
            rows=part,
            total=len(every),
            asked=msgspec.structs.replace(asked, page=page),
            page_count=pages,
            choices=self.shown.choices,
            sorts=SORTS,
            headline=self.index.measures.headline,
            unread=unread or {},
        )

    def triage(self) -> str:
        shown = self.shown.counted
        claims = [row for row in shown if row.failed and not row.judged]
        seen = triage(shown)
        said = {one.fingerprint: self._meaning(one) for one in seen}
        return self._page("triage.html.j2", "triage.html", seen=seen, claims=claims, said=said)

    def _meaning(self, one: Seen) -> str:
        """What a violation is: the headline of a run without others, or what its kind means."""
        alone = next((row for row in one.runs if len(row.fingerprints) == 1), None)
        said = "" if alone is None else self.index.measures.headline(alone)
        parts = parts_of(one.fingerprint)
        return said or f"A system {meaning_of(parts.checker, parts.kind).did}."

    def trends(self) -> str:
        return self._page("trends.html.j2", "trends.html", cells=self.cells())

    def cells(self) -> list[Cell]:
        return cells(self.shown.counted, self.index.measures.of)

    def cell(self, address: str) -> str | None:
        """None where there is no such cell."""
        rows = [r for r in self.shown.counted if cell_address(r.test.cell) == address]
        mine = cells(rows, self.index.measures.of)
        if len(mine) != 1:
            return None
        runs = mine[0].runs[-_CELL_RUNS_MAX:]
        known = [(row, self.index.measures.of(row)) for row in runs]
        charts = [(title, _chart(title, unit, name, known)) for name, title, unit in _CHARTS]
        return self._page("cell.html.j2", address, cell=mine[0], runs=known[::-1], charts=charts)

    def live(self) -> str:
        running, died = self.shown.standing("running"), self.shown.standing("died")
        return self._page("live.html.j2", "live.html", running=running, died=died)

    def groups(self) -> str:
        inside: dict[str, list[Row]] = {}
        for row in self.shown.rows.values():
            inside.setdefault(row.within, []).append(row)
        return self._page("groups.html.j2", "groups.html", inside=inside)

    def run(self, ref: str, *, hashed: bool = False) -> str | None:
        """The page of a run, which is read anew; `hashed`: every file against its sum. None where
        there is no such run."""
        place = self.shown.places.get(ref)
        if place is None or place.kind != "run" or not place.path.is_dir():
            return None
        row = self.read(place)
        there = files_of(place.path)
        before, after = neighbours(self.shown.tests.get(row.test.id, ()), row)
        return self._page(
            "run.html.j2",
            run_address(ref),
            row=row,
            rows=contents_shown(place.path),
            figures=self._figures(row),
            headline=self.index.measures.headline(row),
            no_report=self.report(row).why,
            copy_of=self.shown.copies.get(ref, ""),
            files=there,
            copied=copied_of(there),
            wrong=wrong_sums(place.path) if hashed else "",
            hashed=hashed,
            live=None if row.judged else live_of(place),
            before=before,
            after=after,
        )

    def report(self, row: Row) -> Report:
        """The report of a run that was read just now, and that it stands by."""
        if not row.judged:
            return Report(why=f"the run is {row.standing}: {row.why}")
        return report_of(self.index.store, row.ref)

    def read(self, place: Place) -> Row:
        """A run as its files are now."""
        return row_of(self.index.store, place, key_of(place))

    def _figures(self, row: Row) -> Figures | None:
        if not row.judged:
            return None
        measures = self.index.measures
        return measures.now(row) if self._static else measures.soon(row)

    def pair(self, left: str, right: str, address: str = "pair.html") -> str | None:
        """None where one of them is not there."""
        sides = []
        for ref in (left, right):
            place = self.shown.places.get(ref)
            if place is None or place.kind != "run" or not place.path.is_dir():
                return None
            sides.append((self.read(place), place))
        pair = pair_of(sides[0], sides[1], self.index.measures.now)
        headline = self.index.measures.headline
        return self._page("pair.html.j2", address, p=pair, headline=headline)

    def error(self, address: str, title: str, text: str) -> str:
        return self._page("error.html.j2", address, title=title, text=text)


def _chart(title: str, unit: str, metric: str, known: Sequence[tuple[Row, Figures | None]]) -> str:
    points = []
    for row, figures in known:
        there = None if figures is None else getattr(figures, metric)
        if there is None or there == float("inf"):
            continue
        told = f"{stamp(row.started)}: {figure(there)} {unit}, {row.word}"
        points.append(Dot(there, row.tone, told))
    return dots(title, unit, points)
