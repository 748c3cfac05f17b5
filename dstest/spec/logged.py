"""A log against a specification: each line is a step, one after the other.

A gap (`mapping.GAP`) is where what wrote the log ended: it stands for the crash action of the
specification, with all that this may have lost.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from dstest.core.errors import ConfigError
from dstest.spec.frontier import Exceeded, Happening, Known, Stuck
from dstest.spec.mapping import GAP
from dstest.spec.model import Step
from dstest.spec.taking import Refused, Taker


class Logged:
    """A `Replay` of events."""

    def __init__(self, taker: Taker, frontier_max: int) -> None:
        self.taker = taker
        self.unknown_taken = self.left = 0
        self._most = frontier_max
        self._hidden = sorted(taker.model.spec.hidden)

    def begin(self) -> Known:
        """Nothing was written."""
        return Known(tuple((state, 0) for state in self.taker.begin()), {})

    def advance(self, known: Known, event: Happening) -> Known:
        """Past one line. Raises Stuck, Exceeded; ConfigError for a gap where the specification says
        of no action that it is a crash."""
        found: dict[Any, None] = {}
        refused: Counter[Refused] = Counter()
        states = self._with_hidden([state for state, _ in known.frontier])
        for state in states:
            if event.record.kind == GAP:
                after, why = self._crashed(state)
            else:
                after, why = self.taker.record(event.record, state)
            found.update(dict.fromkeys(after))
            refused.update(dict.fromkeys(why, 1))
            if len(found) > self._most:
                raise Exceeded
        if not found:
            raise Stuck(refused, len(states))
        return Known(tuple((state, 0) for state in found), {})

    def _crashed(self, state: Any) -> tuple[list[Any], list[Refused]]:
        name = self.taker.model.spec.crash
        if not name:
            raise ConfigError(
                f"the log has a gap, and {self.taker.model.name} has no crash",
                remedy='crash = "the action that a gap stands for"',
            )
        after = list(self.taker.all_of(state, [name]))
        return after, [] if after else [Refused(Step(name), "it is enabled with no arguments")]

    def _with_hidden(self, states: list[Any]) -> list[Any]:
        """And all that can be reached from them without a record."""
        found = dict.fromkeys(states)
        todo = list(found)
        while todo and self._hidden:
            for after in self.taker.all_of(todo.pop(), self._hidden):
                if after not in found:
                    found[after] = None
                    todo.append(after)
                    if len(found) > self._most:
                        raise Exceeded
        return list(found)
