"""What became of the budget of `dstest check`, when all is said: time that was overrun, memory that
did not even suffice for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from dstest.core.check import Budget, CheckResult

_WIDE: Final = 2.0
"""Checkers look at their clock now and then; what is decided after so many budgets is too late."""


def in_time(result: CheckResult, budget: Budget) -> CheckResult:
    """The answer, or unknown where all was found in order long after the time was up. A violation
    is one whenever it is found."""
    took_s = result.seconds.check
    if result.valid is not True or took_s <= _WIDE * budget.time_s:
        return result
    said = f"time budget of {budget.time_s:g} s used up: the answer took {took_s:.3g} s"
    return replace(result, valid="unknown", reason="; ".join(filter(None, [said, result.reason])))


def not_read(result: CheckResult) -> bool:
    """Did reading the history alone use up the budget?"""
    return result.ops.total == 0 and result.keys.undecided == ["*"]
