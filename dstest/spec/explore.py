"""What a model can do: all states that it can reach, breadth first, so that the first trace to a
violation is a shortest one, or random walks through it; and what was never enabled, or as a guard
never stood in the way. Guards are asked in their order, up to the first that does not hold.

Steps have to follow from the states alone, or an exploration holds what another one breaks: a
sample is asked again (`Steady`), which shows no more than that: what seldom differs may be missed.
Source: Clarke, Grumberg and Peled, "Model Checking" (1999), chapter 4; for deadlock and for what
must stay reachable, Lamport, "Specifying Systems" (2002), chapter 14.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Set
from functools import cache
from typing import Any, Final, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.rng import stream
from dstest.spec.declare import Kind, Spec, State
from dstest.spec.model import (
    Action,
    Args,
    Count,
    Invariant,
    Model,
    Step,
    fields_of,
    new_counts,
    show,
    vacuous,
)
from dstest.spec.trace import Trace, walk_from

FIRST: Final = 100
"""States that are all asked again."""
AGAIN: Final = 3
"""How often each is."""
STARTS: Final = 100
"""Initial states, of which more are asked for once more alone."""

_REMEDY: Final = (
    "what is open is a parameter of the action, or an initial state; nothing is drawn, counted or "
    "read from outside"
)

Outcome = Literal["holds", "violated", "bounded", "vacuous"]

FROZEN: Final = 2000
"""States of which it is looked at whether an action changes them."""

WALKS: Final = 100

WALK_STEPS: Final = 50
"""By which `canonical` is looked at."""

_Found = dict[Any, Any]
"""Canonical state -> the one before it, None for an initial one."""


def _otherwise(what: str, first: str, second: str) -> ConfigError:
    return ConfigError(f"{what} gave {first}, and then {second}", remedy=_REMEDY)


def _first_other(one: list[str], other: list[str]) -> tuple[str, str]:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return a, b
    at = min(len(one), len(other))
    return (f"also {one[at]}", "not") if len(one) > at else ("no more", f"also {other[at]}")


class Steady:
    """What is asked again of a model. Each method raises ConfigError, by the action or invariant
    and both answers, where they differ."""

    def __init__(self, model: Model, *kinds: Kind) -> None:
        """`kinds` of invariants are asked again of states."""
        self._model = model
        self._of_states = model.of_kind(*kinds)
        self._of_steps = model.of_kind("action")
        self._number = 0

    def due(self) -> bool:
        """Is the next state in the sample?"""
        self._number = number = self._number + 1
        return number <= FIRST or number & (number - 1) == 0

    def start(self) -> None:
        """The initial states."""
        model = self._model
        found = list(map(show, model.initial))
        for _ in range(AGAIN * 2 if len(found) <= STARTS else 1):
            again = [show(state) for state in model.spec.initial()]
            if again != found:
                first, second = _first_other(found, again)
                raise _otherwise(f"{model.name}: initial(), asked twice,", first, second)

    def steps(self, state: Any) -> None:
        """All that can be done in a state, its domains and guards with it; `canonical`; and what
        is said of the state."""
        first = list(self._model.steps(state))
        for _ in range(AGAIN):
            self._same_steps(state, first, list(self._model.steps(state)))
        self._same(state, "canonical()", lambda: self._model.canonical(state))
        if not first:
            self._same(state, "done()", lambda: self._model.done(state))
        for one in self._of_states:
            self._same(state, f"invariant {one.id}", _asked(one, state))
        for step, after in first:
            for one in self._of_steps:
                self._same(state, f"invariant {one.id}", _asked(one, state, step, after))

    def taken(self, state: Any, step: Step, after: Any) -> None:
        """One step, whose arguments came from elsewhere than its domains."""
        action = self._model.action(step.action)
        for _ in range(AGAIN):
            again = action.update(state, step.args)
            if show(again) != show(after):
                raise _otherwise(self._where(state, str(step)), show(after), show(again))

    def _where(self, state: Any, what: str) -> str:
        return f"{self._model.name}: {what}, twice from the same state {show(state)},"

    def _same(self, state: Any, what: str, ask: Callable[[], Any]) -> None:
        first, *others = (show(ask()) for _ in range(AGAIN))
        for other in others:
            if other != first:
                raise _otherwise(self._where(state, what), first, other)

    def _same_steps(
        self, state: Any, first: list[tuple[Step, Any]], again: list[tuple[Step, Any]]
    ) -> None:
        for (one, after), (other, later) in zip(first, again, strict=False):
            if show(one) != show(other):
                where = self._where(state, f"what can be done of {one.action} or {other.action}")
                raise _otherwise(where, str(one), str(other))
            if show(after) != show(later):
                raise _otherwise(self._where(state, str(one)), show(after), show(later))
        if len(first) != len(again):
            more = max(first, again, key=len)[min(len(first), len(again))][0]
            says = ("can be done", "cannot")
            says = says if len(first) > len(again) else (says[1], says[0])
            where = self._where(state, f"{more} of {more.action}, asked")
            raise ConfigError(f"{where} {says[0]}, and then {says[1]}", remedy=_REMEDY)


def _asked(one: Invariant, *given: Any) -> Callable[[], bool]:
    return lambda: one.asked(*given)


def alike(one: Any, two: Any) -> bool:
    """Are two equal values of the same types, and all that they hold? Of objects that are no
    dataclass, struct, tuple, set or mapping their own equality decides.

    In Python `1 == True == 1.0`, and a named tuple is equal to a plain one: states that differ in
    such a value only must not stand for one another.
    """
    if one is two:
        return True
    kind = type(one)
    if kind is not type(two):
        return False
    inside = _inside(kind)  # type: ignore[arg-type]  # a class can be hashed
    return inside is None or inside(one, two)


@cache
def _inside(kind: type) -> Callable[[Any, Any], bool] | None:
    """How values of a type are compared by what they hold; None where they hold nothing."""
    if issubclass(kind, tuple | list):
        return _in_order
    if issubclass(kind, Set):
        return _of_sets
    if issubclass(kind, Mapping):
        return _of_mappings
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__struct_fields__"):
        return _of_fields
    return None


def _in_order(one: Any, two: Any) -> bool:
    return all(map(alike, one, two))


def _of_sets(one: Any, two: Any) -> bool:
    theirs = {value: value for value in two}
    return all(alike(value, theirs[value]) for value in one)


def _of_mappings(one: Any, two: Any) -> bool:
    return _of_sets(one.keys(), two.keys()) and all(alike(one[key], two[key]) for key in one)


def _of_fields(one: Any, two: Any) -> bool:
    mine = fields_of(one) or {}
    return all(alike(value, getattr(two, name)) for name, value in mine.items())


class Violation(msgspec.Struct, frozen=True):
    """`id` is that of the invariant, or `deadlock`; `trace` leads to where it is seen."""

    id: str
    text: str
    trace: Trace


class Exploration(msgspec.Struct, kw_only=True):
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
) -> Exploration:
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
                    f"{model.name}: {show(state)} can be reached, and no state that stands for it"
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
        self.said = Exploration(
            taken={one.name: 0 for one in model.actions}, counts=new_counts(model.invariants)
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
            stuck, before = True, show(state) if len(found) < FROZEN else ""
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
            if before and show(state) != before:
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
            f"{self.model.name}: {show(key)} and {show(self._keys[key])} are equal, and of"
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
                    f"{self.model.name}: {show(trace.last)} cannot do what the state that stands "
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


class GuardCount(msgspec.Struct):
    """How often a guard was true and false."""

    true: int = 0
    false: int = 0


class WalkResult(msgspec.Struct, kw_only=True):
    """`seed` with the walk's number makes one walk again. `guards` are by `action.label`.

    `stuck` counts walks that ended where nothing was enabled and the model may not stay.
    """

    seed: int
    walks: int = 0
    steps: int = 0
    longest: int = 0
    stuck: int = 0
    taken: dict[str, int]
    guards: dict[str, GuardCount]
    counts: dict[str, Count]
    violations: list[Violation] = msgspec.field(default_factory=list)
    walk_of_violation: int | None = None

    @property
    def never_taken(self) -> list[str]:
        """Actions that were never chosen."""
        return [name for name, times in self.taken.items() if not times]

    @property
    def never_false(self) -> list[str]:
        """Guards that were asked and never stood in the way."""
        return [label for label, one in self.guards.items() if one.true and not one.false]

    @property
    def outcome(self) -> Outcome:
        """No number of walks shows that something holds: without a violation it is `bounded`."""
        if self.violations:
            return "violated"
        return "vacuous" if not self.steps or vacuous(self.counts) or not self.counts else "bounded"


def walk(
    model: Model,
    *,
    seed: int,
    walks: int = 100,
    max_steps: int = 100,
    weights: Mapping[str, float] | None = None,
    start: Any = None,
    deadlock: bool = True,
) -> WalkResult:
    """Walks until the first violation. `start` is where they begin, an initial state where None.

    Raises ConfigError for a weight of no action, where the model goes wrong, and for what does not
    follow from the state alone (`steady.py`).
    """
    said = WalkResult(
        seed=seed,
        taken={one.name: 0 for one in model.actions},
        guards={f"{one.name}.{g.label}": GuardCount() for one in model.actions for g in one.guards},
        counts=new_counts(one for one in model.invariants if one.kind != "liveness"),
    )
    heavy = {one.name: one.weight for one in model.actions}
    for name, weight in (weights or {}).items():
        heavy[model.action(name).name] = weight
    steady = Steady(model, "state", "sometimes")
    steady.start()
    for number in range(walks):
        one = _Walk(model, said, heavy, stream(seed, "walk", number), deadlock, steady)
        said.walks += 1
        one.run(start, max_steps)
        if said.violations:
            said.walk_of_violation = number
            break
    return said


class _Walk:
    def __init__(
        self,
        model: Model,
        said: WalkResult,
        heavy: Mapping[str, float],
        rng: random.Random,
        deadlock: bool,
        steady: Steady,
    ) -> None:
        self._steady = steady
        self._model, self._said, self._heavy, self._rng = model, said, heavy, rng
        self._deadlock = deadlock
        self.stuck = False
        """Was nothing at all enabled when it was last asked?"""

    def run(self, start: Any, max_steps: int) -> None:
        """One walk, into what is said of all."""
        begin = self._rng.choice(self._model.initial) if start is None else start
        states, steps = [begin], list[Step]()
        try:
            self._look_at(begin, states, steps)
            while len(steps) < max_steps and not self._said.violations:
                if self._steady.due():
                    self._steady.steps(states[-1])
                step = self._choose(states[-1])
                if step is None:
                    self._at_an_end(states, steps)
                    break
                after = self._model.action(step.action).update(states[-1], step.args)
                self._look_at_step(states, steps, step, after)
        except ConfigError:
            raise
        except Exception as error:
            raise self._model.gone_wrong(states[-1], error) from None
        self._said.steps += len(steps)
        self._said.longest = max(self._said.longest, len(steps))

    def _choose(self, state: Any) -> Step | None:
        """By weight among the actions that are enabled, then among their arguments."""
        open_: list[tuple[Action, list[Args]]] = []
        for one in self._model.actions:
            ways = [args for args in one.choices(state) if self._asked(one, state, args)]
            if ways:
                open_.append((one, ways))
        self.stuck = not open_
        wanted = [row for row in open_ if self._heavy[row[0].name] > 0]
        if not wanted:
            return None
        (chosen, ways) = self._rng.choices(wanted, [self._heavy[one.name] for one, _ in wanted])[0]
        self._said.taken[chosen.name] += 1
        return Step(chosen.name, self._rng.choice(ways))

    def _asked(self, one: Action, state: Any, args: Args) -> bool:
        for guard in one.guards:
            record = self._said.guards[f"{one.name}.{guard.label}"]
            if not guard.asked(state, args):
                record.false += 1
                return False
            record.true += 1
        return True

    def _look_at(self, state: Any, states: list[Any], steps: list[Step]) -> None:
        counts = self._said.counts
        for one in self._model.of_kind("state", "sometimes"):
            if one.asked(state):
                counts[one.id].passed += 1
            elif one.kind == "state":
                counts[one.id].failed += 1
                self._wrong(one.id, one.text, states, steps)

    def _look_at_step(self, states: list[Any], steps: list[Step], step: Step, after: Any) -> None:
        before = states[-1]
        states.append(after)
        steps.append(step)
        for one in self._model.of_kind("action"):
            if one.asked(before, step, after):
                self._said.counts[one.id].passed += 1
            else:
                self._said.counts[one.id].failed += 1
                self._wrong(one.id, one.text, states, steps)
        self._look_at(after, states, steps)

    def _at_an_end(self, states: list[Any], steps: list[Step]) -> None:
        if self._deadlock and self.stuck and not self._model.done(states[-1]):
            self._said.stuck += 1
            text = "no action is enabled, and it may not stay here"
            self._wrong("deadlock", text, states, steps)

    def _wrong(self, id_: str, text: str, states: list[Any], steps: list[Step]) -> None:
        if not self._said.violations:
            self._said.violations.append(Violation(id_, text, Trace(tuple(states), tuple(steps))))
