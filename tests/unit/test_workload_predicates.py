"""`closed-predicate`: what its generator asks for, also where transactions fail."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from workloads.predicates import CLOSED_PREDICATE, PredicateGenerator

pytestmark = pytest.mark.slow

DRAFTS = 4000


def drafts() -> list[Any]:
    options = {name: option.default for name, option in CLOSED_PREDICATE.options.items()}
    made = PredicateGenerator(7, 0, 5, options)
    return [made.next() for _ in range(DRAFTS)]


def test_all_predicates_are_asked_for() -> None:
    asked = Counter(
        step[1] if step[1] is True else step[1][0]
        for op in drafts()
        for step in op.input
        if step[0] == "rp"
    )
    assert asked.keys() == {True, "mod", "="}
    assert min(asked.values()) > DRAFTS / 20


def test_no_row_is_made_again() -> None:
    """Whatever the order in which transactions are executed."""
    kinds: dict[tuple[str, int], Counter[str]] = {}
    for op in drafts():
        for step in op.input:
            if step[0] not in ("r", "rp"):
                kinds.setdefault((str(op.key), step[1]), Counter())[step[0]] += 1
    for counts in kinds.values():
        assert not counts["delete"] or (counts["insert"], counts["delete"], counts["w"]) == (
            1,
            1,
            0,
        )
    assert sum(counts["delete"] for counts in kinds.values()) > DRAFTS / 20


@pytest.mark.parametrize("aborts", [0.0, 0.1, 0.3, 0.6])
def test_transactions_that_fail_take_few_others_with_them(aborts: float) -> None:
    """Deletes of rows that were never there, and second inserts, are rolled back."""
    dice, rows, tried, kept = random.Random(1), set[tuple[str, int]](), 0, 0
    for op in drafts():
        writes = [step for step in op.input if step[0] not in ("r", "rp")]
        if not writes:
            continue
        if dice.random() < aborts:
            continue
        tried += 1
        after, fine = set(rows), True
        for step in writes:
            row = str(op.key), step[1]
            fine &= not (step[0] == "delete" and row not in after)
            fine &= not (step[0] == "insert" and row in after)
            (after.discard if step[0] == "delete" else after.add)(row)
        kept += fine
        rows = after if fine else rows
    assert kept > 0.85 * tried, (kept, tried)
