"""Canaries for every checker but those of registers and transactions: what it must reject.

`mutator(checker, model)` gives the maker of broken copies that fits the checker; each copy is a
violation for certain, see the tables in `_mutate_lists`, `_mutate_values` and `_mutate_streams`.
A kind that this history offers nothing for is left out. Source: discipline 5.2, canary rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dstest.core import rng
from dstest.core.history import History
from dstest.core.op import Op
from dstest.judge import _mutate_lists as lists
from dstest.judge import _mutate_streams as streams
from dstest.judge import _mutate_values as values
from dstest.judge._mutate import Maker
from dstest.judge.canary import Mutant

__all__ = ["ORACLES", "mutator"]

ORACLES: Final[Mapping[str, Mapping[str, Maker]]] = {
    "bank": values.BANK,
    "bank/strict-serializable": values.BANK_STRICT,
    "causal": streams.CAUSAL,
    "causal-reverse": values.REVERSE,
    "counter-bounds": values.COUNTER,
    "exactly-once": lists.LEDGER,
    "exclusion": values.EXCLUSION,
    "fairness": values.FAIR,
    "final-state": values.INVARIANT,
    "kafka": streams.KAFKA,
    "long-fork": values.FORK,
    "no-lost-ack": {k: m for k, m in lists.SET_FINAL.items() if k != "duplicate"},
    "order/fifo": lists.QUEUE["fifo"],
    "order/prefix": lists.PREFIX,
    "reconciliation": values.DUMPS,
    "sessions": streams.SESSION,
    "set": lists.SET_FINAL,
    "set-full": lists.SET,
    "total-queue": lists.QUEUE["total"],
    "unique-ids": lists.IDS,
    "watch": streams.WATCH,
}
"""Checker, or checker/model where the model changes what is a violation -> kind -> maker."""

_WHOLE: Final = frozenset({"causal", "exactly-once", "fairness", "final-state", "watch"})
"""Checkers that judge all keys together."""

_TRIES: Final = 40
"""Keys looked at per kind before the kind counts as not applicable."""

Mutator = Callable[[History, int, int], Iterator[Mutant]]


def _groups(checker: str, history: History) -> list[tuple[Any, list[Op]]]:
    if checker in _WHOLE:
        return [(None, history.ops)]
    groups: dict[str, tuple[Any, list[Op]]] = {}
    for op in history.ops:
        groups.setdefault(repr(op.key), (op.key, []))[1].append(op)
    return list(groups.values())


def mutator(checker: str, model: str) -> Mutator | None:
    """Makes up to `count` mutants, the kinds in turn; None where the checker has no makers."""
    makers = ORACLES.get(f"{checker}/{model}", ORACLES.get(checker))
    if makers is None:
        return None
    kinds = dict(makers)

    def make(history: History, seed: int, count: int = 8) -> Iterator[Mutant]:
        dice = rng.stream(seed, "canary", checker)
        groups = _groups(checker, history)
        made = barren = 0
        turn = list(kinds)
        while turn and made < count and barren < 3 * len(turn):
            kind = turn.pop(0)
            for key, ops in dice.sample(groups, min(_TRIES, len(groups))):
                found = kinds[kind](ops, dice, history.header.options)
                if found is not None:
                    said, copy = found
                    made += 1
                    barren = 0
                    turn.append(kind)
                    broken = msgspec.structs.replace(history, ops=copy)
                    yield Mutant(kind, f"key {key}: {said}", broken)
                    break
            else:
                barren += 1

    return make
