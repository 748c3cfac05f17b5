"""Which broken copies a checker must reject, and what they tell about it.

A checker names its family of mutants (`Checker.mutants`); one without a name is given those of
registers, and may accept some. Two things must be shown of a checker before its word counts: that
it rejects every copy, and that it judged the model that was asked for. For the second the copies
must hold, for each weaker judge, at least one that this judge would accept: `Family.tells`.
`MUTATORS` says per family and model which kinds there are, and who makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from dstest.core import rng
from dstest.core.check import CheckResult
from dstest.core.history import History
from dstest.judge.mutants import objects, operators, tenants, visibility
from dstest.judge.mutants.shapes import (
    DeadLetters,
    Elements,
    Feed,
    Ledger,
    Lists,
    Log,
    Maker,
    Members,
    Mutant,
    Passage,
    Passing,
    Registers,
    Versions,
    copies,
    parts_of,
)
from dstest.judge.mutants.transactions import CYCLELESS, KINDS, anomalies_of, txn_mutants

NO_CYCLES: Final = "a judge without cycle search"
NO_TIME: Final = "a judge without real time"

Kinds = Mapping[str, Maker]

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

_REGISTERS: Final = Registers()
_VERSIONS: Final = Versions()
_LISTS: Final = Lists()
_FINALS: Final = Lists(final=True)
_LEDGER: Final = Ledger(final=True)
_MEMBERS: Final = Members()
_QUEUE: Final = Passing("enqueue", "dequeue")
_DEAD: Final = DeadLetters("enqueue", "dequeue", "collect", held=("dequeue", "reject", "collect"))
_LOG: Final = Log()

_OF_REGISTERS: Final[Kinds] = {
    "phantom-value": operators.phantom(_REGISTERS),
    "lost-write": operators.dropped(_REGISTERS),
    "stale-read": operators.stale(_REGISTERS),
    "swapped-reads": operators.swapped(_REGISTERS),
}
_LOCK: Final[Kinds] = {
    "stolen-lock": objects.crowded(lambda part: 1),
    "lost-release": objects.release_lost,
}
_SET: Final[Kinds] = {
    "dropped-write": operators.dropped(_FINALS),
    "phantom": operators.phantom(_FINALS),
    "lost": operators.missing(_FINALS),
    "swapped": objects.final_swapped(_LISTS, _FINALS),
}


class Mutators(msgspec.Struct, frozen=True):
    """The mutants of one family. `only`: kind -> the models that it violates, where not all;
    `tells`: model -> weaker judge -> kinds that this one would accept; `whole`: keys are judged
    together, `whole_of`: those of these models; `by_model`: other makers altogether; `once`: no
    other kind takes a key again; `plants`: model -> weaker judge -> what tells it where the
    run's operations offer nothing. `sure` false: what a copy violates nobody knows but its judge,
    who may accept some."""

    kinds: Kinds = msgspec.field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    tells: Mapping[str, Mapping[str, tuple[str, ...]]] = msgspec.field(default_factory=dict)
    whole: bool = False
    by_model: Mapping[str, Kinds] = msgspec.field(default_factory=dict)
    whole_of: frozenset[str] = frozenset()
    once: bool = False
    plants: Mapping[str, Mapping[str, Kinds]] = msgspec.field(default_factory=dict)
    sure: bool = True

    def of(self, model: str) -> dict[str, Maker]:
        """Kind -> maker of the copies that violate this model."""
        every = self.by_model.get(model, self.kinds)
        return {kind: make for kind, make in every.items() if model in self.only.get(kind, [model])}

    def make(
        self, history: History, seed: int, count: int = 8, *, model: str = ""
    ) -> Iterator[Mutant]:
        """Up to `count` copies that violate `model`, or one of each kind where those are more."""
        whole = self.whole or model in self.whole_of
        once = self.once and model not in self.by_model
        dice = rng.stream(seed, "canary", *self.kinds, model)
        parts = parts_of(history, whole)
        return copies(self.of(model), parts, history, dice, count, once=once)


def _container(
    passing: Passing, in_order: Callable[[Passage, Passage], bool] | None = None
) -> dict[str, Maker]:
    """Kinds of a container of values; those of its order where it has one."""
    order = (
        {} if in_order is None else {"swapped-takes": operators.swapped_takes(passing, in_order)}
    )
    return {
        "phantom-value": operators.phantom(passing),
        "taken-twice": operators.taken_again(passing),
        "lost-put": operators.dropped(passing),
        **order,
        "false-empty": operators.false_empty(passing),
    }


_LINEARIZABLE: Final[Mapping[str, Kinds]] = {
    "fifo-queue": _container(_QUEUE, objects.first_in_first_out),
    "stack": _container(Passing("push", "pop"), objects.last_in_first_out),
    "priority-queue": _container(Passing("insert", "delete-min"), objects.least_first),
    "deque": _container(Passing("push", "pop")),  # either end may serve
    "set": {"wrong-contains": objects.wrong_lookup, "lost-add": operators.dropped(Elements())},
    "log": {
        "offset-twice": operators.given_again(objects.offsets),
        "swapped-offsets": operators.given_swapped(objects.offsets),
        "changed-entry": operators.phantom(_LOG),
        "lost-append": operators.dropped(_LOG),
        "hidden-entry": objects.hidden_entry,
    },
    "mutex": _LOCK,
    "reentrant-mutex": _LOCK,
    "fencing-lock": {**_LOCK, "swapped-tokens": operators.given_swapped(objects.tokens)},
    "semaphore": {
        "too-many-permits": objects.too_many,
        "crowded": objects.crowded(lambda part: part.options.get("permits")),
    },
    "counter": {"wrong-total": objects.beyond_all, "wrong-count": objects.too_much},
    "multi-register": {
        "phantom-value": operators.phantom(_REGISTERS),
        "lost-write": operators.dropped(_REGISTERS),
        "stale-value": operators.stale(_REGISTERS),
        "torn-write": operators.torn(_REGISTERS),
    },
}


def _feed(feed: Feed) -> dict[str, Maker]:
    return {
        "dropped-write": operators.dropped(feed),
        "lost": visibility.entry_lost(feed),
        "duplicate": operators.twice(feed),
        "reordered": operators.reordered(feed),
        "phantom": operators.phantom(feed),
        "swapped": visibility.values_swapped(feed),
    }


MUTATORS: Final[Mapping[str, Mutators]] = {
    "atomic-view": Mutators(
        {
            "skewed": visibility.skewed,
            "regressed": visibility.regressed,
            "phantom": visibility.nobodys_bump,
            "stale": visibility.bump_missed,
            "duplicate": operators.given_again(visibility.bumps),
        },
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
        {
            **{k: objects.of_bank(k) for k in ("wrong-total", "nil", "negative", "skewed")},
            "dropped-write": objects.transfer_dropped,
        },
        only={"dropped-write": (_STRICT,)},
        tells={_STRICT: {"serializable": ("dropped-write",)}},
    ),
    "boundary": Mutators(
        {
            "leak": tenants.leak,
            "wrong-key": tenants.wrong_key,
            "phantom": tenants.phantom,
            "dropped-write": tenants.put_dropped,
            "counted-more": tenants.counted_more,
            "stale": tenants.stale,
            "lost": tenants.lost,
        },
        only=dict.fromkeys(("stale", "lost"), ("isolated",)),
        tells={"isolated": {"isolated-late": ("stale", "lost")}},
        whole=True,
    ),
    "causal": Mutators(
        {
            "dropped-write": operators.dropped(_REGISTERS),
            "phantom": operators.phantom(_REGISTERS),
            "stale": visibility.causal_past,
            "swapped": operators.swapped(_REGISTERS),
        },
        whole=True,
    ),
    "causal-reverse": Mutators(
        {
            "reversed": visibility.reversed_,
            "phantom": operators.phantom(_MEMBERS),
            "dropped-write": operators.dropped(_MEMBERS),
        }
    ),
    "closed-predicate": Mutators(
        {
            "phantom": visibility.reading(fits=True),
            "mismatched": visibility.reading(fits=False),
            "skewed": visibility.found_nothing_twice,
            "fractured": visibility.half_seen,
            "stale": visibility.row_missed,
        },
        only={"skewed": _SERIAL, "stale": _TIMELY, "fractured": (*_SERIAL, *_MOMENT)},
        tells={
            **{key: {"read-committed": ("fractured",)} for key in _MOMENT},
            **{key: {"snapshot-isolation": ("skewed",)} for key in _SERIAL},
            _STRICT: {"serializable": ("stale",), "snapshot-isolation": ("skewed",)},
        },
    ),
    "counter-bounds": Mutators(
        {
            "dropped-write": objects.count_dropped,
            "stale": objects.too_little,
            "phantom": objects.too_much,
            "swapped": objects.counts_swapped,
        }
    ),
    "dead-letters": Mutators(
        {
            "dropped-write": operators.dropped(_DEAD),
            "dropped-reject": objects.reject_dropped(_DEAD),
            "lost": operators.lost_takes(_DEAD),
            "repeated": operators.put_again(_DEAD),
            "phantom": operators.phantom(_DEAD),
        }
    ),
    "exactly-once": Mutators(
        {
            "dropped-write": operators.dropped(_LEDGER),
            "phantom": operators.phantom(_LEDGER),
            "duplicate": operators.twice(_LEDGER),
            "lost": operators.missing(_LEDGER),
        },
        whole=True,
    ),
    "exclusion": Mutators(
        {
            "overlap": objects.overlap,
            "swapped": operators.given_swapped(objects.named_tokens),
            "duplicate": operators.given_again(objects.named_tokens),
        }
    ),
    "fairness": Mutators({"slow": objects.slow, "failing": objects.failing}, whole=True),
    "final-state": Mutators({"lost": objects.entry_gone}, whole=True),
    "g2": Mutators({"duplicate": visibility.inserted_twice, "phantom": visibility.alone}),
    "kafka": Mutators(
        {**_feed(Feed("send", "poll", "records", "offset")), "stale": visibility.poll_stale},
        only={"stale": ("linearizable",)},
        tells={"linearizable": {"kafka": ("stale",)}},
    ),
    "specification": Mutators(
        {**_OF_REGISTERS, "nobodys-answer": operators.nobodys_answer}, once=True, sure=False
    ),
    "linearizable": Mutators(
        _OF_REGISTERS,
        by_model=_LINEARIZABLE,
        whole_of=frozenset({"multi-register"}),
        once=True,
        tells={
            model: {NO_TIME: kinds}
            for models, kinds in (
                (("register", "cas-register", "kv-map"), ("stale-read", "swapped-reads")),
                (("mutex", "reentrant-mutex"), ("stolen-lock",)),
                (("fifo-queue", "stack", "priority-queue"), ("swapped-takes", "false-empty")),
                (("deque",), ("false-empty",)),
                (("log",), ("hidden-entry",)),
            )
            for model in models
        },
        plants={
            model: {NO_TIME: {"planted-stale-read": objects.planted_stale}}
            for model in ("register", "cas-register")
        },
    ),
    "long-fork": Mutators(
        {
            "fork": visibility.fork,
            "stale": visibility.sees_nothing,
            "phantom": operators.phantom(_MEMBERS),
            "dropped-write": operators.dropped(_MEMBERS),
        },
        only={"stale": (_STRICT,)},
        tells={_STRICT: {"snapshot-isolation": ("stale",)}},
    ),
    "no-lost-ack": Mutators(_SET),
    "order": Mutators(
        by_model={
            "fifo": {"swapped": operators.swapped_takes(_QUEUE, objects.first_in_first_out)},
            "prefix": {
                "dropped-write": operators.dropped(_LISTS),
                "phantom": operators.phantom(_LISTS),
                "stale": operators.missing(_LISTS, slice(-1)),
                "duplicate": operators.twice(_LISTS),
                "swapped": operators.swapped(_LISTS),
                "reordered": operators.reordered(_LISTS),
            },
        }
    ),
    "reconciliation": Mutators({"diverged": objects.diverged}),
    "slo": Mutators(
        {"unanswered": objects.unanswered},
        whole=True,
    ),
    "sessions": Mutators(
        {
            "dropped-write": operators.dropped(_VERSIONS),
            "phantom": operators.phantom(_VERSIONS),
            "stale": visibility.session_reread,
            "own-write-missed": visibility.session_own,
            "swapped": visibility.session_swapped,
            "read-ahead": visibility.session_ahead,
        },
        only={kind: ("session", name) for name, kind in _GUARANTEES.items()},
        tells={
            "session": {f"session without {n}": (kind,) for n, kind in _GUARANTEES.items()},
        },
    ),
    "set": Mutators({**_SET, "duplicate": operators.twice(_FINALS)}),
    "set-full": Mutators(
        {
            "dropped-write": operators.dropped(_LISTS),
            "phantom": operators.phantom(_LISTS),
            "lost": operators.missing(_LISTS, slice(-1, None)),
            "stale": operators.missing(_LISTS, slice(-1)),
            "duplicate": operators.twice(_LISTS),
            "swapped": operators.swapped(_LISTS),
        }
    ),
    "total-queue": Mutators(
        {
            "dropped-write": operators.dropped(_QUEUE),
            "lost": operators.lost_takes(_QUEUE),
            "repeated": operators.put_again(_QUEUE),
            "duplicate": objects.delivered_again(_QUEUE),
            "replaced": operators.taken_again(_QUEUE),
            "phantom": operators.phantom(_QUEUE),
        },
        only=dict.fromkeys(("duplicate", "replaced"), ("exactly-once",)),
        tells={"exactly-once": {"at-least-once": ("duplicate",)}},
    ),
    "unique-ids": Mutators(
        {
            "duplicate": operators.given_again(objects.ids),
            "swapped": operators.given_swapped(objects.numbers),
        },
        only={"swapped": ("increasing",)},
        tells={"increasing": {"unique": ("swapped",)}},
    ),
    "watch": Mutators(_feed(Feed("write", "watch", "events", "revision")), whole=True),
}


class Family(msgspec.Struct, frozen=True):
    """`tells`: weaker judge -> the kinds that it would accept. `sure`: each copy is a violation for
    certain. `plants`: weaker judge -> what makes a copy that it would accept where the run's own
    operations offer none."""

    make: Callable[[History, int, int], Iterator[Mutant]]
    tells: Mapping[str, frozenset[str]]
    sure: bool
    plants: Mapping[str, Kinds] = {}


class CheckerCanary(msgspec.Struct, frozen=True):
    """The canary of one checker. `details` has a row per copy: `checker`, `model`, `kind`,
    `mutant`, `valid`, `caught` (the anomalies named), `sure`. `undistinguished` has a row per
    weaker judge that no copy tells from this checker: `checker`, `model`, `weaker`, `kinds` (of
    which the history would have had to offer one)."""

    details: list[dict[str, Any]]
    undistinguished: list[dict[str, Any]]


def _transactions(checker: Any, model: str, history: History) -> Family:
    lists = any(m[0] == "append" for op in history.ops for m in op.input or ())
    anomalies = anomalies_of(lists)
    forbidden: frozenset[str] = checker.forbids(model)
    # Of what is changed in one key alone more may follow than its anomaly.
    bad = {kind for kind, names in anomalies.items() if names & forbidden and kind not in KINDS}
    tells = {
        weaker: frozenset(k for k in bad if not anomalies[k] & checker.forbids(weaker))
        for weaker in checker.weaker(model)
    }
    tells[NO_CYCLES] = frozenset(k for k in bad if not anomalies[k] & CYCLELESS)
    make = partial(txn_mutants, forbidden=forbidden)
    return Family(make, {name: kinds for name, kinds in tells.items() if kinds}, sure=True)


def family_of(checker: Any, model: str, history: History) -> Family:
    """The mutants for a checker that judges `history` by `model`."""
    name = checker.mutants
    if name == "transactions":
        return _transactions(checker, model, history)
    if name not in MUTATORS:
        return Family(MUTATORS["linearizable"].make, {}, sure=False)
    of = MUTATORS[name]
    tells = {weaker: frozenset(kinds) for weaker, kinds in of.tells.get(model, {}).items()}
    make = partial(of.make, model=model)
    return Family(make, tells, sure=of.sure, plants=of.plants.get(model, {}))


def _all(family: Family, history: History, seed: int, mutants_max: int) -> Iterator[Mutant]:
    """The copies; planted ones last, for the weaker judges that no other tells."""
    made: set[str] = set()
    for mutant in family.make(history, seed, mutants_max):
        made.add(mutant.kind)
        yield mutant
    for weaker, kinds in family.plants.items():
        if not family.tells.get(weaker, frozenset()) & made:
            dice = rng.stream(seed, "canary", *kinds)
            yield from copies(kinds, parts_of(history), history, dice, 1)


def try_copies(
    mutants: Iterable[Mutant], check: Callable[[History], CheckResult]
) -> list[dict[str, Any]]:
    """A row per copy: `kind`, `mutant` (what was changed), `valid` (what the checker says, of which
    `unknown` is no rejection) and `caught` (the anomalies that it names)."""
    rows = []
    for mutant in mutants:
        result = check(mutant.history)
        caught = list(result.anomaly_types) or sorted(result.kinds)
        said = {"kind": mutant.kind, "mutant": mutant.description}
        rows.append({**said, "valid": result.valid, "caught": caught})
    return rows


def canaries(
    checker: Any,
    model: str,
    history: History,
    seed: int,
    check: Callable[[History], CheckResult],
    mutants_max: int = 8,
) -> CheckerCanary:
    """Breaks copies of `history` and has the checker judge each."""
    family = family_of(checker, model, history)
    common = {"checker": checker.name, "model": model}
    rows = try_copies(_all(family, history, seed, mutants_max), check)
    made = {row["kind"] for row in rows}
    undistinguished = [
        {**common, "weaker": weaker, "kinds": sorted(kinds)}
        for weaker, kinds in family.tells.items()
        if not kinds & made and not made & family.plants.get(weaker, {}).keys()
    ]
    return CheckerCanary([{**common, **row, "sure": family.sure} for row in rows], undistinguished)
