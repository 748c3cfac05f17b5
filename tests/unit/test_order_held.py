"""A dequeue that failed may have kept an element from the others for a while: no disorder of the
queue, one element each, and only from its own beginning on."""

from __future__ import annotations

import pytest
from notation import check

IN = "1 enqueue 1 @0-1\n1 enqueue 2 @2-3\n1 enqueue 3 @4-5\n"
LATE_1 = "2 dequeue -> 2 @6-7\n2 dequeue -> 1 @9-10\n2 dequeue -> 3 @11-12"
BACKWARDS = "2 dequeue -> 3 @6-7\n2 dequeue -> 2 @9-10\n2 dequeue -> 1 @11-12"
HELD = "!not-offered: TimeoutError()"


def found(text: str) -> int:
    return len(check("order", "fifo", IN + text).anomalies.get("reordered", []))


@pytest.mark.parametrize(
    ("text", "disorder"),
    [
        ("2 dequeue -> 2 @6-7\n2 dequeue -> 1 @8-9\n2 dequeue -> 3 @10-11", 1),
        (f"3 dequeue -> {HELD} @6-8\n{LATE_1}", 0),
        (f"3 dequeue -> {HELD} @8-9\n{LATE_1}", 1),
        (f"3 dequeue -> !not-connected @6-8\n{LATE_1}", 1),
        (f"3 dequeue -> {HELD} @6-8\n{BACKWARDS}", 1),
        (
            f"3 dequeue -> {HELD} @6-8\n4 dequeue -> {HELD} @6-8\n{BACKWARDS}",
            0,
        ),
    ],
)
def test_each_excuses_one_element(text: str, disorder: int) -> None:
    assert found(text) == disorder


def test_the_earliest_that_has_overtaken_it_counts() -> None:
    """12 came out before 1 and 2 were taken, and only one dequeue may have held any by then; that
    11 came out later excuses nothing."""
    text = (
        "1 enqueue 1 @0-1\n1 enqueue 11 @2-3\n1 enqueue 2 @4-5\n1 enqueue 12 @6-7\n"
        f"3 dequeue -> {HELD} @8-9\n2 dequeue -> 12 @10-11\n4 dequeue -> 11 @10-15\n"
        f"5 dequeue -> {HELD} @12-13\n2 dequeue -> 1 @16-17\n2 dequeue -> 2 @18-19"
    )
    assert check("order", "fifo", text).valid is False


def test_one_that_was_over_long_before_the_element_came_holds_it_not() -> None:
    late = 40_000_000_000
    text = f"3 dequeue -> {HELD} @0-1\n1 enqueue 1 @{late}-{late + 1}\n"
    text += f"1 enqueue 2 @{late + 2}-{late + 3}\n2 dequeue -> 2 @{late + 4}-{late + 5}\n"
    text += f"2 dequeue -> 1 @{late + 6}-{late + 7}"
    assert check("order", "fifo", text).valid is False
