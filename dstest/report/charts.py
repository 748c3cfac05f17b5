"""The charts of the report page, all on one time axis: faults, outages, by type of operation the
rate by outcome and quantiles of latency, and chosen series of what the nodes sampled.

One scale, the same margins, fault windows (bands, with their names in rows above them that never
overlap) and changes of the lead stand at the same places in each. Lines differ by their stroke as
well as by colour; colours are classes of the page's style sheet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import east_asian_width

import msgspec

from dstest.core.evidence import LandingRecord
from dstest.core.history import FaultWindow
from dstest.core.op import Op, Outcome
from dstest.core.words import printable_line
from dstest.debug.monitor.client import NODES, read_rows, series_of
from dstest.debug.monitor.settings import mean, quantity
from dstest.report.logs import LeaderChange
from dstest.report.model import RunReport
from dstest.report.numbers import number, quantile_ms, seconds
from dstest.report.service import Stretch

LANES_MAX: Final = 3
LANE: Final = 13
"""Height of a row of names."""

BANDS_MAX: Final = 120
"""Bands that are drawn; of more none could be told from the next."""

_CHAR: Final = 7.0
_WIDE: Final = 13.0
"""Width of a character, as wide as it is in any usual font."""

_GAP: Final = 6.0
_PAD: Final = 4.0
"""Between the edge of a window and its name."""

_NAME_MAX: Final = 40

WIDTH: Final = 1000
LEFT: Final = 56

RIGHT: Final = 150
"""Room for the names of lines, which stand beside their ends."""

_STEPS: Final = (1, 2, 5)

TYPES_MAX: Final = 6
"""Types of operation with charts of their own, the most frequent ones."""

_HEIGHT: Final = 104
_TOP: Final = 8
BINS: Final = 200
_BINS_LEAST: Final = 50
_PER_BIN: Final = 20
_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
_LANE: Final = 20

CHOSEN: Final = (
    ("rss", "memory of the servers (RSS)", "B"),
    ("cpu", "CPU of the servers, of all CPUs of the node", "%"),
    ("queue", "what waits in the servers (queue)", "1"),
)
"""Name, words and unit of the series that are drawn, where they were sampled."""

NODES_MAX: Final = 5
"""Nodes with a line each; of more, those with the highest values."""

_PANEL_HEIGHT: Final = 84

_NAMES: Final = frozenset(name for name, _, _ in CHOSEN)

SHOWN: Final = (
    "rss",
    "cpu",
    "fds",
    "connections",
    "queue",
    "fsync",
    "written",
    "net_sent",
    "disk_free",
)
"""Series, in this order, where they were sampled."""

AROUND_NS: Final = 15_000_000_000
"""So long before its injection and after its heal."""

Rows = list[tuple[str, str, str, str]]


class _Band(NamedTuple):
    start: float
    end: float
    name: str


class _Name(NamedTuple):
    x: float
    lane: int
    text: str


class Bands(NamedTuple):
    """Windows that overlap the time that is drawn. `names` are those for which there is room,
    `others` counts the rest."""

    bands: list[_Band]
    names: list[_Name]
    others: int

    @property
    def lanes(self) -> int:
        """Rows of names."""
        return max((name.lane + 1 for name in self.names), default=1)

    def svg(self, bottom: float, left: float) -> list[str]:
        """Bands down to `bottom`; how many have no name stands left of `left`."""
        parts = [
            f'<rect x="{band.start:.1f}" y="0" width="{max(2.0, band.end - band.start):.1f}" '
            f'height="{bottom:g}" fill="#888888" fill-opacity="0.18">'
            f"<title>{escape(band.name)}</title></rect>"
            for band in self.bands
        ]
        parts += [
            f'<text x="{name.x:.1f}" y="{11 + name.lane * LANE}" font-size="11" '
            f'fill="currentColor">{escape(name.text)}</text>'
            for name in self.names
        ]
        if self.others:
            windows = "fault window" if self.others == 1 else "fault windows"
            which = f"and {self.others:,} other" if self.names else f"{self.others:,}"
            parts.append(
                f'<text x="{left:g}" y="11" font-size="11" text-anchor="end" '
                f'fill="currentColor">{which} {windows}</text>'
            )
        return parts


def _width(text: str) -> float:
    return sum(_WIDE if east_asian_width(char) in "WF" else _CHAR for char in text)


def _placed(bands: Sequence[_Band], right: float) -> list[_Name]:
    """Each name in the first row that has room where its band begins."""
    ends = [float("-inf")] * LANES_MAX
    names = []
    for band in bands:
        width = _width(band.name)
        x = min(band.start + 3, right - width)
        lane = next((n for n, end in enumerate(ends) if x >= end + _GAP), None)
        if lane is not None:
            ends[lane] = x + width
            names.append(_Name(x, lane, band.name))
    return names


def bands_of(
    faults: Sequence[FaultWindow],
    first_ns: int,
    last_ns: int,
    x: Callable[[int], float],
) -> Bands:
    """The windows that overlap the time from `first_ns` to `last_ns`, where `x` draws it."""
    found = []
    for fault in faults:
        if not fault.stands(first_ns, last_ns):
            continue
        name = printable_line(f"{fault.id} {fault.nemesis}")
        name = name if len(name) <= _NAME_MAX else name[: _NAME_MAX - 1] + "…"
        end = last_ns if fault.healed_ns is None else min(last_ns, fault.healed_ns)
        found.append(_Band(x(max(first_ns, fault.start_ns)), x(end), name))
    found.sort(key=lambda band: (band.start, -band.end))
    names = _placed(found[:BANDS_MAX], x(last_ns))
    return Bands(found[:BANDS_MAX], names, len(found) - len(names))


def svg_text(text: str) -> str:
    """Text of anybody's making as it may stand in a drawing."""
    return escape(printable_line(text))


