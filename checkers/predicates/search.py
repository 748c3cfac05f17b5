"""Is there a choice of versions, and an order for it, that explains every read?

At first only looks with one version left are pinned: what violates a model with fewer reads
violates it with all. Where an order explains those and fits every other look it proves the whole;
else one look that does not fit is pinned to each of its versions in turn. A choice that ends in a
contradiction is learned as the pins that it takes, and pins that had nothing to do with it are not
tried again (Prosser, "Hybrid algorithms for the constraint satisfaction problem", 1993). Weak
models give no order: there every look is pinned before anything is called valid.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from checkers.predicates.groups import ABSENT
from checkers.predicates.versions import BEGINNING, Problem
from checkers.txn import order_search, weak_models
from checkers.txn.columns import INFO, NIL, NULL_READ, OK, READ, WRITE, TxnColumns
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns
from dstest.core.op import Outcome

LEAVES_MAX: Final = 64
"""Contradictions that are kept for the explanation, which tells a few of them."""

LEARNED_MAX: Final = 200_000
"""Contradictions that are remembered; beyond them the search goes on without."""

Pins = dict[int, int]


class Base:
    """The columns of a problem, but for its reads: with some looks pinned to one version each these
    are registers for the exact engine. What a key begins with is null there; every write is a value
    of its own, so that rows that are gone are told apart. `value_names` say what a version holds.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        txns = problem.txns
        self._outcome = np.array([OK if t.outcome is Outcome.OK else INFO for t in txns], np.uint8)
        self._process = np.array([t.process for t in txns], np.int64)
        self._invoke = np.array([t.invoke_pos for t in txns], np.int64)
        self._complete = np.array([t.complete_pos for t in txns], np.int64)
        self._index = np.array([t.at for t in txns], np.int64)
        self.value_of: dict[tuple[int, int], int] = {}
        self._value_names: list[Any] = []
        for at, writes in enumerate(problem.writes):
            for key, state in writes.items():
                self.value_of[key, at] = len(self._value_names)
                self._value_names.append("nothing (deleted)" if state is ABSENT else state)
        several = len({group for group, _ in problem.names}) > 1
        self._key_names = [(group, key) if several else key for group, key in problem.names]
        self._writes = [
            [(WRITE, key, self.value_of[key, at], 1) for key in writes]
            for at, writes in enumerate(problem.writes)
        ]

    def columns(self, pinned: Mapping[int, int]) -> TxnColumns:
        """With these looks (by number) at the versions of these writers."""
        reads: dict[int, list[tuple[int, int, int, int]]] = {}
        for number in sorted(pinned):
            look, writer = self.problem.looks[number], pinned[number]
            row = (READ, look.key, NIL, NULL_READ)
            if writer != BEGINNING:
                row = (READ, look.key, self.value_of[look.key, writer], 1)
            reads.setdefault(look.txn, []).append(row)
        rows: list[tuple[int, int, int, int]] = []
        start = [0]
        for at, writes in enumerate(self._writes):
            rows += reads.get(at, [])
            rows += writes
            start.append(len(rows))
        kind, key, value, known = np.array(rows, np.int64).reshape(-1, 4).T
        return TxnColumns(
            outcome=self._outcome,
            process=self._process,
            invoke_pos=self._invoke,
            complete_pos=self._complete,
            op_index=self._index,
            mop_start=np.array(start, np.int64),
            mop_kind=kind.astype(np.uint8),
            mop_key=key.astype(np.int32),
            mop_value=value.astype(np.int32),
            mop_known=known.astype(np.uint8),
            elem_start=np.zeros(len(rows) + 1, np.int64),
            elem=np.empty(0, np.int32),
            key_names=self._key_names,
            value_names=self._value_names,
        )


