"""Which checkers judge a workload, and by which model? Asked when a run is planned."""

from __future__ import annotations

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.protocols import Checker, CheckerTraits, Workload

__all__ = ["checkers_of"]


def checkers_of(work: Workload, model: str | None = None) -> list[Checker]:
    """The checkers of a workload.

    Raises ConfigError where there is none, where one is not known, and where none of them can judge
    its operations by this model; None stands for the workload's own.
    """
    asked = work.model if model is None else model
    checkers = [_loaded(work, name) for name in work.checkers]
    if not checkers:
        raise ConfigError(
            f"workload {work.name} names no checker",
            remedy=f'`checkers = ("...",)` in the class of {work.name}',
        )
    if any(_speaks(checker, asked, work) for checker in checkers):
        return checkers
    known = "; ".join(f"{c.name} knows {', '.join(c.models)}" for c in checkers)
    if model is not None:
        raise ConfigError(f"--model {model}: {known}", remedy=f"leave --model out for {work.model}")
    raise ConfigError(
        f"workload {work.name}: no checker of it knows its model {work.model!r} for its operations",
        remedy=f"another `model` or `checkers` in the class of {work.name}: {known}",
    )


def _loaded(work: Workload, name: str) -> Checker:
    try:
        checker: Checker = registry.load("checkers", name)
    except ConfigError as error:
        raise ConfigError(f"workload {work.name}: {error.message}", remedy=error.remedy) from None
    return checker


def _speaks(checker: Checker, model: str, work: Workload) -> bool:
    """Does the checker know the model, and the model every operation of the workload?"""
    op_types = CheckerTraits.of(checker).op_types.get(model)
    return model in checker.models and work.op_types <= (op_types or work.op_types)
