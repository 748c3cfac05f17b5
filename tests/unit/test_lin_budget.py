"""A budget that is spent gives `unknown` with what was decided, soon and without much memory."""

from __future__ import annotations

import random

import pytest

from checkers.linearizable import CHECKER
from dstest.core.check import Budget, CheckResult
from dstest.core.clock import monotonic_ns
from dstest.core.history import Header, History
from dstest.core.op import Op

pytestmark = pytest.mark.slow


def op(i: int, kind: str, begin: int, end: int | None, key: str, **fields: object) -> Op:
    return Op(op_id=i, process_id=i, invoke_ts=begin, complete_ts=end, op_type=kind, key=key,
              timeout_marker=end is None, **fields)  # type: ignore[arg-type]  # fmt: skip


def hard(seed: int = 1) -> list[Op]:
    """Sixty additions of unknown outcome, then a total that no sum of them gives."""
    dice = random.Random(seed)
    adds = [op(i, "inc", i, None, "hard", input=2 * dice.randint(10**6, 10**7)) for i in range(60)]
    return [*adds, op(60, "read", 100, 101, "hard", output=10**8 + 1)]


def easy() -> list[Op]:
    return [
        op(100, "inc", 0, 1, "easy", input=5),
        op(101, "read", 2, 3, "easy", output=5),
    ]


def check(ops: list[Op], model: str, budget: Budget) -> tuple[CheckResult, float]:
    started = monotonic_ns()
    history = History(header=Header(), ops=sorted(ops, key=lambda o: o.invoke_ts))
    result = CHECKER.check(history, model, budget)
    return result, (monotonic_ns() - started) / 1e9


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (Budget(time_s=1), "time budget spent"),
        (Budget(time_s=60, memory_mb=16), "memory budget spent"),
    ],
)
def test_a_spent_budget_is_unknown_and_says_what_was_decided(budget: Budget, why: str) -> None:
    result, took_s = check(hard() + easy(), "counter", budget)
    assert result.valid == "unknown"
    assert result.reason == f'key "hard": {why}'
    assert result.keys.undecided == ["hard"]
    assert (result.keys.decided, result.keys.total) == (1, 2)
    assert result.ops.consumed == 2
    assert took_s < 60


def test_a_violation_elsewhere_is_found_all_the_same() -> None:
    wrong = [*easy()[:1], op(102, "read", 2, 3, "easy", output=6)]
    result, _ = check(hard() + wrong, "counter", Budget(time_s=1))
    assert result.valid is False
    assert result.keys.undecided == ["hard"]
