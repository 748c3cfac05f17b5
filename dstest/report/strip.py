"""The whole run in one strip, for the first look at a failure: fault windows, the rate of what was
answered, and above both every anomaly, those without a witness as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import UNSET

from dstest.core.check import Sightings
from dstest.core.op import Op, Outcome
from dstest.report.charts import BINS, LEFT, RIGHT, WIDTH, Axis, bands_of, framed, svg_text

_TOP: Final = 18
_ANOMALIES: Final = 54
"""Height of the part for anomalies, and of the one for the rate below it."""

_RATE: Final = 30
_USUAL: Final = 0.97
"""Of the parts of time the share that is drawn to scale: a burst would flatten all others."""

_LEAST: Final = 4.0
"""Height of a single anomaly beside thousands."""


def _parts(axis: Axis, found: Iterable[Sightings]) -> list[int]:
    """Anomalies by part of the axis."""
    parts = [0] * BINS
    span = max(1, axis.end_ns - axis.start_ns)
    for one in found:
        counts = one.over_time
        if counts is UNSET or not counts:
            continue
        step = (one.last_ns - one.first_ns + 1) / len(counts)
        for at, n in enumerate(counts):
            time_ns = one.first_ns + (at + 0.5) * step
            place = int((time_ns - axis.start_ns) / span * BINS)
            parts[min(BINS - 1, max(0, place))] += n
    return parts


def _rate(axis: Axis, ops: Sequence[Op], bottom: float) -> str:
    """An area as high as what succeeded."""
    counts = [0] * BINS
    span = max(1, axis.end_ns - axis.start_ns)
    for op in ops:
        if op.outcome is Outcome.OK:
            counts[min(BINS - 1, (op.invoke_ts - axis.start_ns) * BINS // span)] += 1
    most = max(1, sorted(counts)[int(BINS * _USUAL)])
    width = (WIDTH - LEFT - RIGHT) / BINS
    steps = "".join(
        f"L{LEFT + at * width:.1f} {bottom - _RATE * min(1, n / most):.1f}h{width:.2f}"
        for at, n in enumerate(counts)
    )
    return f'<path class="ok" d="M{LEFT} {bottom}{steps}V{bottom}"/>'


def _bars(axis: Axis, found: Sequence[Sightings], bottom: float) -> str:
    """A bar for each part that has any, as high as the root of how many."""
    parts = _parts(axis, found)
    most = max(1, *parts)
    width = (WIDTH - LEFT - RIGHT) / BINS
    return "".join(
        f'<rect class="anomalies" x="{LEFT + at * width:.1f}" width="{max(2.0, width - 0.6):.1f}" '
        f'y="{bottom - height:.1f}" height="{height:.1f}"><title>{n:,} at '
        f"{(axis.start_ns + (at + 0.5) * (axis.end_ns - axis.start_ns) / BINS) / 1e9:.1f} s"
        "</title></rect>"
        for at, n in enumerate(parts)
        if n
        for height in [_LEAST + (_ANOMALIES - _LEAST) * (n / most) ** 0.5]
    )


def strip_svg(axis: Axis, ops: Sequence[Op], kinds: Mapping[str, Sightings]) -> str:
    """The drawing. `kinds` are the answers that gave anomalies away, by kind, that of the headline
    first: one and the same may be of several. Without any, or where older files do not say when
    they came, there is nothing to draw."""
    known = {
        name: sum(one.over_time)
        for name, one in kinds.items()
        if one.over_time is not UNSET and one.over_time
    }
    if not known:
        return ""
    found = [kinds[name] for name in known]
    name, count = next(iter(known.items()))
    more = len(known) - 1
    others = f", {more} more kind{'s' * (more > 1)}" if more else ""
    bands = bands_of(axis.faults, axis.start_ns, axis.end_ns, axis.x)
    beside = WIDTH - RIGHT + 10
    middle, bottom = _TOP + _ANOMALIES, _TOP + _ANOMALIES + 4 + _RATE
    names = "".join(
        f'<text class="small" x="{name.x:.1f}" y="11">{svg_text(name.text)}</text>'
        for name in bands.names
        if name.lane == 0
    )
    drawn = [
        axis.behind(0, bottom),
        names,
        _rate(axis, ops, bottom),
        f'<line class="tick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}"/>',
        _bars(axis, found, middle),
        f'<text class="anomalies" x="{beside}" y="{middle - 20}">{count:,} &#215;</text>',
        f'<text class="anomalies small" x="{beside}" y="{middle - 4}">{svg_text(name)}</text>',
        axis.scale(bottom, ""),
    ]
    label = f"{count:,} {name}{others} over the run, with {len(axis.faults)} fault windows"
    return framed(bottom + 20, label, drawn)
