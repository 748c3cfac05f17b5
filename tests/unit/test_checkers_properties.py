"""Properties: fired, passed, and unknown where their path was not taken often enough."""

from __future__ import annotations

import pytest
from notation import op

from checkers.properties import Properties, Property
from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History

POSITIVE = Property("never-negative", lambda o: o.op_type == "read", lambda o: o.output >= 0, 2)
ONCE = Property("once", None, lambda ops: len({o.input for o in ops}) == len(ops))


def _check(text: str, *properties: Property) -> CheckResult:
    ops = [op(line, n) for n, line in enumerate(text.strip().splitlines())]
    checker = Properties("stock", properties)
    history = History(header=Header(), ops=ops)
    found: CheckResult = checker.check(history, "stock", Budget())
    return found


def test_fired_and_passed() -> None:
    found = _check("1 read[x] -> 3 @0-1\n1 read[y] -> 0 @2-3", POSITIVE)
    assert (found.valid, found.stats["fired:never-negative"]) == (True, 2)


def test_what_does_not_hold() -> None:
    found = _check("1 read[x] -> 3 @0-1\n1 read[y] -> -1 @2-3", POSITIVE)
    assert (found.valid, found.anomaly_types) == (False, ["never-negative"])
    assert found.anomalies["never-negative"][0].key == "y"
    found = _check("1 sell[x] 3 @0-1\n2 sell[x] 3 @2-3", ONCE)
    assert (found.valid, found.anomaly_types) == (False, ["once"])
    assert _check("1 sell[x] 3 @0-1\n2 sell[y] 3 @2-3", ONCE).valid is True


def test_a_path_that_was_not_taken_shows_nothing() -> None:
    found = _check("1 read[x] -> 3 @0-1", POSITIVE)
    assert found.valid == "unknown"
    assert "fired 1 times, of at least 2" in str(found.reason)
    assert _check("1 write[x] 3 @0-1", POSITIVE).valid == "unknown"


def test_what_raises_is_no_answer() -> None:
    found = _check("1 read[x] -> null @0-1\n1 read[y] -> 1 @0-1\n1 read[y] -> 1 @2-3", POSITIVE)
    assert found.valid == "unknown"
    assert found.keys.undecided == ["x"]


def test_what_is_no_answer_is_none() -> None:
    loose = Property("loose", lambda o: True, lambda o: (False, "x"))  # type: ignore[arg-type, return-value]
    assert _check("1 read[x] -> 3 @0-1", loose).valid == "unknown"
    with pytest.raises(ValueError, match="from 1 on"):
        Properties("stock", [ONCE._replace(least=0)])


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two properties have one name"):
        Properties("stock", [ONCE, ONCE])
