"""Small histories that are right, and such that are wrong, to try a checker on.

Of objects they come from `checkers.second.specimens`, of transactions from the simulated store of
`dstest generate`, wrong ones with an anomaly planted in them. For other checkers true systems are
simulated, and wrong ones are the copies that canaries make of their histories, those of which each
is a violation for certain. No checker has a part in what is called wrong. They depend on checker,
model, workload and seed alone.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final, NamedTuple

from checkers.second.judges import OfTransactions
from checkers.second.specimens import PERMITS, object_histories
from dstest.core import rng
from dstest.core.history import Header, History
from dstest.core.protocols import CheckerTraits
from dstest.generator.gadgets import GADGETS
from dstest.generator.histories import LEVELS, Spec, events
from dstest.generator.true_histories import KINDS
from dstest.generator.true_histories import history as true_history
from dstest.generator.writing import lines
from dstest.judge.canary_family import family_of
from dstest.store.jsonl import read_stream

OBJECTS_EACH: Final = 20
STORES: Final = 3
"""Right histories of transactions."""

COPIES_MAX: Final = 8
"""Wrong ones of each right history of other systems."""

_TXNS: Final = 40
_OPERATIONS: Final = 200


class Specimens(NamedTuple):
    """`wrong` ones with what is wrong in them."""

    right: list[History]
    wrong: list[tuple[str, History]]


def specimens(checker: Any, model: str, workload: str, seed: int) -> Specimens:
    """Both kinds for a checker and a model; none where nobody here knows them."""
    dice = rng.stream(seed, "specimens", model)
    right, wrong = object_histories(model, dice, OBJECTS_EACH)
    if right:
        header = Header(workload=workload, model=model, options={"permits": PERMITS})
        return Specimens(
            [History(header=header, ops=ops) for ops in right],
            [("another answer", History(header=header, ops=ops)) for ops in wrong],
        )
    judge = CheckerTraits.of(checker).second
    if not isinstance(judge, OfTransactions) or workload not in GADGETS:
        return _simulated(checker, model, seed)
    stores = [_store(workload, seed + number, None) for number in range(STORES)]
    return Specimens(stores, _planted(judge, model, workload, seed))


def _simulated(checker: Any, model: str, seed: int) -> Specimens:
    """True systems of the kinds that this checker judges by this model."""
    made = Specimens([], [])
    for name, kind in KINDS.items():
        if (kind.checker, kind.model) != (checker.name, model):
            continue
        for number in range(STORES):
            history = true_history(name, seed + number, _OPERATIONS)
            made.right.append(history)
            family = family_of(checker, model, history)
            if family.sure:
                copies = family.make(history, seed, COPIES_MAX)
                made.wrong.extend((mutant.kind, mutant.history) for mutant in copies)
    return made


def _planted(
    judge: OfTransactions, model: str, workload: str, seed: int
) -> list[tuple[str, History]]:
    found = []
    for name in GADGETS[workload]:
        history = _store(workload, seed, name)
        try:
            if judge.finds(history, model):
                found.append((name, history))
        except KeyError:
            return []
    return found


def _store(workload: str, seed: int, gadget: str | None) -> History:
    """A strictly serializable store, with one anomaly in it or none."""
    spec = Spec(
        workload=workload,
        txns=_TXNS,
        concurrency=4,
        level=LEVELS[0],
        seed=seed,
        inject={} if gadget is None else {gadget: 1},
    )
    return read_stream(BytesIO(b"".join(lines(events(spec), spec, "jsonl"))))