class Replay:
    """Of one problem. `between` is plain, session or realtime.

    Transactions are executed in an order, and what their reads would have seen is looked at. Under
    snapshot isolation a transaction sees a prefix of the commits: one that holds all that had ended
    before it began (where sessions or real time count) and the last commit before its own that
    wrote a key of its own (Cerone and Gotsman, "Analysing Snapshot Isolation", JACM 2018).
    """

    def __init__(self, problem: Problem, *, snapshot: bool, between: str) -> None:
        self.problem, self.snapshot, self.between = problem, snapshot, between
        self.looks: dict[int, list[int]] = {}
        for number, look in enumerate(problem.looks):
            self.looks.setdefault(look.txn, []).append(number)

    def wrong(self, order: Sequence[int], pinned: Mapping[int, int]) -> dict[int, int]:
        """Looks that see a version outside of their domain, by number, with its writer. Those that
        are `pinned` see theirs, which the order was made for."""
        places = {at: place for place, at in enumerate(order)}
        history: list[tuple[list[int], list[int]]] = [
            ([-1], [BEGINNING]) for _ in self.problem.names
        ]
        for place, at in enumerate(order):
            for key in self.problem.writes[at]:
                history[key][0].append(place)
                history[key][1].append(at)
        floors = self._floors(order) if self.snapshot else {}
        found: dict[int, int] = {}
        for at in order:
            if at not in self.looks:
                continue
            own = places[at]
            least = own
            if self.snapshot:
                wrote = [
                    history[key][0][bisect.bisect_left(history[key][0], own) - 1] + 1
                    for key in self.problem.writes[at]
                ]
                least = max([floors.get(at, 0), *wrote])
            found |= self._one(at, range(least, own + 1), history, pinned)
        return found

    def _floors(self, order: Sequence[int]) -> dict[int, int]:
        """How many commits each transaction must see for what had ended before it began."""
        txns = self.problem.txns
        if self.between == "plain":
            return {}
        ends: dict[int, list[tuple[int, int]]] = {}
        for place, at in enumerate(order):
            if txns[at].outcome is Outcome.OK:
                name = txns[at].process if self.between == "session" else 0
                ends.setdefault(name, []).append((txns[at].complete_pos, place + 1))
        top: dict[int, tuple[list[int], list[int]]] = {}
        for name, rows in ends.items():
            rows.sort()
            highest, most = 0, []
            for _, place in rows:
                highest = max(highest, place)
                most.append(highest)
            top[name] = [end for end, _ in rows], most
        found = {}
        for at in order:
            name = txns[at].process if self.between == "session" else 0
            if name in top:
                before = bisect.bisect_left(top[name][0], txns[at].invoke_pos)
                found[at] = top[name][1][before - 1] if before else 0
        return found

    def _one(
        self,
        at: int,
        prefixes: range,
        history: list[tuple[list[int], list[int]]],
        pinned: Mapping[int, int],
    ) -> dict[int, int]:
        """What is wrong with the reads of a transaction, in the prefix where the fewest are."""
        best: dict[int, int] | None = None
        for prefix in reversed(prefixes):
            wrong, fits = {}, True
            for number in self.looks[at]:
                look = self.problem.looks[number]
                places, writers = history[look.key]
                writer = writers[bisect.bisect_left(places, prefix) - 1]
                if number in pinned:
                    fits = fits and writer == pinned[number]
                elif writer not in look.domain:
                    wrong[number] = writer
            if fits and (best is None or len(wrong) < len(best)):
                best = wrong
                if not wrong:
                    break
        if best is None:
            raise AssertionError("the order does not give a transaction what it was pinned to")
        return best


@dataclass(frozen=True, slots=True)
class Leaf:
    """These choices (of those that were not forced) contradict what is forced; `involved` are
    transactions that refuted the order."""

    chosen: Pins
    involved: tuple[int, ...]


@dataclass(slots=True)
class Answer:
    """`decision` is valid, violated or open (`why`). `leaves` refute a violated one, and `forced`
    are the looks that had no choice; `tried` counts the questions to the engine."""

    decision: weak_models.Decision
    why: str = ""
    leaves: list[Leaf] = field(default_factory=list)
    forced: Pins = field(default_factory=dict)
    tried: int = 0


