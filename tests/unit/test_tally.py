"""What checkers have counted, in a line each: of hundreds of faults only the largest parts."""

from __future__ import annotations

from typing import Any

from dstest.core.check import CheckResult
from dstest.report.moments import tallies


def told(*, valid: bool = False, **stats: Any) -> list[str]:
    return tallies({"it": CheckResult(checker="it", valid=valid, stats=stats)})


def test_plain_counts_stand_first_and_zeros_are_left_out() -> None:
    assert told(tested=1200, lost=0, by_key={"a": 1}) == ["it: 1,200 tested; by key: 1 a"]
    assert told(method="inferred") == ["it: inferred method"]


def test_a_clean_checker_counts_nothing() -> None:
    assert told(valid=True, tested=1) == []
    assert told(lost=0) == []


def test_many_parts_are_three_and_a_sum() -> None:
    by_epoch = {"lost": {"f2": 87, "none": 257, "f6": 44, "f7": 55, "f8": 1}, "stale": {"f1": 3}}
    (line,) = told(anomalies={"lost": 444, "stale": 3}, anomalies_by_epoch=by_epoch)
    assert line == (
        "it: anomalies: 444 lost, 3 stale; anomalies by epoch: "
        "lost (257 outside faults, 87 f2, 55 f7, 45 in 2 more); stale (3 f1)"
    )
