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
