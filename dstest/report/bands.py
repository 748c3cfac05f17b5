"""Fault windows behind a witness: bands, with their names in rows above it that never overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import east_asian_width

from dstest.core.printable import printable

if TYPE_CHECKING:
    from dstest.report.model import FaultView

LANES_MAX: Final = 3
LANE: Final = 13
"""Height of a row of names."""

BANDS_MAX: Final = 120
"""Bands that are drawn; of more none could be told from the next."""

_CHAR: Final = 7.0
_WIDE: Final = 13.0
"""Width of a character, as wide as it is in any usual font."""

_GAP: Final = 6.0
_NAME_MAX: Final = 40


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
    faults: Sequence[FaultView],
    first_ns: int,
    last_ns: int,
    x: Callable[[int], float],
) -> Bands:
    """The windows that overlap the time from `first_ns` to `last_ns`, where `x` draws it."""
    found = []
    for fault in faults:
        if fault.start_ns is None or fault.start_ns > last_ns:
            continue
        if fault.end_ns is not None and fault.end_ns < first_ns:
            continue
        name = printable(f"{fault.id} {fault.nemesis}").replace("\n", " ")
        name = name if len(name) <= _NAME_MAX else name[: _NAME_MAX - 1] + "…"
        end = last_ns if fault.end_ns is None else min(last_ns, fault.end_ns)
        found.append(_Band(x(max(first_ns, fault.start_ns)), x(end), name))
    found.sort(key=lambda band: (band.start, -band.end))
    names = _placed(found[:BANDS_MAX], x(last_ns))
    return Bands(found[:BANDS_MAX], names, len(found) - len(names))
