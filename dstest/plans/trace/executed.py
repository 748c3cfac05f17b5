"""What the runs of a scenario have executed of an invariant: counted in them, never taken from what
the plan says.

`checker NAME` has judged operations of each of the runs; of `spec NAME ID` the specification takes
the whole history of a run, and its invariant was asked on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from dstest.core import registry
from dstest.core.errors import ConfigError, DstestError
from dstest.plans.execution.outcome import RunOutcome
from dstest.plans.model import Invariant
from dstest.spec.conform import conform_history
from dstest.spec.conformed import Conformed
from dstest.spec.load import load
from dstest.store.importers import load_history


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """How often it was `asked` in these runs, each of them at least once; `broken`: it did not
    hold. `said` is either in words."""

    asked: int
    said: str
    broken: bool = False


Executor = Callable[[Sequence[RunOutcome]], Executed]


class Conformance:
    """Runs held to specifications, each once: several invariants of one are asked at a time."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Path], Conformed] = {}

    def of(self, name: str, run: Path) -> Conformed:
        """Raises DstestError for records that the specification cannot take."""
        if (name, run) not in self._found:
            self._found[name, run] = _conformed(name, run)
        return self._found[name, run]


def executor_of(one: Invariant, held: Conformance) -> Executor:
    """Who executes an invariant. Raises ConfigError where there is nobody of that name."""
    kind, *names = one.by.split()
    if kind == "checker" and len(names) == 1:
        registry.load("checkers", names[0])
        return lambda runs: _by_checker(names[0], runs)
    if kind == "spec" and len(names) == 2:
        known = [inv.id for inv in load(names[0]).invariants]
        if names[1] not in known:
            raise ConfigError(
                f"{one.id}: {names[0]} has no invariant {names[1]}", remedy=", ".join(known)
            )
        return lambda runs: _by_spec(names[0], names[1], runs, held)
    raise ConfigError(
        f"{one.id}: {one.by!r} executes nothing", remedy="`spec NAME ID`, or `checker NAME`"
    )


def _by_checker(name: str, runs: Sequence[RunOutcome]) -> Executed:
    counts = []
    broken = False
    for run in runs:
        checker = None if run.evidence is None else run.evidence.checker
        ran = checker is not None and name in checker.ran
        own = None if checker is None else checker.by_checker.get(name)
        alone = checker.ops_consumed if checker is not None and ran and own is None else 0
        counts.append(own.consumed if ran and own is not None else alone)
        broken = broken or bool(run.kinds.get(name))
    if not counts or not all(counts):
        return Executed(asked=0, said=f"{name} judged nothing in a run", broken=broken)
    said = f"{name} judged {sum(counts):,} operations"
    return Executed(asked=sum(counts), said=said, broken=broken)


def _by_spec(name: str, id: str, runs: Sequence[RunOutcome], held: Conformance) -> Executed:
    total = 0
    for run in runs:
        try:
            found = held.of(name, run.path)
        except DstestError as error:
            return Executed(asked=0, said=f"{name} cannot take its records: {error.message}")
        count = found.counts.get(id)
        failed = count is not None and count.failed > 0
        if found.verdict == "reject" or failed:
            what = f"its records are no behaviour of {name}, at {found.index}: {found.record}"
            return Executed(asked=0, said=f"{id} is false" if failed else what, broken=True)
        if found.verdict != "accept" or count is None or not count.passed:
            return Executed(asked=0, said=f"{name} came to {found.verdict}, {id} never asked")
        total += count.passed
    if not total:
        return Executed(asked=0, said="no run")
    return Executed(asked=total, said=f"{id} of {name} was true {total:,} times")


def _conformed(name: str, run: Path) -> Conformed:
    weak: list[str] = []
    history = load_history(run / "history.jsonl", weak=weak)
    found = conform_history(load(name), history.ops)
    if weak and found.verdict == "accept":
        found.verdict = "vacuous"
    return found
