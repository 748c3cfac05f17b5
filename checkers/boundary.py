"""`boundary`: each tenant sees what was put under its own name and the very key that it asks for.

    {"op_type": "put",  "key": "a",  "input": {"name": "k", "value": "v1"}, "output": null}
    {"op_type": "get",  "key": "a",  "input": {"name": "k"}, "output": "v1"}
    {"op_type": "list", "key": "a",  "input": {}, "output": [["k", "v1"]]}
    {"op_type": "count", "key": "a", "input": {}, "output": 1}
    {"op_type": "drop", "key": "a",  "input": {}, "output": null}

`key` is the tenant, `name` a key of it: the two are a *place*. A drop takes all keys of a tenant at
one moment. `probe`, `probe_list` and `probe_count` ask as `get`, `list` and `count` do, for what
nobody ever puts. An input may say besides of which `class` the spellings are that it is about, and
which `cell`, of places that are easily taken for one another. Values are unique in a history, so
that each says where it was put.

| anomaly | meaning |
|---|---|
| leak | a tenant was shown a value of another tenant, be it in the answer of a put or a drop |
| wrong-key | a tenant was shown its value under a key that it was not put under |
| phantom-key | a value that nobody had begun to put |
| failed-but-applied | a value whose put was refused |
| listed-twice | a list has a key more than once |
| count-off | a count above, or below, what the tenant can have had |
| stale | a value that had surely been overwritten |
| resurrected | a value that was there before its tenant had surely been dropped |
| lost | nothing, or a list without the key, where a value surely was |
| lost-to-confusion | as lost; each time another place of the cell was changed meanwhile |

Models: `isolated`, each place is a register of its own, up to date; `isolated-late`, where answers
may be old and writes may get lost: who may see what, without the last four rows, and of counts
those above the number of keys that were ever put. In answers of puts and drops texts alone are
looked for: a number may be a revision, or how many there were. Sound: what is reported is a
violation, in whatever order overlapping and unknown operations took effect. What is not seen:
orders of overlapping puts on which two reads do not agree, and that lists are of one moment.
Source: confusable identifiers and negative controls of a boundary claim, section 7.M.S of a plan.
"""

from __future__ import annotations

import bisect
import itertools
import json
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from checkers._findings import Findings, Part, PerKey, Unreadable, end_of, in_one, list_of
from checkers.columns import Interner
from dstest.core.op import Op, Outcome
from dstest.core.words import quoted

__all__ = ["CHECKER", "OBSERVERS"]

GETS: Final = ("get", "probe")
LISTS: Final = ("list", "probe_list")
COUNTS: Final = ("count", "probe_count")
OBSERVERS: Final = (*GETS, *LISTS, *COUNTS)

LATE: Final = "isolated-late"

_SHOWN_MAX: Final = 5
"""Puts that are shown with a count which is off."""

_NEAR: Final = 200
"""Changes of a cell, among the last before a loss, that may be what it was taken for."""

_BEFORE: Final = -1
"""When the places became empty that nobody has put to, ns."""


class Change(NamedTuple):
    """What a place holds from some moment in `[start, end]` on; nothing where it is a drop."""

    start: int
    end: int
    op: Op


_start: Final = operator.attrgetter("start")
_end: Final = operator.attrgetter("end")


class Place:
    """One key of one tenant, by what changed it: its puts, and the drops of its tenant, each by
    their starts."""

    def __init__(self, puts: list[Change], drops: list[Change]) -> None:
        self.puts = puts
        self._changes = sorted([*puts, *drops], key=_start)
        self._starts = [change.start for change in self._changes]
        # Of those from each place of the list on, which ended first; up to each, which began last.
        ending = itertools.accumulate(reversed(self._changes), partial(min, key=_end))
        self._soonest = list(ending)[::-1]
        done = sorted(puts, key=_end)
        self._ends = [change.end for change in done]
        self._newest = list(itertools.accumulate(done, partial(max, key=_start)))
        self._begun = [put.start for put in puts]
        self._longest = list(itertools.accumulate((put.end for put in puts), max))
        every = sorted(self._changes, key=_end)
        self._all_ends = [change.end for change in every]
        self._latest = list(itertools.accumulate((change.start for change in every), max))

    def over(self, change: Change, seen: Op) -> Change | None:
        """What surely came after this change and before the observation, if anything."""
        at = bisect.bisect_right(self._starts, change.end)
        if at == len(self._changes):
            return None
        found = self._soonest[at]
        return found if found.end < seen.invoke_ts else None

    def last_put(self, seen: Op) -> Change | None:
        """Of the puts that surely were done before the observation, the one that began last."""
        at = bisect.bisect_left(self._ends, seen.invoke_ts)
        return self._newest[at - 1] if at else None

    def may_hold(self, seen: Op) -> bool:
        """Can any of its values have been there while this was observed?"""
        begun = self.begun_by(end_of(seen))
        done = bisect.bisect_left(self._all_ends, seen.invoke_ts)
        # One that ended before a change began that was done is gone.
        return begun > 0 and not (done and self._latest[done - 1] > self._longest[begun - 1])

    def begun_by(self, until: int) -> int:
        """How many of its puts had begun before."""
        return bisect.bisect_left(self._begun, until)


