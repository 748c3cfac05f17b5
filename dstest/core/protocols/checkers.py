"""Checkers: pure functions from a history to a result."""

from __future__ import annotations

from typing import Protocol

from dstest.core.check import Budget, CheckResult
from dstest.core.history import History

__all__ = ["Checker"]


class Checker(Protocol):
    """A pure function from a history to a result.

    What it may say of itself besides is `CheckerTraits`. A checker of transactions also has
    `forbids(model)`, the anomalies that a model rules out, and `weaker(model)`, the models next
    below that rule out less.
    """

    name: str
    kind: str
    models: tuple[str, ...]

    def check(self, history: History, model: str, budget: Budget) -> CheckResult: ...
