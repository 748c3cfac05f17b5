"""Fault windows behind a witness: none outside its time, and no name over another."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest
from made_moments import fault, op

from dstest.core.history import FaultWindow
from dstest.report.charts import BANDS_MAX, LANES_MAX, bands_of
from dstest.report.timeline import timeline_svg

NAME = re.compile(r'<text x="([\d.]+)" y="(\d+)" font-size="11" fill="currentColor">([^<]*)<')
S = 1_000_000_000


def drawn(faults: list[FaultWindow], *at_s: float) -> str:
    return timeline_svg([op(n, at) for n, at in enumerate(at_s)], faults)


def names(svg: str) -> list[tuple[float, int, str]]:
    return [(float(x), int(y), text) for x, y, text in NAME.findall(svg)]


def overlapping(svg: str) -> list[Any]:
    """Pairs of names in one row of which one begins before the other has ended."""
    rows = names(svg)
    return [
        (a, b)
        for a, b in combinations(rows, 2)
        if a[1] == b[1] and a[0] < b[0] + 6.5 * len(b[2]) and b[0] < a[0] + 6.5 * len(a[2])
    ]


@pytest.mark.parametrize("every_s", [1.0, 10.0])
def test_of_ninety_windows_no_name_is_over_another_and_the_rest_are_counted(every_s: float) -> None:
    faults = [fault(f"f{n}", every_s * n, every_s * n + 0.6) for n in range(90)]
    svg = drawn(faults, 0, 90 * every_s)
    shown = names(svg)
    assert len(shown) >= LANES_MAX * 4
    assert overlapping(svg) == []
    assert f">and {90 - len(shown)} other fault windows<" in svg
    assert svg.count('fill="#888888"') == 90
    assert all(x >= 330 and x + 6.5 * len(text) <= 1000 for x, _, text in shown)


def test_windows_that_stand_together_have_rows_of_their_own() -> None:
    faults = [fault(f"f{n}", 5, 6) for n in range(3)]
    svg = drawn(faults, 0, 10)
    assert [y for _, y, _ in names(svg)] == [11, 24, 37]
    assert "other" not in svg
    # The first bar begins below the last row of names.
    bar = re.search(r'<rect x="[\d.]+" y="(\d+)" width="[\d.]+" height="14"', svg)
    assert bar is not None
    assert int(bar[1]) > 37
    assert ">and 1 other fault window<" in drawn([*faults, fault("f9", 5, 6)], 0, 10)


def test_a_window_outside_the_time_of_the_witness_is_not_drawn() -> None:
    faults = [
        fault("f1", 1, 2),
        fault("f2", 50, 52),
        fault("f3", 90, None),
    ]
    svg = drawn(faults, 49, 60)
    assert [text for _, _, text in names(svg)] == ["f2 partition"]
    assert svg.count('fill="#888888"') == 1
    assert "f1" not in svg


def test_a_name_at_the_right_edge_ends_there_and_a_long_one_is_cut() -> None:
    svg = drawn([fault("f1", 9.99, 20), fault("f" * 70, 1, 2)], 0, 10)
    (_, _, long), (x, _, text) = sorted(names(svg), key=lambda row: row[0])
    assert text == "f1 partition"
    assert x + 7 * len(text) <= 1000
    assert long.endswith("…")


def test_of_hundreds_of_windows_the_bands_are_bounded_and_all_are_counted() -> None:
    found = bands_of([fault(f"f{n}", n, n + 1) for n in range(500)], 0, 500 * S, lambda t: t / S)
    assert len(found.bands) == BANDS_MAX
    assert len(found.names) + found.others == 500
