"""Does a specification follow from its states alone? What is drawn at random, counted or read from
outside gives another step the next time: then an exploration holds what another one breaks, and a
seed does not walk the same ways.

A sample is asked again from the same state: the first `FIRST` states, and of those after it each
whose number is a power of two. It costs no more than that, and shows no more: what seldom differs
may be missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.spec.declare import Kind
from dstest.spec.model import Invariant, Model, Step, shown

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
        found = list(map(shown, model.initial))
        for _ in range(AGAIN * 2 if len(found) <= STARTS else 1):
            again = [shown(state) for state in model.spec.initial()]
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
            if shown(again) != shown(after):
                raise _otherwise(self._where(state, str(step)), shown(after), shown(again))

    def _where(self, state: Any, what: str) -> str:
        return f"{self._model.name}: {what}, twice from the same state {shown(state)},"

    def _same(self, state: Any, what: str, ask: Callable[[], Any]) -> None:
        first, *others = (shown(ask()) for _ in range(AGAIN))
        for other in others:
            if other != first:
                raise _otherwise(self._where(state, what), first, other)

    def _same_steps(
        self, state: Any, first: list[tuple[Step, Any]], again: list[tuple[Step, Any]]
    ) -> None:
        for (one, after), (other, later) in zip(first, again, strict=False):
            if shown(one) != shown(other):
                where = self._where(state, f"what can be done of {one.action} or {other.action}")
                raise _otherwise(where, str(one), str(other))
            if shown(after) != shown(later):
                raise _otherwise(self._where(state, str(one)), shown(after), shown(later))
        if len(first) != len(again):
            more = max(first, again, key=len)[min(len(first), len(again))][0]
            says = ("can be done", "cannot")
            says = says if len(first) > len(again) else (says[1], says[0])
            where = self._where(state, f"{more} of {more.action}, asked")
            raise ConfigError(f"{where} {says[0]}, and then {says[1]}", remedy=_REMEDY)


def _asked(one: Invariant, *given: Any) -> Callable[[], bool]:
    return lambda: one.asked(*given)
