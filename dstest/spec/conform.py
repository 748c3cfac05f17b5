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

from dstest.core.errors import ConfigError, HistoryError
from dstest.core.op import Op, Outcome
from dstest.spec.bounds import Spent, Watch
from dstest.spec.conformed import SHOWN_MAX, Conformed, Refusal
from dstest.spec.controls import controlled
from dstest.spec.declare import Spec
from dstest.spec.frontier import Ended, Happening, Replay, run
from dstest.spec.linearize import Linearize
from dstest.spec.logged import Logged
from dstest.spec.mapping import GAP, Event, Mapped, Record, record_of
from dstest.spec.model import Model, shown
from dstest.spec.taking import Taker
from dstest.spec.trace_file import constants_shown

FRONTIER_MAX: Final = 20_000
"""How many states are looked at for one record, unless more are asked for."""


def conform_history(
    model: Model,
    ops: Iterable[Op],
    *,
    frontier_max: int = FRONTIER_MAX,
    watch: Watch | None = None,
) -> Conformed:
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
    said = _judged(said, Linearize, mapped, events, frontier_max, watch or Watch())
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
    return _judged(said, Logged, mapped, with_gaps, frontier_max, watch or Watch())


def _begun(model: Model, mode: Literal["history", "log"]) -> Conformed:
    return Conformed(
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


def _judged(
    said: Conformed,
    how: Callable[[Taker, int], Replay],
    mapped: Mapped,
    parts: list[list[Happening]],
    frontier_max: int,
    watch: Watch,
) -> Conformed:
    """All parts, and what they come to together: the first record that is refused counts."""
    model = mapped.model
    taker = Taker(model, mapped, watch=watch)
    rejected: dict[int, tuple[Happening, Ended]] = {}
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
            f"{min(exceeded)}: allow more (frontier_max), by --frontier; {_EASIER}"
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
    return said


_EASIER: Final = (
    "or make it less to look at: `too_late` of a mapping, `per_key` of a specification of one key,"
    " fewer operations at a time (docs/specs.md)"
)


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
