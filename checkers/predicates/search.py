"""Is there a choice of versions, and an order for it, that explains every read?

First only looks with one version left are pinned. What violates a model with fewer reads violates
it with all. An order that explains those is replayed: where every other look sees a version of its
domain, it proves the whole. Else one that does not is pinned to each of its versions in turn. A
choice that ends in a contradiction is learned as the pins that it takes, and pins that had nothing
to do with it are not tried again (Prosser, "Hybrid algorithms for the constraint satisfaction
problem", 1993).

Weak models give no order: there every look is pinned before anything is called valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from checkers.predicates.columns import Base
from checkers.predicates.replay import Replay
from checkers.predicates.versions import BEGINNING, Problem
from checkers.txn import decided, ordered
from checkers.txn.columns import TxnColumns
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns

MODELS: Final = (*ordered.MODELS, *decided.MODELS)

LEAVES_MAX: Final = 64
"""Contradictions that are kept for the explanation, which tells a few of them."""

LEARNED_MAX: Final = 200_000
"""Contradictions that are remembered; beyond them the search goes on without."""

Pins = dict[int, int]


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

    decision: decided.Decision
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
        self.has_order = model in ordered.MODELS
        self.calls = 0
        self.why = ""

    @property
    def over(self) -> bool:
        return monotonic_ns() > self.deadline_ns

    def ask(self, pins: Mapping[int, int]) -> tuple[decided.Decision, list[int], tuple[int, ...]]:
        """The answer, an order that proves it, and the transactions that refuted one."""
        left_s = max(0.0, (self.deadline_ns - monotonic_ns()) / 1e9)
        budget = replace(self.budget, time_s=left_s)
        columns = self.base.columns(pins)
        self.calls += 1
        if self.has_order:
            order = ordered.decide(columns, [self.model], budget)
            said = order.decisions[self.model]
            if order.faults:
                said = "violated"
            self.why = order.why_open if said == "open" else self.why
            return said, order.order, tuple(order.involved.get(self.model, ()))
        return self._weak(columns, budget)

    def _weak(
        self, columns: TxnColumns, budget: Budget
    ) -> tuple[decided.Decision, list[int], tuple[int, ...]]:
        seen = decided.decide(columns, [self.model], budget)
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

    def _answer(self, decision: decided.Decision, why: str = "") -> Answer:
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
    """Is there such a choice under `model` (of MODELS)? What single reads show (`problem.faults`)
    is left to the caller."""
    return _Search(problem, model, budget).run()
