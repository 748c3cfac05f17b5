"""Small histories that are right, and such that are wrong, to try a checker on.

Of objects they come from `checkers.second.specimens`, of transactions from the simulated store of
`dstest generate`, wrong ones with an anomaly planted in them. What is wrong was found to be so by
code that the checkers have no part in. They depend on model, workload and seed alone.
"""

from __future__ import annotations

from io import BytesIO
from typing import Final, NamedTuple

from checkers.second.judges import OfTransactions
from checkers.second.specimens import PERMITS, object_histories
from dstest.core import rng
from dstest.core.history import Header, History
from dstest.generator.gadgets import GADGETS
from dstest.generator.histories import LEVELS, Spec, events
from dstest.generator.writing import lines
from dstest.store.jsonl import read_stream

__all__ = ["Specimens", "specimens"]

OBJECTS_EACH: Final = 20
STORES: Final = 3
"""Right histories of transactions."""

_TXNS: Final = 40


class Specimens(NamedTuple):
    """`wrong` ones with what is wrong in them."""

    right: list[History]
    wrong: list[tuple[str, History]]


def specimens(model: str, workload: str, seed: int) -> Specimens:
    """Both kinds for a model; none where nobody here knows it."""
    dice = rng.stream(seed, "specimens", model)
    right, wrong = object_histories(model, dice, OBJECTS_EACH)
    if right:
        header = Header(workload=workload, model=model, options={"permits": PERMITS})
        return Specimens(
            [History(header=header, ops=ops) for ops in right],
            [("another answer", History(header=header, ops=ops)) for ops in wrong],
        )
    if workload not in GADGETS:
        return Specimens([], [])
    stores = [_store(workload, seed + number, None) for number in range(STORES)]
    return Specimens(stores, _planted(model, workload, seed))


def _planted(model: str, workload: str, seed: int) -> list[tuple[str, History]]:
    judge = OfTransactions(workload)
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
