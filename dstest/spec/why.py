"""Why an action cannot be taken: the guards that stand in the way, and those that contradict one
another.

A guard of a part and one of the whole that can never hold together leave no counterexample: the
action is simply never taken. So all states that can be reached are asked which guards hold there;
a smallest set of guards that never hold together, though each does somewhere, is the reason.
Source: Liffiton and Sakallah, "Algorithms for Computing Minimal Unsatisfiable Subsets of
Constraints" (2008), for what minimal means.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.rng import stream
from dstest.spec.expressions import operands, text_of
from dstest.spec.model import Action, Args, Guard, Model, Step
from dstest.spec.trace import Trace, walk_from, way_to

LARGEST: int = 4
"""Guards of a contradiction, at most: larger sets would be read by nobody."""

WALK_STEPS: int = 50

Truth = Literal["true", "false", "undefined"]


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A guard that does not hold for these arguments, or raises: then `truth` is `undefined`.
    `operands` are what it compares, with their values."""

    args: dict[str, Any]
    guard: str
    level: str
    text: str
    truth: Truth
    operands: dict[str, str]


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Guards that held nowhere together, each of which held somewhere: labels and their levels.
    `proved` where all states that can be reached were asked."""

    guards: tuple[str, ...]
    levels: tuple[str, ...]
    proved: bool

    @property
    def across(self) -> bool:
        """Do they stand at several levels?"""
        return len(set(self.levels)) > 1


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """`refused` is of the state that was asked about, each argument on its own: all of its guards
    would have to go. `path` leads to a state in which the action can be taken, where there is one.

    `never` are guards that held nowhere. `asked` counts the states, `complete` says that there are
    no more.
    """

    action: str
    enabled: tuple[Args, ...]
    refused: tuple[Refusal, ...]
    path: Trace | None
    step: Step | None
    never: tuple[str, ...]
    contradictions: tuple[Contradiction, ...]
    asked: int
    complete: bool


def refusals(model: Model, action: Action, state: Any, args: Args) -> list[Refusal]:
    """The guards that do not hold, every one of them asked."""
    given = dict(zip(action.params, args, strict=True))
    found = []
    for guard in action.guards:
        truth = _truth(guard, state, args)
        if truth != "true":
            found.append(
                Refusal(
                    args=given,
                    guard=guard.label,
                    level=guard.level,
                    text=text_of(guard.source),
                    truth=truth,
                    operands=operands(guard.source, _names(model, guard, state, given)),
                )
            )
    return found


def _truth(guard: Guard, state: Any, args: Args) -> Truth:
    try:
        return "true" if guard.asked(state, args) else "false"
    except ConfigError:
        raise
    except Exception:  # it relies on a guard before it, which does not hold either
        return "undefined"


def _names(model: Model, guard: Guard, state: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What the guard's function calls `self` and `s`: a part's guard sees the part."""
    part = guard.level.partition("sub:")[2]
    if not part:
        return {"self": model.spec, "s": state, **given}
    parts = getattr(model.spec, "parts", {})
    return {"self": parts.get(part), "s": getattr(state, part), **given}


def why(
    model: Model,
    name: str,
    states: Sequence[Any],
    args: Args | None = None,
    *,
    seed: int = 0,
    most_states: int = 20_000,
    walks: int = 1000,
) -> Why:
    """Asks of `states`, then of those that can be reached from there: all of them up to
    `most_states`, and where those are more, also what that many walks come by.

    Raises ConfigError where there is no such action.
    """
    action = model.action(name)
    enabled: list[Args] = []
    refused: list[Refusal] = []
    for state in states:
        for one in [args] if args is not None else action.choices(state):
            rows = refusals(model, action, state, one)
            refused += rows
            if not rows:
                enabled.append(one)
    seen = _Seen(model, action, args)
    complete = seen.all_from(states, most_states)
    if not complete and seen.found is None:
        seen.by_walks(states, walks, stream(seed, "why"))
    found = seen.found
    return Why(
        action=name,
        enabled=tuple(enabled),
        refused=tuple(refused),
        path=found[0] if found else None,
        step=found[1] if found else None,
        never=tuple(g.label for i, g in enumerate(action.guards) if not seen.ever & (1 << i)),
        contradictions=() if found else tuple(_contradictions(action, seen, complete)),
        asked=len(seen.states),
        complete=complete,
    )


class _Seen:
    """Which guards held together, as sets of bits, over all states that were asked."""

    def __init__(self, model: Model, action: Action, args: Args | None) -> None:
        self._model, self._action, self._args = model, action, args
        self._all = (1 << len(action.guards)) - 1
        self.masks: set[int] = set()
        self.ever = 0
        self.states: set[Any] = set()
        self.found: tuple[Trace, Step] | None = None

    def ask(self, state: Any) -> Step | None:
        """The action with arguments for which all guards hold here."""
        self.states.add(state)
        ways = [self._args] if self._args is not None else self._action.choices(state)
        for args in ways:
            mask = 0
            for bit, guard in enumerate(self._action.guards):
                if _truth(guard, state, args) == "true":
                    mask |= 1 << bit
            self.masks.add(mask)
            self.ever |= mask
            if mask == self._all:
                return Step(self._action.name, args)
        return None

    def all_from(self, starts: Sequence[Any], most: int) -> bool:
        """Breadth first, until the action can be taken. Were that all states?"""
        before: dict[Any, tuple[Any, Step] | None] = dict.fromkeys(starts)
        todo = deque(before)
        while todo:
            state = todo.popleft()
            step = self.ask(state)
            if step is not None:
                self.found = way_to(before, state), step
                return False
            for done, after in self._model.steps(state):
                if after not in before:
                    if len(before) >= most:
                        return False
                    before[after] = (state, done)
                    todo.append(after)
        return True

    def by_walks(self, starts: Sequence[Any], walks: int, rng: random.Random) -> None:
        """States that lie further away."""
        for _ in range(walks):
            trace = walk_from(self._model, rng.choice(starts), rng, WALK_STEPS)
            for length, state in enumerate(trace.states):
                step = None if state in self.states else self.ask(state)
                if step is not None:
                    self.found = Trace(trace.states[: length + 1], trace.steps[:length]), step
                    return


def _contradictions(action: Action, seen: _Seen, proved: bool) -> Iterator[Contradiction]:
    """Smallest first, those across levels before the others of their size."""
    guards = [(bit, g) for bit, g in enumerate(action.guards) if seen.ever & (1 << bit)]
    found: list[int] = []
    for size in range(2, min(LARGEST, len(guards)) + 1):
        here: list[Contradiction] = []
        for chosen in itertools.combinations(guards, size):
            mask = sum(1 << bit for bit, _ in chosen)
            if any(mask & one == one for one in found):
                continue
            if not any(mask & one == mask for one in seen.masks):
                found.append(mask)
                here.append(
                    Contradiction(
                        guards=tuple(g.label for _, g in chosen),
                        levels=tuple(g.level for _, g in chosen),
                        proved=proved,
                    )
                )
        yield from sorted(here, key=lambda one: not one.across)
