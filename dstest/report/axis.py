"""The time axis that all charts of a page share: one scale, the same margins, fault windows and
changes of the lead at the same places. Colours are classes of the page's style sheet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from dstest.core.printable import printable
from dstest.report.bands import BANDS_MAX
from dstest.report.leaders import LeaderChange
from dstest.report.model import FaultView

WIDTH: Final = 1000
LEFT: Final = 56
RIGHT: Final = 150
"""Room for the names of lines, which stand beside their ends."""

_STEPS: Final = (1, 2, 5)


def said(text: str) -> str:
    """Text of anybody's making as it may stand in a drawing."""
    return escape(printable(text).replace("\n", " "))


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
    faults: Sequence[FaultView] = ()
    leaders: Sequence[LeaderChange] = ()

    def x(self, time_ns: float) -> float:
        """Where an instant is drawn; what lies outside, at the edge."""
        share = (time_ns - self.start_ns) / max(1, self.end_ns - self.start_ns)
        return LEFT + (WIDTH - LEFT - RIGHT) * min(1.0, max(0.0, share))

    def window(self, fault: FaultView) -> tuple[float, float] | None:
        """From where to where a fault is drawn."""
        if fault.start_ns is None:
            return None
        end = self.end_ns if fault.end_ns is None else fault.end_ns
        return self.x(fault.start_ns), max(self.x(fault.start_ns) + 1, self.x(end))

    def behind(self, top: float, bottom: float) -> str:
        """Fault windows as bands, and changes of the lead as lines."""
        parts = []
        for fault in list(self.faults)[:BANDS_MAX]:
            if (window := self.window(fault)) is not None:
                kind = "band" if fault.landed == "yes" else "band unproven"
                parts.append(
                    f'<rect class="{kind}" x="{window[0]:.1f}" y="{top:g}" '
                    f'width="{window[1] - window[0]:.1f}" height="{bottom - top:g}"/>'
                )
        for change in list(self.leaders)[:BANDS_MAX]:
            x = self.x(change.time_ns)
            parts.append(
                f'<line class="lead" x1="{x:.1f}" x2="{x:.1f}" y1="{top:g}" y2="{bottom:g}"/>'
            )
        return "".join(parts)

    def scale(self, y: float) -> str:
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
        parts.append(f'<text class="name" x="{x}" y="{y + 16:g}">s since the load began</text>')
        return "".join(parts)


def framed(height: float, label: str, parts: Iterable[str]) -> str:
    """An SVG of the common width with what it shows in words."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{said(label)}">{"".join(parts)}</svg>'
    )
