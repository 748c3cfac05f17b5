"""Concurrent operations against a specification: each took effect once, between its invocation and
its completion, with the output that it had.

Operations take effect just in time: only when one completes that has not yet. Then all orders of
those that are open are tried that end with it. What only reads takes effect where it first can:
nothing is lost by that. What could as well take effect after the one that completes is left for
later. Of those under way it is known what they will return: the completion that is refused can be
one before that of the operation which has it wrong.

An operation of unknown outcome stays open for ever and may take effect or not; of two states that
differ in that alone, the one in which less has happened can do all that the other can, and stands
for both. Equal ones of unknown outcome take effect in their order.

Source: Lowe, "Testing for linearizability" (2017), just-in-time linearization; Herlihy and Wing,
"Linearizability" (1990).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from dstest.core.errors import ConfigError
from dstest.spec.frontier import Exceeded, Happening, Known, Stuck
from dstest.spec.mapping import Record
from dstest.spec.model import shown, truth
from dstest.spec.taking import Refused, Taker
from dstest.spec.wrong import remedy_for, told

_Config = tuple[Any, int]


class _Open:
    """An operation under way. `twins` are equal ones of unknown outcome before it, as bits."""

    __slots__ = ("_found", "_late", "bit", "candidates", "late_by", "reads", "record", "twins")

    def __init__(self, record: Record, bit: int, reads: bool, candidates: Any) -> None:
        self.record, self.bit, self.reads = record, bit, reads
        self.candidates, self.twins = candidates, 0
        self.late_by: Callable[[Any, Record], bool] | None = None
        self._found: dict[Any, list[Any]] = {}
        self._late: dict[Any, bool] = {}

    def reach(self, taker: Taker, state: Any) -> list[Any]:
        """The states after it, those that are equal once."""
        found = self._found.get(state)
        if found is None:
            found = list(dict.fromkeys(taker.record(self.record, state)[0]))
            if self.reads and any(after != state for after in found):
                raise ConfigError(
                    f"{self.record} is said to only read, and changes {shown(state)}",
                    remedy="only_reads is of records whose steps leave the state as it is",
                )
            if not self.record.known:
                found = [after for after in found if after != state]
            self._found[state] = found
        return found

    def too_late(self, taker: Taker, state: Any) -> bool:
        """Can it not happen any more, as the specification says? Raises ConfigError where it can at
        once."""
        late = self._late.get(state)
        if late is None:
            assert self.late_by is not None
            try:
                said = self.late_by(state, self.record)
                late = self._late[state] = truth(said, f"too_late of {self.record.kind!r}")
            except ConfigError:
                raise
            except Exception as error:
                raise ConfigError(
                    f"{self.record}: too_late goes wrong in {shown(state)}: {told(error)}",
                    remedy=f"it takes each record of its kind, in each state; {remedy_for(error)}",
                ) from None
            if late and self.reach(taker, state):
                raise ConfigError(
                    f"{self.record} is said to be too late in {shown(state)}, and can happen there",
                    remedy="too_late is of records that can never happen again",
                )
        return late

    def forget(self) -> None:
        self._found.clear()
        self._late.clear()


class Linearize:
    """A `Replay` of operations. `unknown_taken` counts how often one of unknown outcome was taken
    to have had an effect, `left` the states that lead nowhere, as `too_late` of a mapping says;
    `ahead` false does not ask that."""

    def __init__(self, taker: Taker, frontier_max: int, ahead: bool = True) -> None:
        self.taker, self.ahead = taker, ahead
        self.unknown_taken = self.left = 0
        self._most = frontier_max
        self._hidden = sorted(taker.model.spec.hidden)

    def begin(self) -> Known:
        """Nothing is under way."""
        return Known(tuple((state, 0) for state in self.taker.begin()), {})

    def advance(self, known: Known, event: Happening) -> Known:
        """Past an invocation or a completion. Raises Stuck, Exceeded, ConfigError."""
        if event.begins:
            return self._begun(known, event)
        return self._ended(known, event)

    def _begun(self, known: Known, event: Happening) -> Known:
        record, mapped = event.record, self.taker.mapped
        reads = mapped.only_reads(record)
        if reads and not record.known:
            return known
        bit = _free(known.open)
        candidates = None
        if not record.known and not mapped.of_state(record.kind):
            candidates = tuple(mapped.steps(record, None))
        one = _Open(record, bit, reads, candidates)
        if candidates is not None:
            for other in known.open.values():
                one.twins |= other.bit if other.candidates == candidates else 0
        if self.ahead and record.known:
            one.late_by = mapped.too_late(record)
        opened = {**known.open, event.number: one}
        if not (reads and record.known):
            return Known(known.frontier, opened)
        frontier = tuple(
            (state, done | bit if one.reach(self.taker, state) else done)
            for state, done in known.frontier
        )
        return Known(frontier, opened)

    def _ended(self, known: Known, event: Happening) -> Known:
        one: _Open = known.open[event.number]
        found, seen, late = self._search(known, one)
        if not found:
            raise self._stuck(event.record, seen, late)
        one.forget()
        rest = {number: o for number, o in known.open.items() if number != event.number}
        return Known(tuple(_least(found, _unknown(rest))), rest)

    def _search(
        self, known: Known, wanted: _Open
    ) -> tuple[list[_Config], dict[Any, None], Counter[_Open]]:
        """All in which `wanted` has taken effect, without its bit; the states that were looked at
        for it, and what was too late in how many."""
        unknown = _unknown(known.open)
        others = [one for one in known.open.values() if one is not wanted]
        reads = [one for one in known.open.values() if one.reads]
        found: dict[_Config, None] = {}
        least: dict[_Config, list[int]] = {}
        looked: dict[Any, None] = {}
        late: Counter[_Open] = Counter()
        timed = [one for one in known.open.values() if one.late_by is not None]
        todo: deque[_Config] = deque()

        def leads_on(state: Any, done: int) -> bool:
            for one in timed:
                if not done & one.bit and one.too_late(self.taker, state):
                    late[one] += 1
                    return False
            return True

        def met(state: Any, done: int, covered: bool) -> None:
            if not leads_on(state, done):
                looked[state] = None
                return
            if done & wanted.bit:
                found[state, done ^ wanted.bit] = None
                return
            if not covered:
                for after in wanted.reach(self.taker, state):
                    more = self._settled(reads, after, done)
                    if leads_on(after, more | wanted.bit):
                        found[after, more] = None
            if _less(least, state, done, unknown):
                todo.append((state, done))
            if len(found) + len(least) > self._most:
                raise Exceeded

        for state, done in known.frontier:
            met(state, done, False)
        while todo:
            self.taker.watch.look()
            state, done = todo.popleft()
            looked[state] = None
            for one, after in self._next(others, state, done):
                taken = done | (one.bit if one else 0)
                more = self._settled(reads, after, taken)
                met(after, more, more == taken and self._commute(state, one, after, wanted))
        self.left += late.total()
        return list(found), looked, late

    def _next(
        self, others: list[_Open], state: Any, done: int
    ) -> Iterator[tuple[_Open | None, Any]]:
        """What can take effect first, None for what is in no record, and the state after it."""
        for one in others:
            if done & one.bit or one.twins & ~done:
                continue
            for after in one.reach(self.taker, state):
                self.unknown_taken += not one.record.known
                yield one, after
        for after in self.taker.all_of(state, self._hidden):
            yield None, after

    def _commute(self, state: Any, one: _Open | None, after: Any, wanted: _Open) -> bool:
        """Is all that comes of `one` and then `wanted` also what comes of them the other way round?
        Then `one` can as well take effect later, when it has to."""
        if one is None:
            return False
        both = wanted.reach(self.taker, after)
        firsts = wanted.reach(self.taker, state)
        if not both or not firsts:
            return not both
        late = {last for first in firsts for last in one.reach(self.taker, first)}
        return late.issuperset(both)

    def _settled(self, reads: list[_Open], state: Any, done: int) -> int:
        for one in reads:
            if not done & one.bit and one.reach(self.taker, state):
                done |= one.bit
        return done

    def _stuck(self, record: Record, looked: dict[Any, None], late: Counter[_Open]) -> Stuck:
        refused = Counter(
            {Refused(None, f"{one.record} is too late after it"): n for one, n in late.items()}
        )
        for state in looked:
            refused.update(dict.fromkeys(self.taker.record(record, state)[1], 1))
        return Stuck(refused, len(looked))


def _free(open_: dict[int, _Open]) -> int:
    """The lowest bit that none of them has."""
    used = 0
    for one in open_.values():
        used |= one.bit
    return ~used & (used + 1)


def _unknown(open_: dict[int, _Open]) -> int:
    bits = 0
    for one in open_.values():
        bits |= 0 if one.record.known else one.bit
    return bits


def _less(least: dict[_Config, list[int]], state: Any, done: int, unknown: int) -> bool:
    """Is it new, and none that is there does all that it can? Then it is put there."""
    key = (state, done & ~unknown)
    applied = done & unknown
    there = least.get(key)
    if there is None:
        least[key] = [applied]
        return True
    if any(other & applied == other for other in there):
        return False
    there.append(applied)
    return True


def _least(found: list[_Config], unknown: int) -> Iterator[_Config]:
    """Without those that another one stands for."""
    least: dict[_Config, list[int]] = {}
    ordered = sorted(found, key=lambda one: (one[1] & unknown).bit_count())
    return (one for one in ordered if _less(least, *one, unknown))
