"""Sequence charts, as they are written."""

from __future__ import annotations

from dstest.spec.model import Step
from dstest.spec.trace import arrows_of, chart, side_by_side

STEPS = [Step("want", (0,)), Step("want", (1,)), Step("enter", (0,))]

DRAWN = """---
title: both
---
sequenceDiagram
    participant p0 as 0
    participant p1 as 1
    p0->>p0: want(0)
    p1->>p1: want(1)
    Note over p0: first difference
    p0->>p0: enter(0)
"""


def test_one() -> None:
    assert chart(arrows_of(STEPS), "both", 2) == DRAWN


def test_two_that_differ() -> None:
    other = [*STEPS[:2], Step("enter", (1,))]
    left, right, at = side_by_side(arrows_of(STEPS), arrows_of(other), ("both", "other"))
    assert at == 2
    assert left == DRAWN
    assert "Note over p1: first difference\n    p1->>p1: enter(1)" in right


def test_one_that_ends_earlier_differs_where_it_ends() -> None:
    left, right, at = side_by_side(arrows_of(STEPS[:2]), arrows_of(STEPS), ("a", "b"))
    assert at == 2
    assert "first difference" not in left
    assert "first difference" in right
    assert side_by_side(arrows_of(STEPS), arrows_of(STEPS), ("a", "b"))[2] is None


def test_who_tells_whom() -> None:
    def lanes(step: Step) -> tuple[str, str]:
        return f"n{step.args[0]}", "disk; #1"

    drawn = chart(arrows_of(STEPS[:1], lanes))
    assert drawn == (
        "sequenceDiagram\n    participant p0 as n0\n    participant p1 as disk, 1\n"
        "    p0->>p1: want(0)\n"
    )