class Tenant:
    """What was put into its places, by key, and its drops in order of invocation."""

    def __init__(self, puts: Mapping[str, list[Change]], drops: list[Change]) -> None:
        self.places = {name: Place(changes, drops) for name, changes in puts.items()}
        self._drops = drops
        self._emptied = list(itertools.accumulate((drop.end for drop in drops), max))

    def emptied_last(self, seen: Op) -> int:
        """When the last ended of all drops that may explain that nothing was there, ns."""
        at = bisect.bisect_left(self._drops, end_of(seen), key=lambda drop: drop.start)
        return self._emptied[at - 1] if at else _BEFORE

    def must_hold(self, place: Place, seen: Op, emptied: int) -> Change | None:
        """The put for which nothing is no answer; None where nothing may be there."""
        put = place.last_put(seen)
        return put if put is not None and put.start > emptied else None


def _name_of(op: Op) -> str:
    name = op.input.get("name") if isinstance(op.input, dict) else None
    if not isinstance(name, str):
        raise Unreadable(op, "its input names no key")
    return name


def _exact(name: Any) -> str:
    """What tells names apart as they are written: 1, 1.0, true and "1" are four."""
    return f"={name}" if type(name) is str else json.dumps(name, sort_keys=True, default=repr)


def _tenant_of(op: Op) -> str:
    return _exact(op.key)


def _about(op: Op, what: str) -> Any:
    return op.input.get(what) if isinstance(op.input, dict) else None


def _shown(op: Op) -> list[tuple[str, Any]]:
    """(key, value) of all that the observation showed."""
    if op.op_type in GETS:
        return [] if op.output is None else [(_name_of(op), op.output)]
    rows = []
    for row in list_of(op):
        if not isinstance(row, list | tuple) or len(row) != 2 or not isinstance(row[0], str):
            raise Unreadable(op, "its output is no list of [key, value]")
        rows.append((row[0], row[1]))
    return rows


def _texts(answer: Any) -> Iterator[str]:
    """All texts in the answer of a write, however deep, in order."""
    left = [answer]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list | tuple):
            left.extend(reversed(one))
        elif isinstance(one, dict):
            left.extend(reversed(one.values()))


class Cell:
    """Changes of places that are easily taken for one another, in order of invocation."""

    def __init__(self, changes: list[Op]) -> None:
        self._changes = changes
        self._starts = [op.invoke_ts for op in changes]
        self._ends = list(itertools.accumulate(map(end_of, changes), max))

    def last_other(self, tenant: str, name: str, since: int, until: int) -> Op | None:
        """The last of another place that may have been done in between, if it is near the end."""
        at = bisect.bisect_left(self._starts, until)
        for i in range(at - 1, max(-1, at - 1 - _NEAR), -1):
            other = self._changes[i]
            if self._ends[i] <= since:
                return None
            if end_of(other) <= since:
                continue
            if _tenant_of(other) != tenant or (other.op_type == "put" and _name_of(other) != name):
                return other
        return None


class Sightings:
    """Who saw the values of a place there."""

    def __init__(self, ops: list[Op]) -> None:
        done = sorted(ops, key=end_of)
        self._ends = [end_of(op) for op in done]
        self._begun = list(itertools.accumulate((op.invoke_ts for op in done), max))

    def last(self, before: int) -> int:
        """When the last of them began that had ended before, ns."""
        at = bisect.bisect_left(self._ends, before)
        return self._begun[at - 1] if at else _BEFORE


