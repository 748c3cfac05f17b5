"""What each page shows, gathered from the index: runs, charts over them, two of them side by side,
and the same violation over runs, a row for each fingerprint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import msgspec

from dstest.core.fingerprint import parts_of
from dstest.core.rates import Rate, interval
from dstest.core.summary import Figures
from dstest.report.meanings import meaning_of
from dstest.runner.integrity import RunStatement
from dstest.serve.files import Report, copies_of, files_of, report_of
from dstest.serve.live import live_of
from dstest.serve.pages import Pages, Site, cell_address, figure, neighbours, run_address, stamp
from dstest.store.compare.intervals import RUNS_MIN
from dstest.store.compare.measured import METRICS, MORE_IS_BETTER, RunResult, metric_words, unfair
from dstest.store.index import Index, Shown
from dstest.store.inventory import StorePlace
from dstest.store.query import PAGE, SORTS, Cell, Query, cells, select
from dstest.store.rows import RunRow, contents_shown, glance, key_of, row_of
from dstest.store.verify import Recording, digest_of, operation_bytes, wrong_sums

WIDTH, HEIGHT = 900, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 10, 12, 22
_STEPS: Final = 4

_OWN: Final = ("status", "started", "load s")
"""Rows that differ between any two runs, and mean nothing by it."""

_OUTCOME: Final = ("verdict", "rule", "reason", "operations", "budget", "audit short")

_CHARTS: Final = (
    ("ok_per_s", "Operations served per second", "/s"),
    ("p50_ms", "Median latency", "ms"),
    ("p99_ms", "99th percentile of latency", "ms"),
)
_CELL_RUNS_MAX: Final = 400
"""Runs of a cell that its page shows, the newest."""


class Dot(NamedTuple):
    """A run: its value, its tone, what it is called."""

    value: float
    tone: str
    title: str


def dots(title: str, unit: str, found: Sequence[Dot]) -> str:
    """The runs from left to right, evenly spaced; empty where there are none.

    A small chart, as SVG that takes the page's colours; its numbers stand in a table beside it.
    """
    if not found:
        return ""
    top = _round_up(max(dot.value for dot in found))
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    step = wide / max(1, len(found))
    label = quoteattr(f"{title}, {len(found)} runs")
    rows = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" class="dots" aria-label={label}>']
    for k in range(_STEPS + 1):
        y = _TOP + high * (1 - k / _STEPS)
        rows.append(
            f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        label = f"{top * k / _STEPS:,.4g} {unit}"
        rows.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    radius = max(1.2, min(4.5, step / 2.2))
    for number, dot in enumerate(found):
        x = _LEFT + step * (number + 0.5)
        y = _TOP + high * (1 - dot.value / top)
        rows.append(
            f'<circle class="{dot.tone}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
            f"<title>{escape(dot.title)}</title></circle>"
        )
    rows.append(f'<text x="{_LEFT}" y="{HEIGHT - 5}">older</text>')
    rows.append(f'<text x="{WIDTH - _RIGHT}" y="{HEIGHT - 5}" text-anchor="end">newer</text></svg>')
    return "".join(rows)


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    if not (value > 0 and math.isfinite(value)):
        return 1.0
    scale = 10.0 ** math.floor(math.log10(value))
    return next(scale * k for k in (1, 2, 2.5, 5, 10) if scale * k >= value * (1 - 1e-12))


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of both, `words` say which; `ratio` is right to left, None where there is none.
    `why` says of which side there is no value, and why."""

    metric: str
    words: str
    why: str
    left: float | None
    right: float | None
    ratio: float | None
    better: str


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """`settings` are those that differ, as (name, left, right), `same` the names of those that do
    not; `outcome` and `faults` are shown whether they differ or not. `unfair` are sentences why
    numbers of these two say nothing about what was compared; empty where they may be compared."""

    left: RunRow
    right: RunRow
    settings: list[tuple[str, Any, Any]]
    same: list[str]
    outcome: list[tuple[str, Any, Any]]
    faults: list[tuple[str, Any, Any]]
    anomalies: tuple[list[str], list[str], list[str]]
    measures: list[Measure]
    why_not: list[str]
    unfair: list[str]
    runs_needed: int = RUNS_MIN