@dataclass(slots=True)
class _Frame:
    look: int
    left: Iterator[int]
    conflict: set[int] = field(default_factory=set)


def between_of(model: str) -> str:
    """What else relates transactions."""
    if model.startswith("strong-session"):
        return "session"
    return "realtime" if model.startswith("strong") else "plain"


class _Engine:
    """One question to the core after the other, within one budget."""

    def __init__(self, problem: Problem, model: str, budget: Budget) -> None:
        self.model, self.base, self.budget = model, Base(problem), budget
        self.deadline_ns = monotonic_ns() + int(budget.time_s * 1e9)
        self.has_order = model in order_search.MODELS
        self.calls = 0
        self.why = ""

    @property
    def over(self) -> bool:
        return monotonic_ns() > self.deadline_ns

    def ask(
        self, pins: Mapping[int, int]
    ) -> tuple[weak_models.Decision, list[int], tuple[int, ...]]:
        """The answer, an order that proves it, and the transactions that refuted one."""
        left_s = max(0.0, (self.deadline_ns - monotonic_ns()) / 1e9)
        budget = replace(self.budget, time_s=left_s)
        columns = self.base.columns(pins)
        self.calls += 1
        if self.has_order:
            order = order_search.decide(columns, [self.model], budget)
            said = order.decisions[self.model]
            if order.faults:
                said = "violated"
            self.why = order.why_open if said == "open" else self.why
            return said, order.order, tuple(order.involved.get(self.model, ()))
        return self._weak(columns, budget)

    def _weak(
        self, columns: TxnColumns, budget: Budget
    ) -> tuple[weak_models.Decision, list[int], tuple[int, ...]]:
        seen = weak_models.decide(columns, [self.model], budget)
        said = seen.decisions[self.model]
        self.why = seen.why_open if said == "open" else self.why
        steps = seen.cycles.get(self.model, [])
        named = {t for s in steps for t in (s.txn, s.to, s.reader, *s.way) if t >= 0}
        return said, [], tuple(sorted(named))


