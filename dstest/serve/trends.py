"""What each cell (system, workload, nemesis) came to over time, how often a violation was found in
it, and how it served."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from dstest.core.shares import Rate, interval
from dstest.serve.row import Figures, Row

STRIP: Final = 30
"""Runs of a cell whose verdicts stand in a row."""

SIGNS: Final = {
    "pass": ("+", "pass"),
    "fail": ("X", "violation"),
    "open": ("?", "judged, not proven"),
    "damaged": ("!", "damaged"),
    "died": ("~", "died, not judged"),
    "running": (">", "running"),
}
"""How a run is drawn in a strip, and what that says."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """`runs` are the oldest first. `found` is the share of judged runs that found a violation,
    `passed` of those that passed. `ok_per_s` and `p99_ms` are medians over the last ten that were
    measured, None where none was."""

    system: str
    workload: str
    nemesis: str
    runs: list[Row]
    found: Rate
    passed: Rate
    ok_per_s: float | None
    p99_ms: float | None
    measured: int

    @property
    def name(self) -> tuple[str, str, str]:
        return self.system, self.workload, self.nemesis

    @property
    def strip(self) -> list[Row]:
        return self.runs[-STRIP:]


def sign_of(row: Row) -> str:
    """The key of `SIGNS`."""
    return row.tone if row.judged else row.standing


def cells(rows: Iterable[Row], figures: Callable[[Row], Figures | None]) -> list[Cell]:
    """By name. Runs that do not say what they tested are in none."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.test.id:
            found.setdefault(row.test.cell, []).append(row)
    return [_cell(name, runs, figures) for name, runs in sorted(found.items())]


def _cell(
    name: tuple[str, str, str], rows: Sequence[Row], figures: Callable[[Row], Figures | None]
) -> Cell:
    runs = sorted(rows, key=lambda row: (row.started, row.ref))
    judged = [row for row in runs if row.judged]
    known = [found for row in judged if (found := figures(row)) is not None]
    return Cell(
        system=name[0],
        workload=name[1],
        nemesis=name[2],
        runs=runs,
        found=interval(sum(row.tone == "fail" for row in judged), len(judged)),
        passed=interval(sum(row.tone == "pass" for row in judged), len(judged)),
        ok_per_s=_median(one.ok_per_s for one in known[-10:]),
        p99_ms=_median(one.p99_ms for one in known[-10:]),
        measured=len(known),
    )


def _median(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