def nice_step(span: float, parts: int) -> float:
    """1, 2 or 5 times a power of ten, so that `span` has about so many of them."""
    raw = max(span, 1e-9) / max(1, parts)
    power: float = 10.0 ** math.floor(math.log10(raw))
    return next((k * power for k in _STEPS if k * power >= raw), 10 * power)


def ticks(low: float, high: float, parts: int) -> list[float]:
    """Round numbers from `low` to `high`."""
    step = nice_step(high - low, parts)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


class Axis(NamedTuple):
    """Run time from `start_ns` to `end_ns` over the width of a chart, with what stands behind every
    chart."""

    start_ns: int
    end_ns: int
    faults: Sequence[FaultWindow] = ()
    leaders: Sequence[LeaderChange] = ()

    def x(self, time_ns: float) -> float:
        """Where an instant is drawn; what lies outside, at the edge."""
        share = (time_ns - self.start_ns) / max(1, self.end_ns - self.start_ns)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, share))

    def window(self, fault: FaultWindow) -> tuple[float, float]:
        """From where to where a fault is drawn."""
        end = self.end_ns if fault.healed_ns is None else fault.healed_ns
        return self.x(fault.start_ns), max(self.x(fault.start_ns) + 1, self.x(end))

    def behind(self, top: float, bottom: float) -> str:
        """Fault windows as bands, and changes of the lead as lines."""
        parts = []
        for fault in list(self.faults)[:BANDS_MAX]:
            left, right = self.window(fault)
            kind = "band" if fault.landed == "yes" else "band unproven"
            parts.append(
                f'<rect class="{kind}" x="{left:.1f}" y="{top:g}" '
                f'width="{right - left:.1f}" height="{bottom - top:g}"/>'
            )
        for change in list(self.leaders)[:BANDS_MAX]:
            x = self.x(change.time_ns)
            parts.append(
                f'<line class="lead" x1="{x:.1f}" x2="{x:.1f}" y1="{top:g}" y2="{bottom:g}"/>'
            )
        return "".join(parts)

    def scale(self, y: float, name: str = "s since the load began") -> str:
        """Seconds below the last chart."""
        low, high = self.start_ns / 1e9, self.end_ns / 1e9
        parts = []
        for value in ticks(low, high, 10):
            x = self.x(value * 1e9)
            parts.append(
                f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{y:g}" y2="{y + 4:g}"/>'
                f'<text class="num" x="{x:.1f}" y="{y + 16:g}" text-anchor="middle">'
                f"{value:g}</text>"
            )
        x = WIDTH - RIGHT + 10
        parts.append(f'<text class="name" x="{x}" y="{y + 16:g}">{name}</text>')
        return "".join(parts)


