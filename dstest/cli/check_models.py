"""`dstest check --model fifo-queue` and the like: objects that no workload of ours drives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dstest.core.errors import ConfigError
from dstest.core.protocols import Option
from dstest.core.registry import parse_options

if TYPE_CHECKING:
    from dstest.core.check import Budget, CheckResult
    from dstest.core.history import History

__all__ = ["judge_objects", "with_options"]

MODEL_OPTIONS: Final = {
    "permits": Option(type=int, default=0, help="semaphore: how many permits there are"),
}


def with_options(history: History, pairs: list[str]) -> History:
    """The history, its header's options overridden by `-o`. Raises ConfigError for an unknown
    one."""
    from msgspec.structs import replace

    given = {k: v for k, v in parse_options(pairs, MODEL_OPTIONS).items() if v}
    if not given:
        return history
    header = replace(history.header, options={**history.header.options, **given})
    return replace(history, header=header)


def judge_objects(history: History, model: str | None, budget: Budget) -> CheckResult | None:
    """The answer of the linearizability checker; None where it does not know the model, or where
    the model is one of registers, which workloads have."""
    from checkers.lin.catalogue import MODELS, REGISTERS
    from checkers.linearizable import CHECKER

    if model is None or model in REGISTERS or model not in MODELS:
        return None
    try:
        return CHECKER.check(history, model, budget)
    except ValueError as error:
        raise ConfigError(str(error), remedy="for example -o permits=3") from None
