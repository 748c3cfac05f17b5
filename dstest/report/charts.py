"""The charts of the report page: faults, outages, and by type of operation the rate by outcome and
quantiles of latency, all on one time axis. Lines differ by their stroke as well as by colour."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from dstest.core.op import Op, Outcome
from dstest.report.axis import LEFT, RIGHT, WIDTH, Axis, framed, nice_step, said, ticks
from dstest.report.leaders import LeaderChange
from dstest.report.model import RunReport
from dstest.report.numbers import number, quantile_ms
from dstest.report.service import Stretch

TYPES_MAX: Final = 6
"""Types of operation with charts of their own, the most frequent ones."""

_HEIGHT: Final = 104
_TOP: Final = 8
_BINS: Final = 200
_BINS_LEAST: Final = 50
_PER_BIN: Final = 20
_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
_LANE: Final = 20


class Chart(NamedTuple):
    """A drawing with its heading."""

    title: str
    svg: str


def axis_of(report: RunReport, leaders: Sequence[LeaderChange] = ()) -> Axis:
    """From the first operation, or the start of the run, to the end of the load, the last answer or
    the last heal."""
    ops = report.history.ops
    ends = [op.complete_ts or op.invoke_ts for op in ops]
    ends += [f.end_ns for f in report.faults if f.end_ns is not None]
    ends += [f.start_ns for f in report.faults if f.start_ns is not None]
    ends += [report.load_end_ns] if report.load_end_ns is not None else []
    end = max(ends, default=1_000_000_000)
    start = min([0, *(op.invoke_ts for op in ops[:1])])
    return Axis(start, max(end, start + 1), report.faults, list(leaders))


def _lanes(axis: Axis) -> list[tuple[int, int]]:
    """(lane, place of the fault) such that windows of one lane do not overlap."""
    free: list[float] = []
    found = []
    for at, fault in enumerate(axis.faults):
        window = axis.window(fault)
        if window is None:
            continue
        needed = window[0] + max(window[1] - window[0], 7.0 * len(f"{fault.id} {fault.nemesis}"))
        lane = next((n for n, x in enumerate(free) if x <= window[0]), len(free))
        if lane == len(free):
            free.append(0.0)
        free[lane] = needed
        found.append((lane, at))
    return found


def _faults_chart(axis: Axis, outages: Sequence[Stretch]) -> Chart:
    """What was done to the system, who led, and when nothing was served."""
    rows = _lanes(axis)
    lanes = max((lane for lane, _ in rows), default=-1) + 1
    parts = []
    for lane, at in rows:
        fault = axis.faults[at]
        window = axis.window(fault)
        assert window is not None
        y = _TOP + lane * _LANE
        kind = "window" if fault.landed == "yes" else "window unproven"
        proof = "" if fault.landed == "yes" else f", landed: {fault.landed}"
        words = f"{fault.id} {fault.nemesis}{proof}"
        parts.append(
            f'<rect class="{kind}" x="{window[0]:.1f}" y="{y}" '
            f'width="{window[1] - window[0]:.1f}" height="{_LANE - 4}"><title>{said(words)}: '
            f"{fault.injected_s} s to {fault.healed_s} s on {said(fault.targets)}</title></rect>"
            f'<text class="on" x="{window[0] + 4:.1f}" y="{y + 12}">{said(words)}</text>'
        )
    y = _TOP + lanes * _LANE
    if axis.leaders:
        for change in axis.leaders:
            x = axis.x(change.time_ns)
            parts.append(
                f'<path class="leadmark" d="M{x:.1f} {y + 2}l4 6h-8z"/>'
                f'<text class="small" x="{x + 6:.1f}" y="{y + 10}">{said(change.said)}</text>'
            )
        parts.append(_name(y + 10, "lead had changed"))
        y += _LANE
    whole = [row for row in outages if row.whole]
    for row in whole:
        a, b = axis.x(row.start_ns), axis.x(row.end_ns)
        parts.append(
            f'<rect class="outage" x="{a:.1f}" y="{y}" width="{max(2.0, b - a):.1f}" '
            f'height="{_LANE - 6}"><title>{said(row.said)}</title></rect>'
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
    return f'<text class="{kind}" x="{WIDTH - RIGHT + 10}" y="{y:g}">{said(text)}</text>'


def _bin_ns(axis: Axis, most: int) -> int:
    """A round number such that the most frequent of the types has some operations in each part."""
    parts = min(_BINS, max(_BINS_LEAST, most // _PER_BIN))
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
        f'<text class="name" x="{x + 28}" y="{_TOP + 13 + n * 17}">{said(words)}</text>'
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
    return Chart(f"{name}: operations per second", framed(height, label, drawn))


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
        return Chart(title, framed(_TOP + _LANE, f"{name}: none succeeded", [text]))
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
    return Chart(title, framed(height, label, drawn))


def charts(report: RunReport, axis: Axis, outages: Sequence[Stretch]) -> tuple[list[Chart], str]:
    """All charts from top to bottom, and what they leave out."""
    drawn = [_faults_chart(axis, outages)]
    groups: dict[str, list[Op]] = {}
    for op in report.history.ops:
        groups.setdefault(op.op_type, []).append(op)
    names = sorted(groups, key=lambda name: (-len(groups[name]), name))
    bin_ns = _bin_ns(axis, max((len(group) for group in groups.values()), default=0))
    for name in names[:TYPES_MAX]:
        drawn.append(_rate(axis, name, groups[name], bin_ns, ""))
        drawn.append(_latency(axis, name, groups[name], bin_ns, "seconds"))
    left = names[TYPES_MAX:]
    told = f"Without charts of their own: {', '.join(left)}." if left else ""
    return drawn, told
