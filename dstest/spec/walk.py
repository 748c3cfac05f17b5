"""Random walks through a model: violations, and what was never enabled or never stood in the way.

A guard that was true each time it was asked is listed: it may say nothing. Guards are asked in
their order, up to the first that does not hold.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.rng import stream
from dstest.spec.counts import Count, counted, vacuous
from dstest.spec.explore import Outcome, Violation
from dstest.spec.model import Action, Args, Model, Step
from dstest.spec.steady import Steady
from dstest.spec.trace import Trace


class Asked(msgspec.Struct):
    """How often a guard was true and false."""

    true: int = 0
    false: int = 0


class Walked(msgspec.Struct, kw_only=True):
    """`seed` with the walk's number makes one walk again. `guards` are by `action.label`.

    `stuck` counts walks that ended where nothing was enabled and the model may not stay.
    """

    seed: int
    walks: int = 0
    steps: int = 0
    longest: int = 0
    stuck: int = 0
    taken: dict[str, int]
    guards: dict[str, Asked]
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
) -> Walked:
    """Walks until the first violation. `start` is where they begin, an initial state where None.

    Raises ConfigError for a weight of no action, where the model goes wrong, and for what does not
    follow from the state alone (`steady.py`).
    """
    said = Walked(
        seed=seed,
        taken={one.name: 0 for one in model.actions},
        guards={f"{one.name}.{g.label}": Asked() for one in model.actions for g in one.guards},
        counts=counted(one for one in model.invariants if one.kind != "liveness"),
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
        said: Walked,
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
