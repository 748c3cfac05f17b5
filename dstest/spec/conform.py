"""Is what was recorded a behaviour of the specification?

`conform_history` asks that of concurrent operations as clients saw them, `conform_log` of what a
server wrote down, in its order. Each replays all records through the model, and then holds itself
to controls (`controls.py`): an answer that could not have been another one is no `accept`.

A specification of one key (`per_key`) is asked of each key alone: a history of independent objects
is linearizable where each object's part is (Herlihy and Wing, "Linearizability", 1990; Horn and
Kroening, "Faster linearizability checking via P-compositionality", 2015).
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Final, Literal

from dstest.core.errors import ConfigError
from dstest.core.op import Op, Outcome
from dstest.spec.conformed import SHOWN_MAX, Conformed, Refusal
from dstest.spec.controls import controlled
from dstest.spec.declare import constants_of
from dstest.spec.frontier import Ended, Happening, Replay, run
from dstest.spec.linearize import Linearize
from dstest.spec.logged import Logged
from dstest.spec.mapping import GAP, Event, Mapped, Record, record_of
from dstest.spec.model import Model, shown
from dstest.spec.taking import Taker

__all__ = ["FRONTIER_MAX", "conform_history", "conform_log"]

FRONTIER_MAX: Final = 20_000
"""How many states are looked at for one record, unless more are asked for."""


def conform_history(
    model: Model, ops: Iterable[Op], *, frontier_max: int = FRONTIER_MAX
) -> Conformed:
    """Operations in any order, judged by their times.

    ok: took effect once in [invoke, complete], with its output. fail: had no effect. unknown, also
    what never completed: took effect at some time after its invocation, or never. Raises
    ConfigError for a kind of operation that is neither mapped nor ignored, and for a specification
    that cannot take them.
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
    return _judged(said, Linearize, model, mapped, events, frontier_max)


def conform_log(
    model: Model, events: Iterable[Event], *, frontier_max: int = FRONTIER_MAX
) -> Conformed:
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
            part = shown(event.fields.get("key")) if model.spec.per_key else ""
            parts.setdefault(part, []).append(Happening(False, at, record_of(event), at))
    said.gaps = len(gaps)
    with_gaps = [sorted([*part, *gaps], key=lambda one: one.number) for part in parts.values()]
    return _judged(said, Logged, model, mapped, with_gaps, frontier_max)


def _begun(model: Model, mode: Literal["history", "log"]) -> Conformed:
    constants = {n: shown(getattr(model.spec, n)) for n in constants_of(type(model.spec))}
    return Conformed(
        verdict="vacuous", model=model.name, mode=mode, consumed=0, total=0, constants=constants
    )


def _events(part: list[tuple[int, Op, Record]], index: dict[int, int]) -> list[Happening]:
    """Invocations before completions of the same time: the bounds belong to the interval."""
    found: list[tuple[int, int, int, Happening]] = []
    for at, op, record in part:
        found.append((op.invoke_ts, 0, at, Happening(True, at, record, index.get(at))))
        if record.known and op.complete_ts is not None:
            found.append((op.complete_ts, 1, at, Happening(False, at, record, index[at])))
    return [one[3] for one in sorted(found, key=lambda one: one[:3])]


def _judged(
    said: Conformed,
    how: Callable[[Taker, int], Replay],
    model: Model,
    mapped: Mapped,
    parts: list[list[Happening]],
    frontier_max: int,
) -> Conformed:
    """All parts, and what they come to together: the first record that is refused counts."""
    taker = Taker(model, mapped)
    rejected: dict[int, tuple[Happening, Ended]] = {}
    exceeded: list[int] = []
    for part in parts:
        replay = how(taker, frontier_max)
        ended = run(replay, _until(part, min(rejected, default=None)))
        said.unknown_taken += replay.unknown_taken
        said.frontier_peak = max(said.frontier_peak, ended.peak)
        if ended.stuck is not None and isinstance(replay, Linearize) and replay.left:
            ended = _without_looking_ahead(said, taker, part, frontier_max, ended)
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
    elif exceeded:
        said.verdict, said.consumed, said.index = "inconclusive", min(exceeded), min(exceeded)
        said.reason = (
            f"more than frontier_max={frontier_max} states to look at for one record, at "
            f"{min(exceeded)}: allow more (frontier_max), or look at fewer operations at a time"
        )
    else:
        said.consumed = said.total
        controlled(said, how, model, mapped, parts, frontier_max)
    return said


def _without_looking_ahead(
    said: Conformed, taker: Taker, part: list[Happening], frontier_max: int, ended: Ended
) -> Ended:
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


def _in_all(ended: Ended) -> int:
    """How many operations that never completed took effect in each state at the end."""
    done = [bits for _, bits in ended.last.frontier]
    return functools.reduce(operator.and_, done).bit_count()


def _reject(
    said: Conformed, rejected: dict[int, tuple[Happening, Ended]], exceeded: list[int]
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
    said.frontier = [shown(state) for state in frontier[:SHOWN_MAX]]
    said.refusals = [
        Refusal(str(step or event.record), by, states)
        for (step, by), states in stuck.refused.most_common(SHOWN_MAX)
    ]
    if exceeded and min(exceeded) < index:
        said.reason = f"of another key, the record at {min(exceeded)} was not decided"
