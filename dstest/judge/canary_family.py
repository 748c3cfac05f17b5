"""Which broken copies a checker must reject, and what they tell about it.

A checker names its family of mutants (`Checker.mutants`); one without a name is given those of
registers, and may accept some. Two things must be shown of a checker before its word counts: that
it rejects every copy, and that it judged the model that was asked for. For the second the copies
must hold, for each weaker judge, at least one that this judge would accept: `Family.tells`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from dstest.core.check import CheckResult
from dstest.core.history import History
from dstest.core.protocols import CheckerTraits
from dstest.judge.canary import Mutant, mutants, planted_stale_read
from dstest.judge.canary_models import TIMELY, model_mutants
from dstest.judge.canary_mutators import MUTATORS, mutator
from dstest.judge.canary_txn import CYCLELESS, KINDS, anomalies_of, txn_mutants

NO_CYCLES: Final = "a judge without cycle search"
NO_TIME: Final = "a judge without real time"
_REGISTERS: Final = frozenset({"register", "cas-register"})


class Family(msgspec.Struct, frozen=True):
    """`tells`: weaker judge -> the kinds that it would accept. `sure`: each copy is a violation for
    certain. `plants`: weaker judge -> what makes a copy that it would accept where the run's own
    operations offer none."""

    make: Callable[[History, int, int], Iterator[Mutant]]
    tells: Mapping[str, frozenset[str]]
    sure: bool
    plants: Mapping[str, Callable[[History], Mutant | None]] = {}


class Killed(msgspec.Struct, frozen=True):
    """The canary of one checker. `details` has a row per copy: `checker`, `model`, `kind`,
    `mutant`, `valid`, `caught` (the anomalies named), `sure`. `undistinguished` has a row per
    weaker judge that no copy tells from this checker: `checker`, `model`, `weaker`, `kinds` (of
    which the history would have had to offer one)."""

    details: list[dict[str, Any]]
    undistinguished: list[dict[str, Any]]


def _transactions(checker: Any, model: str, history: History) -> Family:
    lists = any(m[0] == "append" for op in history.ops for m in op.input or ())
    held = anomalies_of(lists)
    forbidden: frozenset[str] = checker.forbids(model)
    # Of what is changed in one key alone more may follow than its anomaly.
    bad = {kind for kind, names in held.items() if names & forbidden and kind not in KINDS}
    tells = {
        weaker: frozenset(k for k in bad if not held[k] & checker.forbids(weaker))
        for weaker in checker.weaker(model)
    }
    tells[NO_CYCLES] = frozenset(k for k in bad if not held[k] & CYCLELESS)
    make = partial(txn_mutants, forbidden=forbidden)
    return Family(make, {name: kinds for name, kinds in tells.items() if kinds}, sure=True)


def family_of(checker: Any, model: str, history: History) -> Family:
    """The mutants for a checker that judges `history` by `model`."""
    name = CheckerTraits.of(checker).mutants
    if name == "transactions":
        return _transactions(checker, model, history)
    if name == "linearizable":
        timely = TIMELY.get(model)
        tells = {} if timely is None else {NO_TIME: timely}
        plants = {NO_TIME: planted_stale_read} if model in _REGISTERS else {}
        return Family(partial(model_mutants, model=model), tells, sure=True, plants=plants)
    make = mutator(name, model)
    if make is None:
        return Family(mutants, {}, sure=False)
    told = MUTATORS[name].tells.get(model, {})
    return Family(make, {weaker: frozenset(kinds) for weaker, kinds in told.items()}, sure=True)


def _all(family: Family, history: History, seed: int, mutants_max: int) -> Iterator[Mutant]:
    """The copies; planted ones last, for the weaker judges that no other tells."""
    made: set[str] = set()
    for mutant in family.make(history, seed, mutants_max):
        made.add(mutant.kind)
        yield mutant
    for weaker, plant in family.plants.items():
        if not family.tells.get(weaker, frozenset()) & made and (found := plant(history)):
            yield found


def canaries(
    checker: Any,
    model: str,
    history: History,
    seed: int,
    check: Callable[[History], CheckResult],
    mutants_max: int = 8,
) -> Killed:
    """Breaks copies of `history` and has the checker judge each; `unknown` is no rejection."""
    family = family_of(checker, model, history)
    common = {"checker": checker.name, "model": model}
    details = []
    for mutant in _all(family, history, seed, mutants_max):
        result = check(mutant.history)
        details.append(
            {
                **common,
                "kind": mutant.kind,
                "mutant": mutant.description,
                "valid": result.valid,
                "caught": list(result.anomaly_types) or sorted(result.kinds),
                "sure": family.sure,
            }
        )
    made = {row["kind"] for row in details}
    undistinguished = [
        {**common, "weaker": weaker, "kinds": sorted(kinds)}
        for weaker, kinds in family.tells.items()
        if not kinds & made and not made & {f"planted-{kind}" for kind in kinds}
    ]
    return Killed(details, undistinguished)
