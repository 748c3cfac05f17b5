"""A specification as a checker of runs: `dstest run .. --checker FILE.py`, `dstest check --checker
FILE.py`.

The history is replayed through it as by `dstest spec conform` (`conform_history`): each operation
is a step that its guards allow, and after each step its invariants hold. Only `accept` is valid,
which has passed its controls. Whatever else keeps it from an answer is `unknown`: a history that
the specification cannot take, bounds, controls that fail, an invariant that was never asked.

A file with one specification that says what records stand for (`@maps`) is such a checker as it
is; of several, or with other constants, it names one: `CHECKER = checker_of(Counter(most=9))`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final

import msgspec

from dstest.core.check import Anomaly, Budget, CheckResult, KeyCount, OpCount, Seconds
from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError, HistoryError
from dstest.core.history import History
from dstest.core.op import Op, Outcome
from dstest.core.protocols import Checker, Option
from dstest.spec.compose import System
from dstest.spec.conform import conform_history
from dstest.spec.conformance import ConformResult
from dstest.spec.declare import Spec, is_marked
from dstest.spec.mapping import Mapped, record_of
from dstest.spec.model import Model, Watch, model_of, resident_bytes

NO_BEHAVIOUR: Final = "no-behaviour"
"""Kind of a violation: no behaviour of the specification has these operations."""

_BY_INVARIANT: Final = "invariant "

_NO_OPERATION: Final = "no operation was held to it"


class SpecChecker(Checker):
    """Judges by one specification. Its one model is its name: that of the class, with dashes."""

    kind = "history"
    mutants = "specification"
    options: Mapping[str, Option] = {}

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = f"{_dashed(model.name)}-spec"
        self.models = (self.name,)
        kinds = Mapped(model).kinds | model.spec.ignores
        self.op_types = {self.name: frozenset(kinds)}
        self.keyed = model.spec.per_key
        self.means = {
            NO_BEHAVIOUR: f"No behaviour of {model.name} has all of these operations with these"
            " outputs: in every order that their times allow, one of them is a step that a guard"
            " forbids, or after which an invariant does not hold.",
            **{one.id: f"In every order, one step breaks: {one.text}." for one in model.invariants},
        }

    def check(self, history: History, model: str, budget: Budget) -> CheckResult:
        """Raises ValueError for a model that is not its own."""
        if model not in self.models:
            raise ValueError(f"model {model!r}: {self.name} knows {', '.join(self.models)}")
        began_ns = monotonic_ns()
        memory_mb = budget.memory_mb + (resident_bytes() >> 20)
        watch = Watch(budget.time_s, memory_mb)
        ops = list(history.ops)
        mapped = Mapped(self._model)
        try:
            said = conform_history(self._model, ops, watch=watch)
            counted = _counted(mapped, ops)
        except (ConfigError, HistoryError) as error:
            return self._answer(None, ops, OpCount(total=len(ops)), error.message, began_ns)
        why = _open(said, self._model)
        if not why and not counted.consumed:
            why = _NO_OPERATION
        return self._answer(said, ops, counted, why, began_ns)

    def _answer(
        self, said: ConformResult | None, ops: list[Op], counted: OpCount, why: str, began_ns: int
    ) -> CheckResult:
        """`why` it is open, empty where it is not."""
        wrong = said is not None and said.verdict == "reject"
        found = _anomalies(said, ops) if said is not None and wrong else {}
        keys = len({(type(op.key), op.key) for op in ops}) if self.keyed else 1
        decided = 0 if why else keys
        return CheckResult(
            checker=self.name,
            valid=False if wrong else "unknown" if why else True,
            model=self.name,
            anomaly_types=sorted(found),
            not_=[self.name] if wrong else [],
            anomalies=found,
            ops=counted if wrong or not why else msgspec.structs.replace(counted, consumed=0),
            keys=KeyCount(total=keys, decided=decided, undecided=["*"] if why else []),
            seconds=Seconds(check=(monotonic_ns() - began_ns) / 1e9),
            reason=None if wrong else why or None,
            stats={} if said is None else _stats(said, self._model),
        )


def _open(said: ConformResult, model: Model) -> str:
    """Why it is neither right nor wrong; empty where it is."""
    if said.verdict == "reject":
        return ""
    if said.verdict != "accept":
        return "; ".join([f"{model.name}: {said.verdict}", *([said.reason] if said.reason else []),
                          *said.weak])  # fmt: skip
    asked = [id_ for id_, one in said.counts.items() if one.passed or one.failed]
    if unasked := [one.id for one in model.of_kind("state", "action") if one.id not in asked]:
        return f"{', '.join(unasked)} of {model.name} was never asked"
    return ""


def _counted(mapped: Mapped, ops: list[Op]) -> OpCount:
    consumed, excluded = 0, dict[str, int]()
    for op in ops:
        why = ""
        if not mapped.knows(op.op_type):
            why = op.op_type
        elif op.outcome is Outcome.FAIL:
            why = "fail"
        elif op.outcome is Outcome.UNKNOWN and mapped.only_reads(record_of(op)):
            why = "unknown-read"
        if why:
            excluded[why] = excluded.get(why, 0) + 1
        consumed += not why
    return OpCount(total=len(ops), consumed=consumed, excluded=excluded)


def _anomalies(said: ConformResult, ops: list[Op]) -> dict[str, list[Anomaly]]:
    """One: the first operation that cannot be. It is called by the invariants, where it is these
    alone that refuse it."""
    by = dict.fromkeys(one.by for one in said.refusals)
    invariants = [one.removeprefix(_BY_INVARIANT) for one in by if one.startswith(_BY_INVARIANT)]
    kinds = invariants if invariants and len(invariants) == len(by) else [NO_BEHAVIOUR]
    culprit = next((op for op in ops if op.op_id == said.op_id), None)
    refused = "; ".join(f"{one.step}: {one.by}" for one in said.refusals)
    text = (
        f"{said.record} is no step of {said.model} in any of the {said.states} states that it can"
        f" be in by then: {refused}"
    )
    one = Anomaly(
        type=kinds[0],
        key=None if culprit is None else culprit.key,
        ops=[] if culprit is None else [culprit.op_id],
        witness=[] if culprit is None else [msgspec.to_builtins(culprit)],
        epochs=[culprit.fault_epoch] if culprit is not None and culprit.fault_epoch else [],
        explanation=text,
    )
    if culprit is not None:
        one = msgspec.structs.replace(one, culprit=culprit.op_id)
    return {kind: [msgspec.structs.replace(one, type=kind)] for kind in kinds}


def _stats(said: ConformResult, model: Model) -> dict[str, Any]:
    """Of each invariant how often it was asked; those that a history never asks, by kind."""
    return {
        "invariants": {i: {"held": n.passed, "not": n.failed} for i, n in said.counts.items()},
        "never_asked": [
            one.id
            for one in model.invariants
            if (count := said.counts.get(one.id)) is None or not (count.passed or count.failed)
        ],
        "guards_never_false": said.never_false,
        "actions_never_taken": said.never_taken,
    }


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", "-", name).lower()


def checker_of(spec: Spec) -> SpecChecker:
    """Raises ConfigError for a specification that says of no operation what it stands for, and for
    one that is held to the logs of servers."""
    if isinstance(spec, type):
        name = spec.__name__
        raise ConfigError(f"checker_of({name}) is given a class", remedy=f"checker_of({name}())")
    model = model_of(spec)
    if spec.server_log:
        raise ConfigError(
            f"{model.name} is held to what servers log, not to what clients saw",
            remedy="dstest spec conform SPEC RUN, when the run is over",
        )
    return SpecChecker(model)


def offered_by(module: ModuleType) -> dict[str, Any]:
    """The checker that a file is which has specifications: a system of some, or the only one that
    has mappings. Raises ConfigError where there is none such, or several."""
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Spec)
        and value.__module__ == module.__name__
    ]
    mapped = [one for one in found if _maps(one)]
    whole = [one for one in mapped if issubclass(one, System)] or mapped
    if len(whole) != 1:
        names = ", ".join(one.__name__ for one in whole or found)
        raise ConfigError(
            f"of the specifications {names} none says what an operation stands for"
            if not whole
            else f"{names} are several specifications",
            remedy='methods with @maps("KIND"): docs/specs.md'
            if not whole
            else f"CHECKER = checker_of({whole[0].__name__}()), of dstest.spec",
        )
    return {"checkers": checker_of(whole[0]())}


def _maps(cls: type[Spec]) -> bool:
    return any(
        is_marked(one) and "spec_maps" in vars(one)
        for base in cls.__mro__
        for one in vars(base).values()
    )
