"""`my-checker`: valid, invalid and vacuous histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dstest.core.check import Budget, CheckResult
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.core.registry import offered

CHECKER: Any = offered(Path(__file__).with_name("my_checker.py"))["checkers"]


def op(number: int, op_type: str, value: object, **rest: Any) -> Op:
    """Operation `number` on the key `x`, from `10 * number` to `10 * number + 5`."""
    fields: dict[str, Any] = {"op_id": number, "process_id": 0, "op_type": op_type, "key": "x"}
    fields |= {"invoke_ts": 10 * number, "complete_ts": 10 * number + 5}
    return Op(**{**fields, "input" if op_type == "write" else "output": value, **rest})


def check(*ops: Op) -> CheckResult:
    history = History(header=Header(), ops=list(ops))
    result: CheckResult = CHECKER.check(history, CHECKER.models[0], Budget())
    return result


def test_a_clean_history_is_valid() -> None:
    result = check(op(0, "read", None), op(1, "write", 1), op(2, "read", 1))
    assert result.valid is True
    assert (result.ops.consumed, result.keys.decided) == (3, 1)


def test_a_value_that_nobody_has_written_yet_is_found() -> None:
    result = check(op(0, "write", 1), op(1, "read", 2), op(2, "write", 2))
    assert result.valid is False
    assert [a.ops for a in result.anomalies["early-read"]] == [[1]]


def test_a_write_that_failed_had_no_effect() -> None:
    assert check(op(0, "write", 1, error="refused"), op(1, "read", 1)).valid is False


def test_a_write_of_unknown_outcome_may_be_read() -> None:
    assert check(op(0, "write", 1, timeout_marker=True), op(1, "read", 1)).valid is True


def test_nothing_to_refute_is_unknown() -> None:
    assert check().valid == "unknown"
    assert check(op(0, "write", 1)).valid == "unknown"
    assert check(op(0, "read", 1, error="refused")).valid == "unknown"


def test_an_operation_that_it_does_not_know_leaves_the_key_undecided() -> None:
    result = check(op(0, "write", 1), op(1, "cas", None, input=[1, 2]), op(2, "read", 2))
    assert (result.valid, result.keys.undecided) == ("unknown", ["x"])
