"""Records replayed through a model: what is known after each of them, and where it ends.

A `Replay` is a way to advance past one event; `linearize.py` has that of concurrent operations,
`logged.py` that of a log. What is known is a frontier: all states in which
the specification can be then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from dstest.core.errors import ConfigError
from dstest.spec.mapping import Record
from dstest.spec.taking import Refused, Taker


class Happening(NamedTuple):
    """An event of a replay. `begins`: an operation was invoked; else it completed, or a line of a
    log was met. `number` tells records apart, `place` is that of the completion among all
    completions, or of the line."""

    begins: bool
    number: int
    record: Record
    place: int | None


class Known(NamedTuple):
    """`frontier` are states, each with the set of open operations that have taken effect, as bits;
    `open` are the operations that are under way, by number."""

    frontier: tuple[tuple[Any, int], ...]
    open: dict[int, Any]


class Stuck(Exception):
    """No state can do it. `refused` counts what refused which candidate."""

    def __init__(self, refused: Counter[Refused], states: int) -> None:
        super().__init__("no state can do it")
        self.refused, self.states = refused, states


class Exceeded(Exception):
    """More states than may be looked at for one record."""


class Replay(Protocol):
    """`unknown_taken` counts how often an operation of unknown outcome was taken to have had an
    effect, `left` the states that were left since they lead nowhere."""

    taker: Taker
    unknown_taken: int
    left: int

    def begin(self) -> Known: ...

    def advance(self, known: Known, event: Happening) -> Known:
        """Raises Stuck or Exceeded."""
        ...


class Ended(NamedTuple):
    """How far a replay came. `at` is the event at which it ended, None at the end of all; `before`
    has what was known before each event that was met, where that is kept."""

    at: int | None
    before: list[Known]
    last: Known
    peak: int
    stuck: Stuck | None = None
    exceeded: bool = False


def run(
    replay: Replay,
    events: Iterable[Happening],
    known: Known | None = None,
    keep: bool = False,
    doing: str = "",
) -> Ended:
    """From the beginning, or from what is known; `doing` is told of as it goes on. Raises
    ConfigError where the model can begin in no state, Spent where that is looked at."""
    if known is None:
        known = replay.begin()
        if not known.frontier:
            raise ConfigError(
                "the specification can begin in no state",
                remedy="an invariant fails in each of its initial states",
            )
    before: list[Known] = []
    peak = len(known.frontier)
    for place, event in enumerate(events):
        if keep:
            before.append(known)
        watch = replay.taker.watch
        watch.look()
        if doing:
            watch.doing = f"{doing}: at {place}, {len(known.frontier)} states"
        try:
            known = replay.advance(known, event)
        except Stuck as stuck:
            return Ended(place, before, known, peak, stuck=stuck)
        except Exceeded:
            return Ended(place, before, known, peak, exceeded=True)
        peak = max(peak, len(known.frontier))
    return Ended(None, before, known, peak)
