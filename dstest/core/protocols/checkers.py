"""Checkers: pure functions from a history to a result."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from dstest.core.check import Anomaly, Budget, CheckResult, Valid
from dstest.core.history import History


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


class SecondAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`valid`: what a second judge makes of it, `unknown` where it cannot say; `said` is on what
    grounds, in a sentence."""

    valid: Valid
    said: str


@runtime_checkable
class SecondJudge(Protocol):
    """Judges once more what a checker found, slowly and with no code of that checker.

    `steps_max` bounds the work, so that the answer does not depend on how fast the host is.
    """

    name: str

    def look(
        self, history: History, model: str, anomaly: Anomaly, steps_max: int
    ) -> SecondAnswer: ...
