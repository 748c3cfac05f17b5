"""`dstest check --model fifo-queue` and the like: objects that no workload of ours drives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import CheckerTraits
from dstest.core.registry import parse_options
from dstest.judge.checker_answers import asked, of_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dstest.core.check import Budget, CheckResult
    from dstest.core.history import History
    from dstest.core.protocols import Option

__all__ = ["judge_objects", "with_options"]


def _declared() -> dict[str, Option]:
    """What checkers may be told of a history."""
    found: dict[str, Option] = {}
    for name in registry.names("checkers"):
        found |= CheckerTraits.of(registry.load("checkers", name)).options
    return found


def _require_typed(options: dict[str, Any], declared: Mapping[str, Option]) -> None:
    """Raises ConfigError where the header has an option that `-o` would not take so."""
    for name, value in options.items():
        if name not in declared or value is None:
            continue
        wanted = declared[name].type
        fits = type(value) is wanted or (wanted is float and type(value) is int)
        if not fits:
            raise ConfigError(
                f"the header's option {name} is {value!r}, not a {wanted.__name__}",
                remedy=f"write a {wanted.__name__} there; {name}: {declared[name].help}",
            )
        parse_options([f"{name}={value}"], declared, of="checking operations")


def with_options(history: History, pairs: list[str]) -> History:
    """The history, its header's options overridden by `-o`. Raises ConfigError for an unknown
    one, and for one of the header that has another type."""
    from msgspec.structs import replace

    if not pairs and not history.header.options:
        return history
    declared = _declared()
    _require_typed(history.header.options, declared)
    if not pairs:
        return history
    typed = parse_options(pairs, declared, of="checking operations")
    given = {k: v for k, v in typed.items() if v is not None}
    header = replace(history.header, options={**history.header.options, **given})
    return replace(history, header=header)


def judge_objects(history: History, model: str | None, budget: Budget) -> CheckResult | None:
    """The answer of the linearizability checker; None where it does not know the model, or where
    the model is one of registers, which workloads have."""
    from checkers.lin.catalogue import MODELS, REGISTERS
    from checkers.linearizable import CHECKER

    if model is None or model in REGISTERS or model not in MODELS:
        return None
    return of_all(asked(CHECKER, history, model, budget))