def pair_of(
    left: tuple[RunRow, StorePlace],
    right: tuple[RunRow, StorePlace],
    now: Callable[[RunRow], Figures],
) -> Pair:
    """Never raises for what lies in the directories."""
    (a, at_a), (b, at_b) = left, right
    rows = (contents_shown(at_a.path), contents_shown(at_b.path))
    names = list(dict.fromkeys([*rows[0], *rows[1]]))
    shown = [(name, rows[0].get(name), rows[1].get(name)) for name in names]
    settings = [row for row in shown if not _is_outcome(row[0]) and row[0] not in _OWN]
    figures = (now(a), now(b))
    return Pair(
        left=a,
        right=b,
        settings=[row for row in settings if row[1] != row[2]],
        same=[name for name, one, other in settings if one == other],
        outcome=[row for row in shown if _is_outcome(row[0])],
        faults=_faults(at_a, at_b),
        anomalies=_anomalies(a, b),
        measures=_measures(*figures),
        why_not=[
            f"{row.ref}: {one.why}" for row, one in zip((a, b), figures, strict=True) if one.why
        ],
        unfair=_unfair((a, at_a), (b, at_b)),
    )


def _is_outcome(name: str) -> bool:
    return name in _OUTCOME or name.startswith(("checker ", "faults "))


def _anomalies(a: RunRow, b: RunRow) -> tuple[list[str], list[str], list[str]]:
    """By fingerprint: in both, in the left one alone, in the right one alone."""
    mine, theirs = set(a.fingerprints), set(b.fingerprints)
    return sorted(mine & theirs), sorted(mine - theirs), sorted(theirs - mine)


def _faults(left: StorePlace, right: StorePlace) -> list[tuple[str, Any, Any]]:
    """(fault, how it went on the left, on the right), by the order of their ids."""
    sides = [_landed(place) for place in (left, right)]
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [(name, sides[0].get(name), sides[1].get(name)) for name in names]


def _landed(place: StorePlace) -> dict[str, str]:
    told = glance(place).told
    if told is None:
        return {}
    return {
        fault.id: f"{fault.nemesis}: landed {fault.landed}, heal "
        f"{'proven' if fault.heal_verified else 'not proven'}"
        for fault in told.verdict.evidence.faults
    }


def _measures(left: Figures, right: Figures) -> list[Measure]:
    rows = []
    for metric in METRICS:
        one, other = left.of(metric), right.of(metric)
        rows.append(
            Measure(
                metric=metric,
                words=metric_words(metric),
                why=_no_value(metric, left, right),
                left=one,
                right=other,
                ratio=_ratio(one, other),
                better="more" if metric in MORE_IS_BETTER else "less",
            )
        )
    return rows


def _no_value(metric: str, left: Figures, right: Figures) -> str:
    sides = {side: one.whys.get(metric) for side, one in (("left", left), ("right", right))}
    if sides["left"] and sides["left"] == sides["right"]:
        return sides["left"]
    return "; ".join(f"{side}: {why}" for side, why in sides.items() if why)


def _ratio(one: float | None, other: float | None) -> float | None:
    if not one or other is None or not (math.isfinite(one) and math.isfinite(other)):
        return None
    return other / one


def _unfair(left: tuple[RunRow, StorePlace], right: tuple[RunRow, StorePlace]) -> list[str]:
    """As `dstest compare` would say it, but for what it finds by judging both again."""
    told = [glance(place) for _, place in (left, right)]
    odd = [
        f"{row.ref} is {look.standing}: {look.why}"
        for (row, _), look in zip((left, right), told, strict=True)
        if look.told is None
    ]
    if odd:
        return odd
    sides: list[tuple[str, Sequence[RunResult]]] = [
        (name, [_met(row, place, look.told)])
        for name, (row, place), look in zip(("left", "right"), (left, right), told, strict=True)
        if look.told is not None
    ]
    return unfair(sides, ())


def _met(row: RunRow, place: StorePlace, told: RunStatement) -> RunResult:
    return RunResult(
        path=Path(row.ref),
        meta=told.meta,
        verdict=told.verdict,
        digest=_digest(row.ref, place.path),
    )


def _digest(ref: str, run: Path) -> str:
    """Of what was recorded; where there is nothing one of its own."""
    return digest_of(Recording(name=ref, path=run, bytes=operation_bytes(run))) or ref