class Record:
    """Who put what where, and by when each change was done; `twice` is a put of a value that
    another one had put."""

    def __init__(self, part: Part) -> None:
        self._values = Interner()
        self._puts: dict[int, Op] = {}
        self.twice: Op | None = None
        self.changes: dict[int, Change] = {}
        self.sightings: dict[tuple[str, str], Sightings] = {}
        for op in (*part.maybe("put"), *part.refused("put")):
            value = op.input.get("value") if isinstance(op.input, dict) else None
            if value is None:
                raise Unreadable(op, "its input has no value")
            _name_of(op)
            if self._puts.setdefault(self._values.id_of(value), op) is not op:
                self.twice = op
        self.drops: dict[str, list[Change]] = {}
        for op in part.maybe("drop"):
            change = Change(op.invoke_ts, end_of(op), op)
            self.drops.setdefault(_tenant_of(op), []).append(change)
        self.tenants = self._tenants(part)

    def put_of(self, value: Any) -> Op | None:
        """Who put it, or tried to."""
        return self._puts.get(self._values.id_of(value))

    def _tenants(self, part: Part) -> dict[str, Tenant]:
        """What has been seen in its place was put there before."""
        ends = {id(op): end_of(op) for op in self._puts.values()}
        sightings: dict[tuple[str, str], list[Op]] = {}
        for op in part.of(*GETS, *LISTS):
            tenant = _tenant_of(op)
            for name, value in _shown(op):
                put = self.put_of(value)
                if put is not None and (_tenant_of(put), _name_of(put)) == (tenant, name):
                    ends[id(put)] = min(ends[id(put)], end_of(op))
                    sightings.setdefault((tenant, name), []).append(op)
        self.sightings = {place: Sightings(ops) for place, ops in sightings.items()}
        puts: dict[str, dict[str, list[Change]]] = {key: {} for key in self.drops}
        for op in self._puts.values():
            if op.outcome is not Outcome.FAIL:
                change = Change(op.invoke_ts, ends[id(op)], op)
                self.changes[id(op)] = change
                puts.setdefault(_tenant_of(op), {}).setdefault(_name_of(op), []).append(change)
        return {key: Tenant(places, self.drops.get(key, [])) for key, places in puts.items()}

    def cells(self, part: Part) -> dict[str, Cell]:
        """By name of the cell, what may have changed any of its places."""
        found: dict[str, list[Op]] = {}
        for op in part.maybe("put", "drop"):
            if (cell := _about(op, "cell")) is not None:
                found.setdefault(_exact(cell), []).append(op)
        return {name: Cell(changes) for name, changes in found.items()}


NOBODY: Final = Tenant({}, [])


class Loss(NamedTuple):
    """`op` found nothing of what `put` had put under `name`; `other` was about another place."""

    op: Op
    put: Op
    name: str
    other: Op | None


