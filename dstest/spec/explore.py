"""All states that a model can reach, breadth first: the first trace to a violation is a shortest
one.

Source: Clarke, Grumberg and Peled, "Model Checking" (1999), chapter 4; for deadlock and for what
must stay reachable, Lamport, "Specifying Systems" (2002), chapter 14.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.rng import stream
from dstest.spec.alike import alike
from dstest.spec.counts import Count, counted, vacuous
from dstest.spec.declare import Spec, State
from dstest.spec.model import Invariant, Model, Step, shown
from dstest.spec.steady import Steady
from dstest.spec.trace import Trace, walk_from

Outcome = Literal["holds", "violated", "bounded", "vacuous"]

FROZEN: Final = 2000
"""States of which it is looked at whether an action changes them."""

WALKS: Final = 100
WALK_STEPS: Final = 50
"""By which `canonical` is looked at."""

_Found = dict[Any, Any]
"""Canonical state -> the one before it, None for an initial one."""


class Violation(msgspec.Struct, frozen=True):
    """`id` is that of the invariant, or `deadlock`; `trace` leads to where it is seen."""

    id: str
    text: str
    trace: Trace


class Explored(msgspec.Struct, kw_only=True):
    """What was seen. `complete` is false where a bound ended the search; `depth` is how many steps
    the furthest state is away.

    `merged`: states stand for others, by the word of `canonical`, which a sample of walks was held
    against. `taken` counts the steps of each action. `outcome` is `vacuous` where an invariant was
    never evaluated, nothing was to be held, or no action was ever taken; `bounded` where no
    violation was met within the bounds.
    """

    states: int = 0
    steps: int = 0
    depth: int = 0
    complete: bool = True
    merged: bool = False
    taken: dict[str, int]
    counts: dict[str, Count]
    violations: list[Violation] = msgspec.field(default_factory=list)

    @property
    def never_taken(self) -> list[str]:
        """Actions that were enabled nowhere."""
        return [name for name, times in self.taken.items() if not times]

    @property
    def outcome(self) -> Outcome:
        """Violations first: those that were found are there, whatever was not seen."""
        if self.violations:
            return "violated"
        if not self.counts:
            return "vacuous"
        if not self.complete:
            return "bounded"
        return "vacuous" if vacuous(self.counts) or not self.steps else "holds"


def explore(
    model: Model,
    *,
    max_states: int = 1_000_000,
    max_depth: int | None = None,
    deadlock: bool = True,
    all_violations: bool = False,
) -> Explored:
    """Ends with the first violation, unless all are wanted: then each invariant's first one.

    Raises ConfigError where the model itself goes wrong: a guard, an update or an invariant that
    raises, a state of another type, and what does not follow from the state alone (`steady.py`).
    """
    search = _Search(model, max_states, max_depth, deadlock, all_violations)
    try:
        search.run()
    except (ConfigError, MemoryError):
        raise
    except Exception as error:
        raise model.gone_wrong(search.at, error) from None
    if search.said.merged and search.said.outcome == "holds":
        _walk_by(search)
    return search.said


def _walk_by(search: _Search) -> None:
    """What `canonical` makes one must be one: walks that go by each state as it is hold the
    invariants, and come by no state that the search has not seen. A sample, no proof."""
    model, said = search.model, search.said
    rng = stream(0, "canonical")
    for _ in range(WALKS):
        trace = walk_from(model, rng.choice(model.initial), rng, WALK_STEPS)
        for length, state in enumerate(trace.states):
            if model.canonical(state) not in search.found:
                raise ConfigError(
                    f"{model.name}: {shown(state)} can be reached, and no state that stands for it"
                    " was seen",
                    remedy="canonical() may make one of two states only where they differ in names",
                )
            bad = next((one for one in model.of_kind("state") if not one.asked(state)), None)
            if bad is not None:
                said.counts[bad.id].failed += 1
                way = Trace(trace.states[: length + 1], trace.steps[:length])
                said.violations.append(Violation(bad.id, bad.text, way))
                return


class _Search:
    def __init__(
        self,
        model: Model,
        max_states: int,
        max_depth: int | None,
        deadlock: bool,
        all_violations: bool,
    ) -> None:
        self.model = model
        self.said = Explored(
            taken={one.name: 0 for one in model.actions}, counts=counted(model.invariants)
        )
        self.at: Any = None
        self._most, self._deepest = max_states, max_depth
        self._deadlock, self._all = deadlock, all_violations
        self.found: _Found = {}
        self.said.merged = type(model.spec).canonical is not Spec.canonical
        self._keys: dict[Any, Any] = {}
        """Canonical state -> itself as it was first: what is equal may be of other types."""
        self._stands_for: dict[Any, Any] = {}
        """Canonical state -> the first one that was seen of it, where it may be another."""
        self._of_states = model.of_kind("state")
        self._of_steps = model.of_kind("action")
        self._sometimes = model.of_kind("sometimes")
        self._edges: list[tuple[Any, Any]] | None = [] if model.of_kind("liveness") else None
        self._seen_wrong: set[str] = set()
        self._steady = Steady(model, "state", "sometimes", "liveness")

    def run(self) -> None:
        """Until nothing is new, a bound is met, or a violation is enough."""
        model, said, found = self.model, self.said, self.found
        todo: deque[tuple[Any, Any, int]] = deque()
        self._steady.start()
        for state in model.initial:
            key = model.canonical(state)
            if key in found:
                if not alike(key, self._keys[key]):
                    raise self._mixed(key)
            else:
                found[key], self._keys[key] = None, key
                todo.append((state, key, 0))
                if self.said.merged:
                    self._stands_for[key] = state
                self._look_at(state, key)
        while todo and not self._enough():
            state, key, depth = todo.popleft()
            self.at = state
            if self._deepest is not None and depth >= self._deepest:
                said.complete = False
                continue
            stuck, before = True, shown(state) if len(found) < FROZEN else ""
            if self._steady.due():
                self._steady.steps(state)
            for step, after in model.steps(state):
                stuck = False
                said.steps += 1
                said.taken[step.action] += 1
                new = model.canonical(after)
                if new not in found:
                    if len(found) >= self._most:
                        said.complete = False
                        continue
                    found[new] = key
                    said.depth = max(said.depth, depth + 1)
                    self._keys[new] = new
                    todo.append((after, new, depth + 1))
                    if self.said.merged:
                        self._stands_for[new] = after
                    self._look_at(after, new)
                elif not alike(new, self._keys[new]):
                    raise self._mixed(new)
                if self._edges is not None:
                    self._edges.append((key, new))
                if self._of_steps:
                    self._look_at_step(key, state, step, after)
            if before and shown(state) != before:
                raise ConfigError(
                    f"{model.name}: an action has changed the state that it was given, {before}",
                    remedy="a state holds what is frozen: tuples, frozensets, numbers, text",
                )
            if stuck and self._deadlock and not model.done(state):
                self._wrong("deadlock", "no action is enabled, and it may not stay here", key)
        if todo:
            said.complete = False
        said.states = len(found)
        self._at_the_end()

    def _mixed(self, key: Any) -> ConfigError:
        return ConfigError(
            f"{self.model.name}: {shown(key)} and {shown(self._keys[key])} are equal, and of"
            " different types",
            remedy="values of one type in each place: 1, True and 1.0 are equal",
        )

    def _enough(self) -> bool:
        return bool(self.said.violations) and not self._all

    def _look_at(self, state: Any, key: Any) -> None:
        self.at = state
        counts = self.said.counts
        for one in self._of_states:
            if one.asked(state):
                counts[one.id].passed += 1
            else:
                counts[one.id].failed += 1
                self._wrong(one.id, one.text, key)
        for one in self._sometimes:
            if one.asked(state):
                counts[one.id].passed += 1

    def _look_at_step(self, key: Any, state: Any, step: Step, after: Any) -> None:
        for one in self._of_steps:
            if one.asked(state, step, after):
                self.said.counts[one.id].passed += 1
            else:
                self.said.counts[one.id].failed += 1
                self._wrong(one.id, one.text, key, (step, after))

    def _wrong(self, id_: str, text: str, key: Any, last: tuple[Step, State] | None = None) -> None:
        if id_ in self._seen_wrong:
            return
        self._seen_wrong.add(id_)
        trace = self.trace_to(key)
        self.said.violations.append(Violation(id_, text, trace.then(*last) if last else trace))

    def trace_to(self, key: Any) -> Trace:
        """A way there, done again from the beginning: a state may stand for others (`canonical`),
        whose steps have other arguments. Raises ConfigError where those cannot do what it did."""
        keys = [key]
        while (before := self.found[keys[-1]]) is not None:
            keys.append(before)
        keys.reverse()
        canonical = self.model.canonical
        trace = Trace((next(s for s in self.model.initial if canonical(s) == keys[0]),))
        for wanted in keys[1:]:
            ways = ((st, s) for st, s in self.model.steps(trace.last) if canonical(s) == wanted)
            way = next(ways, None)
            if way is None:
                raise ConfigError(
                    f"{self.model.name}: {shown(trace.last)} cannot do what the state that stands "
                    "for it can",
                    remedy="canonical() may make one of two states only where they differ in names",
                )
            trace = trace.then(*way)
        return trace

    def _at_the_end(self) -> None:
        """What only the whole can show: what never held, and from where it cannot be reached."""
        said = self.said
        if said.violations and not self._all:
            return
        for one in self._sometimes:
            if not said.counts[one.id].passed and said.complete:
                said.counts[one.id].failed += 1
                said.violations.append(
                    Violation(one.id, f"never: {one.text}", Trace((self.model.initial[0],)))
                )
        if said.complete:
            for one in self.model.of_kind("liveness"):
                self._reachable(one)

    def _reachable(self, one: Invariant) -> None:
        """From each state one in which it holds; walked backwards from those."""
        before: dict[Any, list[Any]] = {}
        for start, end in self._edges or []:
            before.setdefault(end, []).append(start)
        todo = [k for k in self.found if one.asked(self._stands_for.get(k, k))]
        good = set(todo)
        while todo:
            for start in before.get(todo.pop(), ()):
                if start not in good:
                    good.add(start)
                    todo.append(start)
        count = self.said.counts[one.id]
        count.passed, count.failed = len(good), len(self.found) - len(good)
        lost = next((key for key in self.found if key not in good), None)
        if lost is not None:
            self._wrong(one.id, f"cannot be reached any more: {one.text}", lost)
