"""A system held to its specification step by step: the specification says what is done and what
must be answered, the system does it.

    class Shop(Spec):
        ...
        def answer_of(self, s, step, after):
            return len(after.paid)            # `...` where any answer will do

    class RealShop:
        def __init__(self, seed): ...         # a new system, in an initial state
        def take(self, step): ...             # does it, and returns what was answered
        def close(self): ...

A walk that ends in another answer is made shorter: a step is left out where what is left is still a
walk of the specification, and still ends in an answer that it does not have. Sources: Utting and
Legeard, "Practical Model-Based Testing" (2007); Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input" (2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.plugin_files import module_at, said_of
from dstest.core.rng import stream
from dstest.spec.model import Model, Step, shown
from dstest.spec.trace import Trace, walk_from
from dstest.spec.wrong import require_taking

_TRIES: Final = 200
"""Walks that are tried to make one shorter."""


class Subject(Protocol):
    """A system that does what it is told."""

    def take(self, step: Step) -> Any:
        """What it answers. An error that it raises is an answer that no specification has."""

    def close(self) -> None:
        """Nothing of it is left."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The last step of `trace` was answered otherwise than the specification has it. `adversaries`
    are the kinds of clients in it that keep to no rule; `full` is how many steps it took before it
    was made shorter."""

    walk: int
    trace: Trace
    wanted: str
    got: str
    adversaries: tuple[str, ...]
    full: int


class Driven(msgspec.Struct, kw_only=True):
    """`taken` counts the steps of each action, `compared` the answers that were held to one that
    the specification has. `vacuous` says why no answer could have been wrong."""

    seed: int
    walks: int = 0
    steps: int = 0
    taken: dict[str, int]
    compared: int = 0
    difference: Difference | None = None
    vacuous: list[str] = []

    @property
    def never_taken(self) -> list[str]:
        return [name for name, times in self.taken.items() if not times]


Make = Callable[[int], Subject]


def subject_of(given: str) -> Make:
    """`FILE.py:CLASS`, which is called with a seed. Raises ConfigError where there is none."""
    path, _, name = given.partition(":")
    if not path.endswith(".py") or not name:
        raise ConfigError(f"{given!r} is no system", remedy="FILE.py:CLASS")
    found = vars(module_at(Path(path).absolute())).get(name)
    if not callable(found) or not hasattr(found, "take"):
        raise ConfigError(f"{path} has no class {name} with take(step)", remedy="FILE.py:CLASS")
    make: Make = found
    return make


def drive_against(
    model: Model, make: Make, *, seed: int, walks: int = 100, max_steps: int = 20
) -> Driven:
    """Random walks of the model, each done by a system of its own, until the first difference.

    Raises ConfigError for a specification that does not say what is answered, for one that goes
    wrong, and for a system that cannot be made or ended.
    """
    if not callable(getattr(model.spec, "answer_of", None)):
        raise ConfigError(
            f"{model.name} does not say what is answered",
            remedy="def answer_of(self, s, step, after): what the step is answered, or ...",
        )
    given = ("s", "step", "after")
    require_taking(model.spec.answer_of, given, f"answer_of of {model.name}")  # type: ignore[attr-defined]
    said = Driven(seed=seed, taken={one.name: 0 for one in model.actions})
    for number in range(walks):
        dice = stream(seed, "against", number)
        trace = walk_from(model, dice.choice(model.initial), dice, max_steps)
        tried = _Tried(model, make, stream(seed, "system", number).randrange(1 << 32))
        found = tried.differs(trace.states[0], trace.steps)
        said.walks += 1
        said.compared += tried.compared
        done = trace.steps if found is None else found.steps
        said.steps += len(done)
        for step in done:
            said.taken[step.action] += 1
        if found is not None:
            said.difference = _difference(number, tried, found)
            break
        if tried.unended is not None:
            raise tried.unended
    if not said.compared and said.difference is None:
        said.vacuous.append(
            f"{model.name} has `...` for each step that was taken: no answer was compared"
        )
    return said


class _Tried:
    """Walks of one seed."""

    def __init__(self, model: Model, make: Make, seed: int) -> None:
        self.model, self._make, self._seed = model, make, seed
        self.compared = 0
        """Answers of the last walk that were held to one of the specification."""
        self.answers = ("", "")
        """What the last difference was to be answered, and what it was."""
        self.unended: ConfigError | None = None
        """What a system raised that was to be ended: a difference is told nevertheless."""

    def differs(self, start: Any, steps: Sequence[Step]) -> Trace | None:
        """The walk up to its first difference; None where it has none, or is no walk. Raises
        ConfigError for a system that cannot be made."""
        trace = self._walked(start, steps)
        if trace is None:
            return None
        try:
            subject = self._make(self._seed)
        except (Exception, SystemExit) as error:
            raise _broken("made", error) from None
        try:
            return self._taken(subject, trace)
        finally:
            try:
                subject.close()
            except (Exception, SystemExit) as error:
                self.unended = _broken("ended", error)

    def _taken(self, subject: Subject, trace: Trace) -> Trace | None:
        self.compared = 0
        for number, step in enumerate(trace.steps, 1):
            before, after = trace.states[number - 1 : number + 1]
            wanted = self._wanted(before, step, after)
            got = _taken(subject, step)
            self.compared += wanted is not ...
            if isinstance(got, str) or (wanted is not ... and got != (wanted,)):
                told = got if isinstance(got, str) else shown(got[0])
                self.answers = ("any answer" if wanted is ... else shown(wanted), told)
                return Trace(trace.states[: number + 1], trace.steps[:number])
        return None

    def _walked(self, start: Any, steps: Sequence[Step]) -> Trace | None:
        trace = Trace((start,))
        for step in steps:
            after = next((s for one, s in self.model.steps(trace.last) if one == step), None)
            if after is None:
                return None
            trace = trace.then(step, after)
        return trace

    def _wanted(self, before: Any, step: Step, after: Any) -> Any:
        try:
            return self.model.spec.answer_of(before, step, after)  # type: ignore[attr-defined]
        except ConfigError:
            raise
        except Exception as error:
            raise self.model.gone_wrong(before, error) from None


def _taken(subject: Subject, step: Step) -> tuple[Any] | str:
    """The answer, in a tuple; what it raised, in words."""
    try:
        return (subject.take(step),)
    except (Exception, SystemExit) as error:
        return said_of(error)


def _broken(how: str, error: BaseException) -> ConfigError:
    return ConfigError(
        f"the system cannot be {how}: {said_of(error)}",
        remedy="its own code raised that: CLASS(seed) makes it, and close() leaves nothing of it",
    )


def _difference(number: int, tried: _Tried, found: Trace) -> Difference:
    full = len(found.steps)
    found = _shorter(tried, found)
    again = tried.differs(found.states[0], found.steps)
    if again is None:
        raise ConfigError(
            f"the system answers walk {number} otherwise each time",
            remedy="all that is random in it has to come from the seed that it is given",
        )
    kinds = {one.name: one.adversary for one in tried.model.actions}
    named = sorted({kinds[step.action] for step in again.steps} - {""})
    wanted, got = tried.answers
    return Difference(
        walk=number, trace=again, wanted=wanted, got=got, adversaries=tuple(named), full=full
    )


def _shorter(tried: _Tried, found: Trace) -> Trace:
    """With no step that can be left out alone."""
    tries, at = 0, 0
    while at < len(found.steps) and tries < _TRIES:
        tries += 1
        less = tried.differs(found.states[0], [*found.steps[:at], *found.steps[at + 1 :]])
        if less is None:
            at += 1
        else:
            found, at = less, 0
    return found