class Judge:
    """Looks at one observation after the other. `late`: answers may be old, writes may be lost."""

    def __init__(self, part: Part, findings: Findings) -> None:
        self._findings = findings
        self._late = findings.model == LATE
        self._record = Record(part)
        self._cells = self._record.cells(part)
        self._losses: list[Loss] = []
        self.flaw = self._record.twice

    def look(self, op: Op) -> None:
        """What is wrong with an answer."""
        tenant = self._record.tenants.get(_tenant_of(op), NOBODY)
        if op.op_type in COUNTS:
            self._count(op, tenant)
            return
        shown = _shown(op)
        for name, value in shown:
            self._value(op, tenant, name, value)
        names = Counter(name for name, _ in shown)
        for name, times in names.items():
            if times > 1:
                message = f"{_said(op)} has the key {_spelled(name)} {times} times"
                self._findings.anomaly("listed-twice", op.key, [op], message)
        asked = [_name_of(op)] if op.op_type in GETS else list(tenant.places)
        emptied = tenant.emptied_last(op)
        for name in asked if not self._late else ():
            if name not in names and name in tenant.places:
                put = tenant.must_hold(tenant.places[name], op, emptied)
                if put is not None:
                    other = self._confused(op, put.op, name)
                    self._losses.append(Loss(op, put.op, name, other))

    def look_at_write(self, op: Op) -> None:
        """What its answer shows of other tenants."""
        for value in dict.fromkeys(_texts(op.output)):
            put = self._record.put_of(value)
            if put is None or put.invoke_ts >= end_of(op) or _tenant_of(put) == _tenant_of(op):
                continue
            self._leak(op, put, f"{_said(op)} shows {quoted(value)}, which op {put.op_id} had put")

    def is_control(self, op: Op) -> bool:
        """Is it one that asks for what nobody put?"""
        if not op.op_type.startswith("probe"):
            return False
        places = self._record.tenants.get(_tenant_of(op), NOBODY).places
        return _name_of(op) not in places if op.op_type in GETS else not places

    def _leak(self, op: Op, put: Op, said: str) -> None:
        message = f"{said} for the tenant {_spelled(put.key)} under {_spelled(_name_of(put))}"
        self._tell("leak", op, [put, op], message, put.input["value"])

    def _value(self, op: Op, tenant: Tenant, name: str, value: Any) -> None:
        put = self._record.put_of(value)
        said = f"{_said(op)} shows {quoted(value)} under the key {_spelled(name)}"
        if put is None or put.invoke_ts >= end_of(op):
            begun = "that nobody has put" if put is None else "before its put had begun"
            self._tell("phantom-key", op, [op], f"{said}, {begun}", value)
            return
        said += f", which op {put.op_id} had put"
        if _tenant_of(put) != _tenant_of(op):
            self._leak(op, put, said)
        elif _name_of(put) != name:
            message = f"{said} under {_spelled(_name_of(put))}"
            self._tell("wrong-key", op, [put, op], message, value)
        elif put.outcome is Outcome.FAIL:
            message = f"{said}; that was refused: {put.error}"
            self._tell("failed-but-applied", op, [put, op], message, value)
        elif not self._late:
            later = tenant.places[name].over(self._record.changes[id(put)], op)
            if later is not None:
                self._old(op, put, later.op, said, value)

    def _old(self, op: Op, put: Op, later: Op, said: str, value: Any) -> None:
        dropped = later.op_type == "drop"
        what = "dropped its tenant" if dropped else "put another value there"
        kind = "resurrected" if dropped else "stale"
        self._tell(kind, op, [put, later, op], f"{said} and op {later.op_id} had {what}", value)

    def end(self) -> None:
        """Tell what was lost: to confusion only where all that is lost can be."""
        confused = all(loss.other is not None for loss in self._losses)
        for op, put, name, other in self._losses:
            message = f"{_said(op)} has nothing under the key {_spelled(name)}, where op "
            message += f"{put.op_id} had put {quoted(put.input['value'])}"
            if other is None or not confused:
                self._tell("lost", op, [put, op], message, put.input["value"])
                continue
            message += f"; after it was there last, op {other.op_id} ({other.op_type}) was about "
            message += f"the tenant {_spelled(other.key)}"
            if other.op_type == "put":
                message += f", key {_spelled(_name_of(other))}"
            self._tell("lost-to-confusion", op, [put, other, op], message, put.input["value"])

    def _confused(self, op: Op, put: Op, name: str) -> Op | None:
        """The last change of another place of the cell, after the value was there last."""
        cell = self._cells.get(_exact(_about(put, "cell")))
        if cell is None:
            return None
        tenant, since = _tenant_of(op), put.invoke_ts
        if seen := self._record.sightings.get((tenant, name)):
            since = max(since, seen.last(op.invoke_ts))
        return cell.last_other(tenant, name, since, end_of(op))

    def _count(self, op: Op, tenant: Tenant) -> None:
        count = op.output
        if isinstance(count, bool) or not isinstance(count, int):
            raise Unreadable(op, "its output is no number of keys")
        if self._late:
            until = end_of(op)
            may = [place for place in tenant.places.values() if place.begun_by(until)]
            sure: list[Change] = []
        else:
            may = [place for place in tenant.places.values() if place.may_hold(op)]
            emptied = tenant.emptied_last(op)
            held = (tenant.must_hold(place, op, emptied) for place in tenant.places.values())
            sure = [put for put in held if put is not None]
        if len(sure) <= count <= len(may):
            return
        message = (
            f"{_said(op)} says that there are {count} keys; from {len(sure)} to {len(may)} of "
            "those that were put can have been there"
        )
        if count < len(sure):
            shown = [put.op for put in sure]
        else:
            shown = [put.op for place in may for put in place.puts[-1:]]
        ops = [*shown[:_SHOWN_MAX], op]
        whole = len(shown) <= _SHOWN_MAX and count < len(sure)
        self._findings.anomaly("count-off", op.key, ops, message, minimal=whole)

    def _tell(self, kind: str, op: Op, ops: list[Op], message: str, value: Any) -> None:
        if name := _about(op, "class"):
            message += f" (spellings of the class {name})"
        self._findings.anomaly(kind, op.key, ops, message, element=value)


def _spelled(text: Any) -> str:
    """With all that cannot be seen, or is taken for something else, as an escape."""
    return ascii(text)


def _said(op: Op) -> str:
    return f"op {op.op_id}, a {op.op_type} of the tenant {_spelled(op.key)},"


def decide(part: Part, findings: Findings) -> int:
    """What was shown that should not be, or is missing; the number of answers looked at."""
    judge = Judge(part, findings)
    if judge.flaw is not None:
        why = f"op {judge.flaw.op_id} puts a value that another one puts too: whose is it?"
        findings.undecide(part.key, why)
        return 0
    answers = part.of(*OBSERVERS)
    classes: Counter[str] = Counter()
    try:
        for op in part.of("put", "drop"):
            findings.tick()
            judge.look_at_write(op)
        for op in answers:
            findings.tick()
            judge.look(op)
            if isinstance(name := _about(op, "class"), str):
                classes[name] += 1
    finally:
        judge.end()
    findings.stats["answers_by_class"] = dict(sorted(classes.items()))
    findings.count(controls=sum(judge.is_control(op) for op in answers))
    return len(answers)


CHECKER: Final = PerKey(
    "boundary",
    decide,
    models=("isolated", LATE),
    types=frozenset({"put", "drop", *OBSERVERS}),
    prefix_closed=True,
    vacuous="nobody was shown anything",
    observers=frozenset(),
    key_of=in_one,
    claims=frozenset({"boundary"}),
)