def framed(height: float, label: str, parts: Iterable[str]) -> str:
    """An SVG of the common width with what it shows in words."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{svg_text(label)}">{"".join(parts)}</svg>'
    )


class Chart(NamedTuple):
    """A drawing with its heading; `closer` where it is for a second look."""

    title: str
    svg: str
    closer: bool = False


def axis_of(report: RunReport, leaders: Sequence[LeaderChange] = ()) -> Axis:
    """From the first operation, or the start of the run, to the end of the load, the last answer or
    the last heal."""
    ops = report.history.ops
    ends = [op.complete_ts or op.invoke_ts for op in ops]
    ends += [f.start_ns if f.healed_ns is None else f.healed_ns for f in report.windows]
    ends += [report.load_end_ns] if report.load_end_ns is not None else []
    end = max(ends, default=1_000_000_000)
    start = min([0, *(op.invoke_ts for op in ops[:1])])
    return Axis(start, max(end, start + 1), report.windows, list(leaders))


class _Lane(NamedTuple):
    """Where a window lies, and the name for which there is room before the next one."""

    lane: int
    at: int
    name: str


def _said(fault: FaultWindow) -> str:
    proof = "" if fault.landed == "yes" else f", landed: {fault.landed}"
    return f"{fault.id} {fault.nemesis}{proof}"


def _lanes(axis: Axis) -> list[_Lane]:
    """Such that windows of one lane do not overlap, and each has room for its id at least."""
    lanes: list[list[int]] = []
    free: list[float] = []
    for at, fault in enumerate(axis.faults):
        start, end = axis.window(fault)
        lane = next((n for n, x in enumerate(free) if x <= start), len(free))
        if lane == len(free):
            free.append(0.0)
            lanes.append([])
        free[lane] = max(end, start + _PAD + _width(fault.id) + _GAP)
        lanes[lane].append(at)
    found = []
    for lane, row in enumerate(lanes):
        ends = [*(axis.window(axis.faults[at])[0] for at in row[1:]), float(WIDTH - RIGHT)]
        for at, end in zip(row, ends, strict=True):
            fault = axis.faults[at]
            room = end - axis.window(fault)[0] - _PAD
            names = (_said(fault), f"{fault.id} {fault.nemesis}", fault.id)
            name = next((name for name in names if _width(name) + _GAP <= room), fault.id)
            found.append(_Lane(lane, at, name))
    return sorted(found, key=lambda row: row.at)


def _faults_chart(axis: Axis, outages: Sequence[Stretch]) -> Chart:
    """What was done to the system, who led, and when nothing was served."""
    rows = _lanes(axis)
    lanes = max((row.lane for row in rows), default=-1) + 1
    parts = []
    for lane, at, name in rows:
        fault = axis.faults[at]
        window = axis.window(fault)
        y = _TOP + lane * _LANE
        kind = "window" if fault.landed == "yes" else "window unproven"
        words = _said(fault)
        parts.append(
            f'<rect class="{kind}" x="{window[0]:.1f}" y="{y}" '
            f'width="{window[1] - window[0]:.1f}" height="{_LANE - 4}"><title>{svg_text(words)}: '
            f"{seconds(fault.start_ns)} s to {seconds(fault.healed_ns)} s on "
            f"{svg_text(fault.targets)}</title></rect>"
            f'<text class="on" x="{window[0] + _PAD:.1f}" y="{y + 12}">{svg_text(name)}</text>'
        )
    y = _TOP + lanes * _LANE
    if axis.leaders:
        for change in axis.leaders:
            x = axis.x(change.time_ns)
            parts.append(
                f'<path class="leadmark" d="M{x:.1f} {y + 2}l4 6h-8z"/>'
                f'<text class="small" x="{x + 6:.1f}" y="{y + 10}">{svg_text(change.said)}</text>'
            )
        parts.append(_name(y + 10, "lead had changed"))
        y += _LANE
    whole = [row for row in outages if row.whole]
    for row in whole:
        a, b = axis.x(row.start_ns), axis.x(row.end_ns)
        parts.append(
            f'<rect class="outage" x="{a:.1f}" y="{y}" width="{max(2.0, b - a):.1f}" '
            f'height="{_LANE - 6}"><title>{svg_text(row.said)}</title></rect>'
        )
    if whole:
        parts.append(_name(y + 11, "no success at all"))
        y += _LANE
    if lanes:
        parts.append(_name(_TOP + 12, "fault windows"))
    height = max(y, _TOP + _LANE) + 4
    label = (
        f"{len(rows)} fault windows, {len(axis.leaders)} changes of the lead, {len(whole)} outages"
    )
    drawn = [axis.behind(_TOP, height), *parts]
    if not rows and not whole and not axis.leaders:
        drawn.append(f'<text class="name" x="{LEFT}" y="{_TOP + 12}">no fault, no outage</text>')
    return Chart("Faults and outages", framed(height, label, drawn))


def _name(y: float, text: str, kind: str = "name") -> str:
    return f'<text class="{kind}" x="{WIDTH - RIGHT + 10}" y="{y:g}">{svg_text(text)}</text>'


def _bin_ns(axis: Axis, most: int) -> int:
    """A round number such that the most frequent of the types has some operations in each part."""
    parts = min(BINS, max(_BINS_LEAST, most // _PER_BIN))
    return max(1, int(nice_step((axis.end_ns - axis.start_ns) / 1e9, parts) * 1e9))


def _y_grid(values: Sequence[float], y_of: Sequence[float], texts: Sequence[str]) -> str:
    return "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text class="num" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        for _, y, text in zip(values, y_of, texts, strict=True)
    )


def _stairs(axis: Axis, heights: Sequence[float | None], bin_ns: int) -> str:
    """A line of steps; None leaves a gap."""
    words: list[str] = []
    pen = False
    for at, y in enumerate(heights):
        if y is None:
            pen = False
            continue
        a, b = axis.x(axis.start_ns + at * bin_ns), axis.x(axis.start_ns + (at + 1) * bin_ns)
        words.append(f"V{y:.1f}H{b:.1f}" if pen else f"M{a:.1f} {y:.1f}H{b:.1f}")
        pen = True
    return "".join(words)


def _legend(rows: Sequence[tuple[str, str]]) -> str:
    """Names of lines beside their strokes: (class, words)."""
    x = WIDTH - RIGHT + 10
    return "".join(
        f'<path class="{kind}" d="M{x} {_TOP + 9 + n * 17}h22"/>'
        f'<text class="name" x="{x + 28}" y="{_TOP + 13 + n * 17}">{svg_text(words)}</text>'
        for n, (kind, words) in enumerate(rows)
    )


def _rate(axis: Axis, name: str, ops: Sequence[Op], bin_ns: int, foot: str) -> Chart:
    bins = (axis.end_ns - axis.start_ns) // bin_ns + 1
    counts = {outcome: [0] * bins for outcome in Outcome}
    totals: Counter[Outcome] = Counter()
    for op in ops:
        counts[op.outcome][(op.invoke_ts - axis.start_ns) // bin_ns] += 1
        totals[op.outcome] += 1
    per_s = 1e9 / bin_ns
    top = max(1e-9, *(max(row) for row in counts.values())) * per_s
    values = ticks(0, top, 3)
    top = max(top, values[-1]) * 1.04
    bottom = _TOP + _HEIGHT - 20

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / top

    lines = [
        f'<path class="{outcome.value}" d="{_stairs(axis, [y(n * per_s) for n in row], bin_ns)}"/>'
        for outcome, row in counts.items()
        if totals[outcome]
    ]
    words = {Outcome.OK: "ok", Outcome.FAIL: "failed", Outcome.UNKNOWN: "unknown"}
    legend = [(o.value, f"{words[o]} {totals[o]:,}") for o in Outcome]
    grid = _y_grid(values, [y(v) for v in values], [f"{v:g}" for v in values])
    height = bottom + (22 if foot else 4)
    said_as = ", ".join(text for _, text in legend)
    drawn = [axis.behind(_TOP, bottom), grid, *lines, _legend(legend), foot and axis.scale(bottom)]
    label = f"{name}: operations per second over time by outcome; in all {said_as}"
    return Chart(f"{name}: operations per second", framed(height, label, drawn), True)


def _latency(axis: Axis, name: str, ops: Sequence[Op], bin_ns: int, foot: str) -> Chart:
    bins: list[list[int]] = [[] for _ in range((axis.end_ns - axis.start_ns) // bin_ns + 1)]
    every: list[int] = []
    for op in ops:
        if op.outcome is Outcome.OK and op.complete_ts is not None:
            bins[(op.invoke_ts - axis.start_ns) // bin_ns].append(op.complete_ts - op.invoke_ts)
            every.append(op.complete_ts - op.invoke_ts)
    title = f"{name}: latency of those that succeeded, ms"
    if not every:
        text = f'<text class="name" x="{LEFT}" y="{_TOP + 12}">none succeeded</text>'
        return Chart(title, framed(_TOP + _LANE, f"{name}: none succeeded", [text]), True)
    for row in bins:
        row.sort()
    every.sort()
    low, high = max(1e-3, every[0] / 1e6), max(2e-3, every[-1] / 1e6)
    low_e, high_e = math.floor(math.log10(low)), math.ceil(math.log10(high * 1.001))
    bottom = _TOP + _HEIGHT - 20

    def y(ms: float) -> float:
        share = (math.log10(max(ms, 1e-3)) - low_e) / max(1, high_e - low_e)
        return bottom - (bottom - _TOP) * min(1.0, max(0.0, share))

    lines = [
        f'<path class="{kind}" d="'
        + _stairs(
            axis, [None if (ms := quantile_ms(row, q)) is None else y(ms) for row in bins], bin_ns
        )
        + '"/>'
        for kind, q in _QUANTILES
    ]
    legend = [(kind, f"{kind} {number(quantile_ms(every, q))} ms") for kind, q in _QUANTILES]
    values = [10.0**e for e in range(low_e, high_e + 1)]
    grid = _y_grid(values, [y(v) for v in values], [f"{v:g}" for v in values])
    height = bottom + (22 if foot else 4)
    label = f"{name}: latency over time; of the whole run " + ", ".join(text for _, text in legend)
    drawn = [axis.behind(_TOP, bottom), grid, *lines, _legend(legend), foot and axis.scale(bottom)]
    return Chart(title, framed(height, label, drawn), True)


def charts(report: RunReport, axis: Axis, outages: Sequence[Stretch]) -> tuple[list[Chart], str]:
    """All charts from top to bottom, and what they leave out."""
    drawn = [_faults_chart(axis, outages)]
    groups: dict[str, list[Op]] = {}
    for op in report.history.ops:
        groups.setdefault(op.op_type, []).append(op)
    names = sorted(groups, key=lambda name: (-len(groups[name]), name))
    bin_ns = _bin_ns(axis, max((len(group) for group in groups.values()), default=0))
    for draw in (_rate, _latency):
        drawn += [draw(axis, name, groups[name], bin_ns, "seconds") for name in names[:TYPES_MAX]]
    left = names[TYPES_MAX:]
    told = f"Without charts of their own: {', '.join(left)}." if left else ""
    return drawn, told


class SeriesChart(msgspec.Struct, frozen=True, kw_only=True):
    """A drawing with its heading."""

    title: str
    svg: str


def series_charts(run: Path, axis: Axis) -> list[SeriesChart]:
    """One per chosen series that was sampled; none of a run without samples."""
    if not (run / NODES).is_file():
        return []
    series = series_of(row for row in read_rows(run / NODES) if row.name in _NAMES)
    found = []
    for name, words, unit in CHOSEN:
        own = {node: points for (node, other), points in series.items() if other == name and node}
        if own:
            found.append(_drawn(axis, words, unit, own))
    return found


def _drawn(
    axis: Axis, words: str, unit: str, own: Mapping[str, Sequence[tuple[int, float]]]
) -> SeriesChart:
    top = max(1e-9, *(value for points in own.values() for _, value in points))
    grid = ticks(0, top, 3)
    top = max(top, grid[-1]) * 1.04
    bottom = _TOP + _PANEL_HEIGHT - 20
    most = {node: max(value for _, value in points) for node, points in own.items()}
    shown = sorted(sorted(own, key=lambda node: -most[node])[:NODES_MAX])

    def y(value: float) -> float:
        return bottom - (bottom - _TOP) * value / top

    parts = [axis.behind(_TOP, bottom)]
    parts += [
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>'
        f'<text class="num" x="{LEFT - 6}" y="{y(v) + 4:.1f}" text-anchor="end">'
        f"{svg_text(quantity(v, unit))}</text>"
        for v in grid
    ]
    x = WIDTH - RIGHT + 10
    for at, node in enumerate(shown):
        path = _line(axis, own[node], y)
        parts.append(f'<path class="s{at}" d="{path}"/>')
        line = _TOP + 6 + at * 14
        text = f"{node} {quantity(most[node], unit)} at most"
        parts.append(
            f'<path class="s{at}" d="M{x} {line}h22"/>'
            f'<text class="small" x="{x + 28}" y="{line + 4}">{svg_text(text)}</text>'
        )
    label = f"{words} over time; " + ", ".join(
        f"{node} {quantity(most[node], unit)} at most" for node in shown
    )
    left = len(own) - len(shown)
    title = f"{words}{f'; {left} nodes with less are not drawn' if left else ''}"
    return SeriesChart(title=title, svg=framed(bottom + 4, label, parts))


def _line(axis: Axis, points: Sequence[tuple[int, float]], y: Callable[[float], float]) -> str:
    """The highest value of each part of the axis; a gap where nothing was sampled for long."""
    width_ns = max(1, (axis.end_ns - axis.start_ns) // BINS)
    bins: dict[int, float] = {}
    for time_ns, value in points:
        if axis.start_ns <= time_ns <= axis.end_ns:
            at = (time_ns - axis.start_ns) // width_ns
            bins[at] = max(bins.get(at, value), value)
    gap_ns = 10 * max(width_ns, 1_000_000_000)
    words, before = [], None
    for at in sorted(bins):
        time_ns = axis.start_ns + at * width_ns
        pen = "L" if before is not None and time_ns - before <= gap_ns else "M"
        words.append(f"{pen}{axis.x(time_ns):.1f} {y(bins[at]):.1f}")
        before = time_ns
    return "".join(words)


def fault_samples(run: Path, records: Sequence[LandingRecord]) -> dict[str, Rows]:
    """By fault rows of (node and series, before, during, after), means ready to print, of the nodes
    that it is aimed at. Nothing of a run that was not sampled.

    They stand beside what proves a fault: they prove nothing by themselves, and no fault is
    believed or doubted for them.
    """
    wanted = set(SHOWN)
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    units: dict[str, str] = {}
    for row in read_rows(run / NODES):
        if row.name in wanted:
            series.setdefault((row.node, row.name), []).append((row.time_ns, row.value))
            units[row.name] = row.unit
    found = {record.fault_id: _of(record, series, units) for record in records}
    return {name: rows for name, rows in found.items() if rows}


def _of(
    record: LandingRecord,
    series: Mapping[tuple[str, str], Sequence[tuple[int, float]]],
    units: Mapping[str, str],
) -> Rows:
    if record.injected_at is None or record.healed_at is None:
        return []
    start, end = record.injected_at, record.healed_at
    parts = ((start - AROUND_NS, start), (start, end), (end, end + AROUND_NS))
    rows = []
    for node in record.targets:
        for name in SHOWN:
            points = series.get((node, name))
            if points:
                told = [_mean(points, *part, units[name]) for part in parts]
                rows.append((f"{node} {name}", *told))
    return [(a, b, c, d) for a, b, c, d in rows]


def _mean(points: Sequence[tuple[int, float]], start: int, end: int, unit: str) -> str:
    inside = [value for time_ns, value in points if start <= time_ns < end]
    return quantity(mean(inside), unit) if inside else "-"
