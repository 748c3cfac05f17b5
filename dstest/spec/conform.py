"""Is what was recorded a behaviour of the specification?

`conform_history` asks that of concurrent operations as clients saw them (`Linearize`),
`conform_log` of what a server wrote down, in its order (`LogReplay`). Each replays all records
through the model, and then holds itself to controls (`controlled` in `against.py`): an answer that
could not have been another one is no `accept`.

A specification of one key (`per_key`) is asked of each key alone: a history of independent objects
is linearizable where each object's part is (Herlihy and Wing, "Linearizability", 1990; Horn and
Kroening, "Faster linearizability checking via P-compositionality", 2015).
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.op import Op, Outcome
from dstest.spec.against import controlled
from dstest.spec.conformance import SHOWN_MAX, ConformResult, Refusal
from dstest.spec.declare import Spec, error_text, remedy_for
from dstest.spec.mapping import GAP, Event, Mapped, Record, record_of
from dstest.spec.merge import Exceeded, Frontier, Happening, Replay, ReplayEnd, Stuck, run
from dstest.spec.model import Model, Spent, Step, Watch, show, truth
from dstest.spec.taking import RefusedStep, Taker
from dstest.spec.trace import constants_shown

_Config = tuple[Any, int]

Explain = Callable[[Model, Mapped, list[Happening], int | None, Watch], None]
"""Is given the part of the records in which one was refused, the largest where none was, and the
place of the one refused (`dstest.spec.explained`)."""


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
                    f"{self.record} is said to only read, and changes {show(state)}",
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
                    f"{self.record}: too_late goes wrong in {show(state)}: {error_text(error)}",
                    remedy=f"it takes each record of its kind, in each state; {remedy_for(error)}",
                ) from None
            if late and self.reach(taker, state):
                raise ConfigError(
                    f"{self.record} is said to be too late in {show(state)}, and can happen there",
                    remedy="too_late is of records that can never happen again",
                )
        return late

    def forget(self) -> None:
        self._found.clear()
        self._late.clear()


class Linearize:
    """A `Replay` of operations. `unknown_taken` counts how often one of unknown outcome was taken
    to have had an effect, `left` the states that lead nowhere, as `too_late` of a mapping says;
    `ahead` false does not ask that.

    Each took effect once, between its invocation and its completion, with the output that it had:
    just in time, only when one completes that has not yet. Then all orders of those that are open
    are tried that end with it. What only reads takes effect where it first can: nothing is lost by
    that. What could as well take effect after the one that completes is left for later. Of those
    under way it is known what they will return: the completion that is refused can be one before
    that of the operation which has it wrong.

    An operation of unknown outcome stays open for ever and may take effect or not; of two states
    that differ in that alone, the one in which less has happened can do all that the other can, and
    stands for both. Equal ones of unknown outcome take effect in their order. Source: Lowe,
    "Testing for linearizability" (2017), just-in-time linearization.
    """

    def __init__(self, taker: Taker, frontier_max: int, ahead: bool = True) -> None:
        self.taker, self.ahead = taker, ahead
        self.unknown_taken = self.left = 0
        self._most = frontier_max
        self._hidden = sorted(taker.model.spec.hidden)

    def begin(self) -> Frontier:
        """Nothing is under way."""
        return Frontier(tuple((state, 0) for state in self.taker.begin()), {})

    def advance(self, known: Frontier, event: Happening) -> Frontier:
        """Past an invocation or a completion. Raises Stuck, Exceeded, ConfigError."""
        if event.begins:
            return self._begun(known, event)
        return self._ended(known, event)

    def _begun(self, known: Frontier, event: Happening) -> Frontier:
        record, mapped = event.record, self.taker.mapped
        reads = mapped.only_reads(record)
        if reads and not record.known:
            return known
        bit = _free(known.open)
        candidates = None
        if not record.known and not mapped.of_state(record.kind):
            candidates = tuple(mapped.steps(record, None))
        one = _Open(record, bit, reads, candidates)
        if candidates is not None and mapped.after(record) is None:  # which may tell them apart
            for other in known.open.values():
                one.twins |= other.bit if other.candidates == candidates else 0
        if self.ahead and record.known:
            one.late_by = mapped.too_late(record)
        opened = {**known.open, event.number: one}
        if not (reads and record.known):
            return Frontier(known.frontier, opened)
        frontier = tuple(
            (state, done | bit if one.reach(self.taker, state) else done)
            for state, done in known.frontier
        )
        return Frontier(frontier, opened)

    def _ended(self, known: Frontier, event: Happening) -> Frontier:
        one: _Open = known.open[event.number]
        found, seen, late = self._search(known, one)
        if not found:
            raise self._stuck(event.record, seen, late)
        one.forget()
        rest = {number: o for number, o in known.open.items() if number != event.number}
        return Frontier(tuple(_least(found, _unknown(rest))), rest)

    def _search(
        self, known: Frontier, wanted: _Open
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
            {RefusedStep(None, f"{one.record} is too late after it"): n for one, n in late.items()}
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


class LogReplay:
    """A `Replay` of events.

    Each line is a step, one after the other. A gap (`mapping.GAP`) is where what wrote the log
    ended: it stands for the crash action of the specification, with all that this may have lost.
    """

    def __init__(self, taker: Taker, frontier_max: int) -> None:
        self.taker = taker
        self.unknown_taken = self.left = 0
        self._most = frontier_max
        self._hidden = sorted(taker.model.spec.hidden)

    def begin(self) -> Frontier:
        """Nothing was written."""
        return Frontier(tuple((state, 0) for state in self.taker.begin()), {})

    def advance(self, known: Frontier, event: Happening) -> Frontier:
        """Past one line. Raises Stuck, Exceeded; ConfigError for a gap where the specification says
        of no action that it is a crash."""
        found: dict[Any, None] = {}
        refused: Counter[RefusedStep] = Counter()
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
        return Frontier(tuple((state, 0) for state in found), {})

    def _crashed(self, state: Any) -> tuple[list[Any], list[RefusedStep]]:
        name = self.taker.model.spec.crash
        if not name:
            raise ConfigError(
                f"the log has a gap, and {self.taker.model.name} has no crash",
                remedy='crash = "the action that a gap stands for"',
            )
        after = list(self.taker.all_of(state, [name]))
        return after, [] if after else [RefusedStep(Step(name), "it is enabled with no arguments")]

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


FRONTIER_MAX: Final = 20_000
"""How many states are looked at for one record, unless more are asked for."""


def conform_history(
    model: Model,
    ops: Iterable[Op],
    *,
    frontier_max: int = FRONTIER_MAX,
    watch: Watch | None = None,
    explain: Explain | None = None,
) -> ConformResult:
    """Operations in any order, judged by their times.

    ok: took effect once in [invoke, complete], with its output. fail: had no effect. unknown, also
    what never completed: took effect at some time after its invocation, or never. Raises
    ConfigError for a kind of operation that is neither mapped nor ignored, for a specification
    that cannot take them, and for operations of several keys where nothing looks at the key;
    HistoryError for one that completes before it is invoked.
    """
    mapped = Mapped(model)
    said = _begun(model, "history")
    given = list(ops)
    order = sorted(
        (op.complete_ts, at) for at, op in enumerate(given) if op.outcome is not Outcome.UNKNOWN
    )
    index = {at: place for place, (_, at) in enumerate(order)}
    said.total = len(order)
    parts: dict[object, list[tuple[int, Op, Record]]] = {}
    for at, op in enumerate(given):
        if op.complete_ts is not None and op.complete_ts < op.invoke_ts:
            raise HistoryError(
                f"operation {op.op_id} completes before it is invoked",
                remedy="record it again: no answer about it would count",
            )
        if not mapped.knows(op.op_type):
            said.ignored[op.op_type] = said.ignored.get(op.op_type, 0) + 1
        elif op.outcome is Outcome.FAIL:
            said.failed += 1
        else:
            record = record_of(op)
            lost = not record.known
            said.unknown += lost
            said.unread += lost and mapped.only_reads(record)
            part = (type(op.key), op.key) if model.spec.per_key else None
            parts.setdefault(part, []).append((at, op, record))
    events = [_events(part, index) for part in parts.values()]
    said = _judge(said, Linearize, mapped, events, frontier_max, watch or Watch(), explain)
    _require_of_key(model, mapped, {key for part in parts.values() for key in _keys(part)})
    return said


def _keys(part: list[tuple[int, Op, Record]]) -> Iterable[object]:
    return ((type(op.key), op.key) for _, op, _ in part)


def _require_of_key(model: Model, mapped: Mapped, keys: set[object]) -> None:
    """Raises ConfigError where operations of several objects were taken for those of one."""
    says = any("per_key" in vars(base) for base in type(model.spec).__mro__ if base is not Spec)
    if len(keys) > 1 and not says and not any("key" in seen for seen in mapped.asked.values()):
        raise ConfigError(
            f"the operations are of {len(keys)} keys, and nothing of {model.name} looks at a key:"
            " those of all keys would be held to it as if of one object",
            remedy="per_key = True in its class, where each key is an object of its own;"
            " per_key = False, where the key says nothing",
        )


def conform_log(
    model: Model,
    events: Iterable[Event],
    *,
    frontier_max: int = FRONTIER_MAX,
    watch: Watch | None = None,
    explain: Explain | None = None,
) -> ConformResult:
    """Events in the order in which they were written; those of kind `gap` are marks of a crash,
    whose last doings may be missing.

    Raises ConfigError as `conform_history`, and for a gap where the specification has no crash.
    """
    mapped = Mapped(model)
    said = _begun(model, "log")
    gaps: list[Happening] = []
    parts: dict[str, list[Happening]] = {}
    for at, event in enumerate(events):
        said.total += 1
        if event.kind == GAP:
            gaps.append(Happening(False, at, record_of(event), at))
        elif not mapped.knows(event.kind):
            said.ignored[event.kind] = said.ignored.get(event.kind, 0) + 1
        else:
            part = show(event.fields.get("key")) if model.spec.per_key else ""
            parts.setdefault(part, []).append(Happening(False, at, record_of(event), at))
    said.gaps = len(gaps)
    with_gaps = [sorted([*part, *gaps], key=lambda one: one.number) for part in parts.values()]
    return _judge(said, LogReplay, mapped, with_gaps, frontier_max, watch or Watch(), explain)


def _begun(model: Model, mode: Literal["history", "log"]) -> ConformResult:
    return ConformResult(
        verdict="vacuous",
        model=model.name,
        mode=mode,
        consumed=0,
        total=0,
        constants=constants_shown(model),
    )


def _events(part: list[tuple[int, Op, Record]], index: dict[int, int]) -> list[Happening]:
    """Invocations before completions of the same time: the bounds belong to the interval."""
    found: list[tuple[int, int, int, Happening]] = []
    for at, op, record in part:
        found.append((op.invoke_ts, 0, at, Happening(True, at, record, index.get(at))))
        if record.known and op.complete_ts is not None:
            found.append((op.complete_ts, 1, at, Happening(False, at, record, index[at])))
    return [one[3] for one in sorted(found, key=lambda one: one[:3])]


def _judge(
    said: ConformResult,
    how: Callable[[Taker, int], Replay],
    mapped: Mapped,
    parts: list[list[Happening]],
    frontier_max: int,
    watch: Watch,
    explain: Explain | None,
) -> ConformResult:
    """All parts, and what they come to together: the first record that is refused counts."""
    model = mapped.model
    taker = Taker(model, mapped, watch=watch)
    rejected: dict[int, tuple[Happening, ReplayEnd]] = {}
    exceeded: list[int] = []
    spent: Spent | None = None
    for number, part in enumerate(parts, 1):
        watch.doing = f"part {number} of {len(parts)}, {len(part)} events"
        replay = how(taker, frontier_max)
        try:
            ended = run(replay, _until(part, min(rejected, default=None)), doing=watch.doing)
            if ended.stuck is not None and isinstance(replay, Linearize) and replay.left:
                ended = _without_looking_ahead(said, taker, part, frontier_max, ended)
        except Spent as error:
            spent, said.consumed = error, 0
            break
        said.unknown_taken += replay.unknown_taken
        said.frontier_peak = max(said.frontier_peak, ended.peak)
        if ended.at is None:
            said.unknown_happened += _in_all(ended)
        else:
            event = part[ended.at]
            assert event.place is not None
            if ended.exceeded:
                exceeded.append(event.place)
            else:
                rejected[event.place] = (event, ended)
    said.parts = len(parts)
    said.taken = {one.name: taker.taken[one.name] for one in model.actions}
    said.counts = taker.counts
    said.guards = list(taker.guards.values())
    said.compared = {kind: sorted(fields) for kind, fields in sorted(mapped.asked.items())}
    if rejected:
        _reject(said, rejected, exceeded)
        if spent is not None:
            said.reason = f"records of other keys were {spent}"
    elif spent is not None:
        said.verdict, said.reason = "inconclusive", f"{spent}; {_EASIER}"
    elif exceeded:
        said.verdict, said.consumed, said.index = "inconclusive", min(exceeded), min(exceeded)
        said.reason = (
            f"more than frontier_max={frontier_max} states to look at for one record, at "
            f"{min(exceeded)}: of `spec conform`, --frontier allows more; {_EASIER}"
        )
    else:
        said.consumed = said.total
        try:
            controlled(said, how, mapped, parts, frontier_max, watch)
        except Spent as error:
            said.verdict = "inconclusive"
            said.reason = (
                "all records are a behaviour, and whether others would have been refused was"
                f" {error}"
            )
    if explain is not None and parts and (rejected or said.consumed == said.total):
        place = min(rejected, default=None)
        there = [part for part in parts if place is None or any(e.place == place for e in part)]
        explain(model, mapped, max(there, key=len), place, watch)
    return said


_EASIER: Final = (
    "or make it less to look at: `too_late` of a mapping, `per_key` of a specification of one key,"
    " fewer operations at a time (docs/specs.md)"
)


def _without_looking_ahead(
    said: ConformResult, taker: Taker, part: list[Happening], frontier_max: int, ended: ReplayEnd
) -> ReplayEnd:
    """The same again, for the first completion that is refused by what was known then."""
    again = run(Linearize(taker, frontier_max, ahead=False), part)
    said.frontier_peak = max(said.frontier_peak, again.peak)
    if again.stuck is not None:
        return again
    if again.at is None:
        raise ConfigError(
            f"{taker.model.name}: what is said to be too late has happened later",
            remedy="too_late is of records that can never happen again",
        )
    said.reason = (
        "what was under way then could not happen any more; which completion is the first that "
        f"cannot be, not looking ahead, would take more than frontier_max={frontier_max} states"
    )
    return ended


def _until(part: list[Happening], place: int | None) -> Iterable[Happening]:
    """What comes before a place at which something is refused already, that of another key."""
    if place is None:
        return part
    return itertools.takewhile(lambda e: e.begins or e.place is None or e.place < place, part)


def _in_all(ended: ReplayEnd) -> int:
    """How many operations that never completed took effect in each state at the end."""
    done = [bits for _, bits in ended.last.frontier]
    return functools.reduce(operator.and_, done).bit_count()


def _reject(
    said: ConformResult, rejected: dict[int, tuple[Happening, ReplayEnd]], exceeded: list[int]
) -> None:
    index = min(rejected)
    event, ended = rejected[index]
    stuck = ended.stuck
    assert stuck is not None
    said.verdict, said.index, said.consumed = "reject", index, index
    said.record = str(event.record)
    said.op_id = event.record.get("op_id")
    frontier = list(dict.fromkeys(state for state, _ in ended.last.frontier))
    said.states = len(frontier)
    said.frontier = [show(state) for state in frontier[:SHOWN_MAX]]
    said.refusals = [
        Refusal(str(step or event.record), by, states)
        for (step, by), states in stuck.refused.most_common(SHOWN_MAX)
    ]
    if exceeded and min(exceeded) < index:
        said.reason = f"of another key, the record at {min(exceeded)} was not decided"