class SeenViolation(msgspec.Struct, frozen=True, kw_only=True):
    """A violation that was seen in `runs`, the newest first. `rate` is in how many of all judged
    runs of the tests that showed it: the same settings, but for seed and build. `seeds` are those
    that showed it. Runs that are damaged are in none of it: nobody can say what they found.
    `reproducer` is the path of the script of `reproduced_for`, the newest one that was made
    smaller, which may have been made smaller for another violation."""

    fingerprint: str
    runs: list[RunRow]
    rate: Rate
    tests: int
    systems: list[str]
    workloads: list[str]
    nemeses: list[str]
    seeds: list[str]
    reproducer: str
    reproduced_for: str

    @property
    def first(self) -> RunRow:
        return self.runs[-1]

    @property
    def last(self) -> RunRow:
        return self.runs[0]


def triage(rows: Iterable[RunRow]) -> list[SeenViolation]:
    """The last seen first."""
    judged = [row for row in rows if row.judged]
    by_test: dict[str, int] = {}
    found: dict[str, list[RunRow]] = {}
    for row in judged:
        by_test[row.test.id] = by_test.get(row.test.id, 0) + 1
        for name in row.fingerprints:
            found.setdefault(name, []).append(row)
    seen = [_violation(name, having, by_test) for name, having in found.items()]
    return sorted(seen, key=lambda one: (one.last.started, one.fingerprint), reverse=True)


def _violation(name: str, having: Sequence[RunRow], by_test: dict[str, int]) -> SeenViolation:
    runs = sorted(having, key=lambda row: (row.started, row.ref), reverse=True)
    tests = {row.test.id for row in runs}
    smaller = next((row for row in runs if row.reproducer), None)
    return SeenViolation(
        fingerprint=name,
        runs=runs,
        rate=interval(len(runs), sum(by_test[test] for test in tests)),
        tests=len(tests),
        systems=_distinct(row.test.system for row in runs),
        workloads=_distinct(row.test.workload for row in runs),
        nemeses=_distinct(row.test.nemesis for row in runs),
        seeds=_distinct(row.test.seed_text for row in runs),
        reproducer="" if smaller is None else smaller.reproducer,
        reproduced_for="" if smaller is None else smaller.ref,
    )


def _distinct(values: Iterable[str]) -> list[str]:
    return sorted({value for value in values if value})


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

    def runs(self, asked: Query, unread: Mapping[str, str] | None = None) -> str:
        """The list of runs; of an export all of them. `unread` are times that cannot be read."""
        rows = self.shown.rows.values()
        every = select(rows, asked)
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
            unread=unread or {},
        )

    def triage(self) -> str:
        shown = self.shown.counted
        claims = [row for row in shown if row.failed and not row.judged]
        seen = triage(shown)
        said = {one.fingerprint: self._meaning(one) for one in seen}
        return self._page("triage.html.j2", "triage.html", seen=seen, claims=claims, said=said)

    def _meaning(self, one: SeenViolation) -> str:
        """What a violation is: the headline of a run without others, or what its kind means."""
        alone = next((row for row in one.runs if len(row.fingerprints) == 1), None)
        said = "" if alone is None else alone.headline
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
        inside: dict[str, list[RunRow]] = {}
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
            headline=row.headline,
            no_report=self.report(row).why,
            copy_of=self.shown.copies.get(ref, ""),
            files=there,
            copied=copies_of(there),
            wrong=wrong_sums(place.path) if hashed else "",
            hashed=hashed,
            live=None if row.judged else live_of(place),
            before=before,
            after=after,
        )

    def report(self, row: RunRow) -> Report:
        """The report of a run that was read just now, and that it stands by."""
        if not row.judged:
            return Report(why=f"the run is {row.standing}: {row.why}")
        return report_of(self.index.store, row.ref)

    def read(self, place: StorePlace) -> RunRow:
        """A run as its files are now."""
        return row_of(self.index.store, place, key_of(place))

    def _figures(self, row: RunRow) -> Figures | None:
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
        return self._page("pair.html.j2", address, p=pair)

    def error(self, address: str, title: str, text: str) -> str:
        return self._page("error.html.j2", address, title=title, text=text)


def _chart(
    title: str, unit: str, metric: str, known: Sequence[tuple[RunRow, Figures | None]]
) -> str:
    points = []
    for row, figures in known:
        there = None if figures is None else figures.of(metric)
        if there is None or there == float("inf"):
            continue
        told = f"{stamp(row.started)}: {figure(there)} {unit}, {row.told}"
        points.append(Dot(there, row.tone, told))
    return dots(title, unit, points)
