"""Checkers: pure functions from a history to a result."""

from __future__ import annotations

from typing import Protocol

from dstest.core.check import Budget, CheckResult
from dstest.core.history import History

__all__ = ["Checker"]


class Checker(Protocol):
    """A pure function from a history to a result.

    Optional: `mutants` names the broken copies of a history that it must reject
    (`dstest.judge.canary_family`); without it the copies are those of registers, and it may accept
    some. A checker of transactions also has `forbids(model)`, the anomalies that a model rules
    out, and `weaker(model)`, the models next below that rule out less.
    """

    name: str
    kind: str
    models: tuple[str, ...]

    def check(self, history: History, model: str, budget: Budget) -> CheckResult: ...