class _Search:
    def __init__(self, problem: Problem, model: str, budget: Budget) -> None:
        self.problem, self.engine = problem, _Engine(problem, model, budget)
        between, snapshot = between_of(model), "snapshot" in model
        self.replay = Replay(problem, snapshot=snapshot, between=between)
        self.forced = {n: k.domain[0] for n, k in enumerate(problem.looks) if len(k.domain) == 1}
        self.frames: list[_Frame] = []
        self.pins: Pins = {}
        self.learned: dict[tuple[int, int], list[Pins]] = {}
        self.learned_many = 0
        self.leaves: list[Leaf] = []
        self.open = ""
        self.last: list[int] = []

    def _answer(self, decision: weak_models.Decision, why: str = "") -> Answer:
        return Answer(decision, why, self.leaves, self.forced, self.engine.calls)

    def run(self) -> Answer:
        while True:
            if self.engine.over:
                return self._answer("open", self._spent())
            conflict = self._known()
            if conflict is None:
                said, order, involved = self.engine.ask(self.forced | self.pins)
                if said == "valid":
                    wrong = self._unexplained(order)
                    if not wrong:
                        return self._answer("valid")
                    self._branch(wrong, order)
                    continue
                if said == "open":
                    if not self.frames or self.engine.over:
                        return self._answer("open", self.engine.why or self._spent())
                    self.open = self.engine.why
                    conflict = set(self.pins)
                else:
                    conflict = self._learn(involved)
            if not self._back(conflict):
                return self._answer("open", self.open) if self.open else self._answer("violated")

    def _spent(self) -> str:
        total = sum(len(look.domain) > 1 for look in self.problem.looks)
        return (
            f"the time budget was spent with {len(self.pins)} of {total} reads that have several "
            f"versions to choose from pinned, after {self.engine.calls} questions; a larger "
            "--budget-s, or smaller groups of rows"
        )

    def _unexplained(self, order: list[int]) -> dict[int, int]:
        if self.engine.has_order:
            return self.replay.wrong(order, self.forced | self.pins)
        return {
            n: BEGINNING
            for n, look in enumerate(self.problem.looks)
            if len(look.domain) > 1 and n not in self.pins
        }

    def _branch(self, wrong: dict[int, int], order: list[int]) -> None:
        """Pins the look with the fewest versions, to the nearest one in the order first."""
        looks = self.problem.looks
        number = min(wrong, key=lambda n: (len(looks[n].domain), n))
        look = looks[number]
        place = {at: i for i, at in enumerate(order)} or {at: at for at in look.domain}
        here = place.get(look.txn, look.txn)

        def far(writer: int) -> tuple[bool, int]:
            at = place.get(writer, len(place) if writer != BEGINNING else -1)
            return at > here, abs(at - here)

        frame = _Frame(number, iter(sorted(look.domain, key=far)))
        self.frames.append(frame)
        self.pins[number] = next(frame.left)
        self.last = order

    def _known(self) -> set[int] | None:
        """The looks of something learned that the pins repeat."""
        if not self.frames:
            return None
        last = self.frames[-1].look
        for learned in self.learned.get((last, self.pins[last]), ()):
            if learned.items() <= self.pins.items():
                return set(learned)
        return None

    def _learn(self, involved: tuple[int, ...]) -> set[int]:
        """A small part of the pins that contradicts what is forced."""
        looks, kept = self.problem.looks, dict(self.pins)
        if kept:
            touched = set(involved)
            near = {n: w for n, w in kept.items() if looks[n].txn in touched or w in touched}
            if len(near) < len(kept) and self._violated(near):
                kept = near
            kept = self._fewer(kept)
        if len(self.leaves) < LEAVES_MAX:
            self.leaves.append(Leaf(kept, involved))
        if self.learned_many < LEARNED_MAX:
            self.learned_many += 1
            for pin in kept.items():
                self.learned.setdefault(pin, []).append(kept)
        return set(kept)

    def _fewer(self, pins: Pins) -> Pins:
        """As few of these as contradict what is forced, the last one among them: without it there
        was an order. Halves are tried before single ones."""
        step = max(1, (len(pins) - 1) // 2)
        while step:
            at = 0
            while at < len(pins) - 1:
                rows = list(pins.items())
                fewer = dict(rows[:at] + rows[min(at + step, len(rows) - 1) :])
                if self._violated(fewer):
                    pins = fewer
                else:
                    at += step
            step //= 2
        return pins

    def _violated(self, pins: Pins) -> bool:
        return not self.engine.over and self.engine.ask(self.forced | pins)[0] == "violated"

    def _back(self, conflict: set[int]) -> bool:
        """To the next choice that may help. False where there is none."""
        while self.frames:
            frame = self.frames[-1]
            if frame.look in conflict:
                frame.conflict |= conflict - {frame.look}
                for writer in frame.left:
                    self.pins[frame.look] = writer
                    return True
                conflict = frame.conflict
            self.frames.pop()
            del self.pins[frame.look]
        return False


def _guess(problem: Problem) -> Pins:
    """Each look at the last version that was there before it began, which makes no circle."""
    txns = problem.txns
    found = {}
    for number, look in enumerate(problem.looks):
        begun = txns[look.txn].invoke_pos
        early = [w for w in look.domain if w != BEGINNING and 0 <= txns[w].complete_pos < begun]
        found[number] = max(early, default=look.domain[0])
    return found


def guess_holds(problem: Problem, model: str, budget: Budget) -> bool:
    """Does a choice that is easily made satisfy a weak model?"""
    return _Engine(problem, model, budget).ask(_guess(problem))[0] == "valid"


def decide(problem: Problem, model: str, budget: Budget) -> Answer:
    """Is there such a choice under `model` (of `exact.MODELS`)? What single reads show
    (`problem.faults`) is left to the caller."""
    return _Search(problem, model, budget).run()
