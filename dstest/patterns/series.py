"""Figures over time: of `metrics/NAME.jsonl`, and counted in the history of operations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import HistoryError

__all__ = ["Fit", "Series", "fitted", "read_series"]

METRICS: Final = "metrics"
_BESIDE: Final = frozenset({"alerts.jsonl"})


class Series(msgspec.Struct, frozen=True):
    """`values` of one figure of one node at `times_ns`, in the order of time."""

    name: str
    node: str
    times_ns: list[int]
    values: list[float]
    place: str = ""

    def between(self, start_ns: int, end_ns: int) -> list[float]:
        """Those of a stretch."""
        pairs = zip(self.times_ns, self.values, strict=True)
        return [value for at, value in pairs if start_ns <= at < end_ns]


class Fit(msgspec.Struct, frozen=True):
    """A straight line by least squares: `slope` per second, `r2` the share of the variance that it
    explains, 0 where nothing varies."""

    slope: float
    r2: float
    first: float
    last: float


def fitted(times_ns: Sequence[int], values: Sequence[float]) -> Fit | None:
    """None for fewer than three points, or none that differ in time."""
    if len(values) < 3 or times_ns[0] == times_ns[-1]:
        return None
    xs = [(at - times_ns[0]) / 1e9 for at in times_ns]
    mean_x, mean_y = sum(xs) / len(xs), sum(values) / len(values)
    xx = sum((x - mean_x) ** 2 for x in xs)
    xy = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, values, strict=True))
    yy = sum((y - mean_y) ** 2 for y in values)
    slope = xy / xx
    start = mean_y - slope * mean_x
    r2 = 0.0 if yy == 0 else xy * xy / (xx * yy)
    return Fit(slope, r2, start, start + slope * xs[-1])


class _Row(msgspec.Struct):
    time_ns: int
    node: str
    name: str
    value: float
    unit: str = ""


def read_series(run: Path) -> list[Series]:
    """All that a run has below `metrics/`; nothing where it has none. Raises HistoryError for a
    line that is no sample."""
    rows: dict[tuple[str, str], list[tuple[int, float]]] = {}
    places: dict[tuple[str, str], str] = {}
    for path in sorted((run / METRICS).glob("*.jsonl")):
        if path.name not in _BESIDE and path.is_file():
            for one in _rows(path):
                key = (one.name, one.node)
                rows.setdefault(key, []).append((one.time_ns, one.value))
                places.setdefault(key, f"{METRICS}/{path.name}")
    return [_made(key, found, places[key]) for key, found in sorted(rows.items())]


def _made(key: tuple[str, str], rows: list[tuple[int, float]], place: str) -> Series:
    rows.sort()
    return Series(*key, [at for at, _ in rows], [value for _, value in rows], place)


def _rows(path: Path) -> Iterable[_Row]:
    for number, text in enumerate(path.read_bytes().splitlines(), 1):
        if not text.strip():
            continue
        try:
            yield msgspec.json.decode(text, type=_Row)
        except msgspec.DecodeError as error:
            raise HistoryError(
                f"{path}, line {number}: no sample: {error}",
                remedy="{time_ns, node, name, value, unit} a line",
            ) from None
