"""Canaries for every checker but those of registers and transactions: what it must reject.

`MUTATORS` says per family of mutants (`Checker.mutants`) which kinds there are; each copy is a
violation for certain of the models that `only` names, or of all, see the tables in the `_mutate_*`
files. `tells` says which kinds show that a checker judged the model that was asked for and not a
weaker one: the weaker one allows them. A kind that this history offers nothing for is left out.
Source: discipline 5.2, canary rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from dstest.core import rng
from dstest.core.history import History
from dstest.core.op import Op
from dstest.judge import _mutate_dead as dead
from dstest.judge import _mutate_lists as lists
from dstest.judge import _mutate_service as service
from dstest.judge import _mutate_streams as streams
from dstest.judge import _mutate_values as values
from dstest.judge import _mutate_views as views
from dstest.judge._mutate import Maker
from dstest.judge.canary import Mutant

_Tells = Mapping[str, Mapping[str, tuple[str, ...]]]


class Mutators(msgspec.Struct, frozen=True):
    """The mutants of one family. `only`: kind -> the models that it violates, where not all;
    `tells`: model -> weaker judge -> kinds that this one would accept; `whole`: keys are judged
    together; `by_model`: other makers altogether."""

    kinds: Mapping[str, Maker] = msgspec.field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    tells: _Tells = msgspec.field(default_factory=dict)
    whole: bool = False
    by_model: Mapping[str, Mapping[str, Maker]] = msgspec.field(default_factory=dict)

    def of(self, model: str) -> dict[str, Maker]:
        """Kind -> maker of the copies that violate this model."""
        every = self.by_model.get(model, self.kinds)
        return {kind: make for kind, make in every.items() if model in self.only.get(kind, [model])}


_GUARANTEES: Final = {
    "monotonic-reads": "stale",
    "read-your-writes": "own-write-missed",
    "monotonic-writes": "swapped",
    "writes-follow-reads": "read-ahead",
}
"""Session guarantee -> the kind that breaks it alone."""

_STRICT: Final = "strict-serializable"
_VIEW: Final = "monotonic-atomic-view"

_SERIAL: Final = (
    _STRICT,
    "strong-serializable",
    "strong-session-serializable",
    "serializable",
)
_MOMENT: Final = (
    "strong-snapshot-isolation",
    "strong-session-snapshot-isolation",
    "snapshot-isolation",
    "strong-session-causal",
    "strong-session-read-atomic",
    "causal-cerone",
    "read-atomic",
)
"""Models besides under which a transaction sees others whole."""

_TIMELY: Final = (_STRICT, "strong-serializable", "strong-snapshot-isolation")

MUTATORS: Final[Mapping[str, Mutators]] = {
    "atomic-view": Mutators(
        views.VIEWS,
        only={
            "stale": (_STRICT,),
            **dict.fromkeys(
                ("skewed", "duplicate"),
                (_STRICT, "serializable", "snapshot-isolation", "repeatable-read"),
            ),
        },
        tells={
            _STRICT: {"serializable": ("stale",), _VIEW: ("skewed",)},
            **{
                key: {_VIEW: ("skewed",)}
                for key in ("serializable", "snapshot-isolation", "repeatable-read")
            },
        },
    ),
    "bank": Mutators(
        values.BANK,
        only={"dropped-write": (_STRICT,)},
        tells={_STRICT: {"serializable": ("dropped-write",)}},
    ),
    "causal": Mutators(streams.CAUSAL, whole=True),
    "causal-reverse": Mutators(values.REVERSE),
    "closed-predicate": Mutators(
        views.PREDICATES,
        only={"skewed": _SERIAL, "stale": _TIMELY, "fractured": (*_SERIAL, *_MOMENT)},
        tells={
            **{key: {"read-committed": ("fractured",)} for key in _MOMENT},
            **{key: {"snapshot-isolation": ("skewed",)} for key in _SERIAL},
            _STRICT: {"serializable": ("stale",), "snapshot-isolation": ("skewed",)},
        },
    ),
    "counter-bounds": Mutators(values.COUNTER),
    "dead-letters": Mutators(dead.DEAD_LETTERS),
    "exactly-once": Mutators(lists.LEDGER, whole=True),
    "exclusion": Mutators(values.EXCLUSION),
    "fairness": Mutators(service.FAIR, whole=True),
    "final-state": Mutators(values.INVARIANT, whole=True),
    "g2": Mutators(views.PAIRS),
    "kafka": Mutators(
        streams.KAFKA,
        only={"stale": ("linearizable",)},
        tells={"linearizable": {"kafka": ("stale",)}},
    ),
    "long-fork": Mutators(
        values.FORK,
        only={"stale": (_STRICT,)},
        tells={_STRICT: {"snapshot-isolation": ("stale",)}},
    ),
    "no-lost-ack": Mutators({k: m for k, m in lists.SET_FINAL.items() if k != "duplicate"}),
    "order": Mutators(by_model={"fifo": lists.QUEUE["fifo"], "prefix": lists.PREFIX}),
    "reconciliation": Mutators(values.DUMPS),
    "slo": Mutators(service.SERVICE, whole=True),
    "sessions": Mutators(
        streams.SESSION,
        only={kind: ("session", name) for name, kind in _GUARANTEES.items()},
        tells={
            "session": {f"session without {n}": (kind,) for n, kind in _GUARANTEES.items()},
        },
    ),
    "set": Mutators(lists.SET_FINAL),
    "set-full": Mutators(lists.SET),
    "total-queue": Mutators(
        lists.QUEUE["total"],
        only=dict.fromkeys(("duplicate", "replaced"), ("exactly-once",)),
        tells={"exactly-once": {"at-least-once": ("duplicate",)}},
    ),
    "unique-ids": Mutators(
        lists.IDS,
        only={"swapped": ("increasing",)},
        tells={"increasing": {"unique": ("swapped",)}},
    ),
    "watch": Mutators(streams.WATCH, whole=True),
}

_TRIES: Final = 40
"""Keys looked at per kind before the kind counts as not applicable."""

Mutator = Callable[[History, int, int], Iterator[Mutant]]


def _groups(whole: bool, history: History) -> list[tuple[Any, list[Op]]]:
    if whole:
        return [(None, history.ops)]
    groups: dict[str, tuple[Any, list[Op]]] = {}
    for op in history.ops:
        groups.setdefault(repr(op.key), (op.key, []))[1].append(op)
    return list(groups.values())


def mutator(name: str, model: str) -> Mutator | None:
    """Makes up to `count` mutants of a family, the kinds in turn; None where there is no such."""
    family = MUTATORS.get(name)
    if family is None:
        return None
    kinds = family.of(model)

    def make(history: History, seed: int, count: int = 8) -> Iterator[Mutant]:
        dice = rng.stream(seed, "canary", name)
        groups = _groups(family.whole, history)
        made = misses_in_a_row = 0
        turn = list(kinds)
        while turn and made < max(count, len(kinds)) and misses_in_a_row < 3 * len(turn):
            kind = turn.pop(0)
            for key, ops in dice.sample(groups, min(_TRIES, len(groups))):
                mutation = kinds[kind](ops, dice, history.header.options)
                if mutation is not None:
                    said, copy = mutation
                    made += 1
                    misses_in_a_row = 0
                    turn.append(kind)
                    broken = msgspec.structs.replace(history, ops=copy)
                    yield Mutant(kind, f"key {key}: {said}", broken)
                    break
            else:
                misses_in_a_row += 1

    return make
