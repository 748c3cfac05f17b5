"""Which checkers judge a workload, and by which model? Asked when a run is planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.protocols import Checker, CheckerTraits, Option, Workload


def checkers_of(
    work: Workload, model: str | None = None, besides: Sequence[str] = ()
) -> list[Checker]:
    """The checkers of a workload, and those that are asked `besides`.

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
        return [*checkers, *_besides(work, besides)]
    known = "; ".join(f"{c.name} knows {', '.join(c.models)}" for c in checkers)
    if model is not None:
        names = [name for checker in checkers for name in checker.models]
        raise ConfigError(
            f"--model {model}: {known}",
            remedy=f"{meant(model, dict.fromkeys(names))}; leave --model out for {work.model}",
        )
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


def _besides(work: Workload, names: Sequence[str]) -> list[Checker]:
    """Raises ConfigError for one that the workload asks anyway, that stands twice, or that does not
    know the workload's operations."""
    found: list[Checker] = []
    for name in names:
        if name in work.checkers or any(one.name == name for one in found):
            raise ConfigError(f"--checker {name}: it is asked anyway", remedy="leave it out")
        checker: Checker = registry.load("checkers", name)
        if not any(_speaks(checker, model, work) for model in checker.models[:1]):
            raise ConfigError(
                f"--checker {name}: it does not know the operations of {work.name}",
                remedy=f"`dstest list --workload {work.name}` has its operations",
            )
        found.append(checker)
    return found


def added(checkers: Sequence[Checker], work: Workload) -> list[_Besides]:
    """Those checkers that the workload does not ask itself: their options are the run's as well.

    A workload declares the options of its own checkers itself, with defaults.
    """
    return [
        _Besides(checker.name, CheckerTraits.of(checker).options)
        for checker in checkers
        if checker.name not in work.checkers
    ]


class _Besides(NamedTuple):
    name: str
    options: Mapping[str, Option]


def claims_of(work: Workload, checkers: Sequence[Checker]) -> frozenset[str]:
    """What is claimed by a workload, and by those of these checkers that it does not ask itself."""
    besides = (c for c in checkers if c.name not in work.checkers)
    return work.claims.union(*(CheckerTraits.of(c).claims for c in besides))
