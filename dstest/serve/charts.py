"""Small charts over runs, as SVG that takes the page's colours. Each has its numbers in a table
beside it; a dot is a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

WIDTH, HEIGHT = 900, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 10, 12, 22
_STEPS: Final = 4


class Dot(NamedTuple):
    """A run: its value, its tone, what it is called."""

    value: float
    tone: str
    title: str


def dots(title: str, unit: str, found: Sequence[Dot]) -> str:
    """The runs from left to right, evenly spaced; empty where there are none."""
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
