"""Controls of an `accept`: could it have been another answer?

| control | what must be noticed |
|---|---|
| swap | two records near each other, exchanged: one of them is refused, where it then stands |
| outputs | a record with another output than it had: half of those that are nobody's, at least |
| no guards | all is taken without guards, and wrong outputs with them: nothing is compared |

A guard that was never false while the records were replayed could be left out, one at a time, with
the same answer: those are named. Records are exchanged, and outputs replaced, in the largest parts
first. Each exchange is replayed twice: from what was known before it, and from the beginning.

An output that another record of its kind has may be allowed where it is put: of several that wait,
any may come first. One that nobody has (a number or text that is in no record) is wrong wherever an
output is compared. So a kind is judged by those, and where it has none, as true and false have
none, by all that were tried. A model may let a part of them pass, as one that takes any larger
number does; where it lets more than half of them pass, an answer would have been accepted that is
more likely wrong than not, and nothing was shown.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.spec.bounds import Watch
from dstest.spec.conformed import Altered, Conformed, Swap
from dstest.spec.frontier import Ended, Happening, Known, Replay, run
from dstest.spec.mapping import GAP, Mapped, Record
from dstest.spec.model import Model, shown
from dstest.spec.taking import Taker

PARTS_MAX: Final = 50
"""Parts in which an exchange is tried."""
SWAPS_MAX: Final = 100
"""Exchanges that are tried in one part."""
NEAR: Final = 4
"""How far apart two records are that are exchanged, at most."""
OUTPUT_PARTS_MAX: Final = 5
"""Parts in which outputs are replaced."""
OUTPUTS_MAX: Final = 6
"""Records of a kind whose output is replaced, in one part."""
TRIED_MIN: Final = 3
"""Wrong outputs of a kind, fewer of which say nothing."""
REFUSED_MIN: Final = 0.5
"""Share of them that must be noticed."""
AFTER_MAX: Final = 500
"""Events after a record in which its wrong output may be noticed."""
WRONG_MAX: Final = 6
"""Wrong outputs of one record."""

_How = Callable[[Taker, int], Replay]


def controlled(
    said: Conformed,
    how: _How,
    mapped: Mapped,
    parts: list[list[Happening]],
    frontier_max: int,
    watch: Watch,
) -> None:
    """Write down what the controls came to, and the verdict that follows. Raises Spent."""
    model = mapped.model
    altered: dict[str, Altered] = {}
    for number, part in enumerate(sorted(parts, key=len, reverse=True)[:PARTS_MAX]):
        if said.swap is not None and number >= OUTPUT_PARTS_MAX:
            break
        watch.doing = f"controls, part {number + 1} of {min(len(parts), PARTS_MAX)}"
        replay = how(Taker(model, mapped, watch=watch), frontier_max)
        control = _Control(replay, part)
        if said.swap is None:
            said.swap = control.swap()
            said.swaps_tried += control.tried
        if number < OUTPUT_PARTS_MAX:
            control.alter(altered)
    said.altered = list(altered.values())
    said.without_guards = all(_unguarded(model, mapped, part) for part in parts)
    said.weak = _weak(said, sum(not e.begins and e.record.kind != GAP for p in parts for e in p))
    said.verdict = "vacuous" if said.weak else "accept"
    said.meaning = _meaning(said, model)


def _weak(said: Conformed, records: int) -> list[str]:
    if not records:
        return ["no record was held against the specification"]
    found = []
    if said.swap is None:
        found.append(
            "no two records near each other matter: whichever were exchanged, it was not "
            f"noticed ({said.swaps_tried} tried)"
        )
    found += [
        f"{tried - refused} of {tried} wrong outputs of {one.kind} were accepted"
        + (", and none was noticed" if not refused else f": {one.accepted} is taken as well")
        for one in said.altered
        for tried, refused in [_judged_by(one)]
        if tried >= TRIED_MIN and refused < tried * REFUSED_MIN
    ]
    tried = sum(one.tried for one in said.altered)
    if not found and said.without_guards and tried and not any(one.refused for one in said.altered):
        found.append(
            f"no output is compared: {tried} wrong ones were accepted, and no guard is needed"
        )
    return found


def _judged_by(one: Altered) -> tuple[int, int]:
    """How many were tried, and refused, of those that a kind is judged by."""
    if one.nobodys >= TRIED_MIN:
        return one.nobodys, one.nobodys_refused
    return one.tried, one.refused


def _meaning(said: Conformed, model: Model) -> str:
    fields = "; ".join(f"{kind}: {', '.join(f) or 'none'}" for kind, f in said.compared.items())
    hidden = sorted(model.spec.hidden)
    text = (
        f"accepted says that a behaviour of {model.name} has these records, of this run, with "
        f"these constants. Fields that were looked at are {fields}. What is in no record was not "
        "compared"
    )
    if hidden:
        text += f", and {', '.join(hidden)} may have happened at any time"
    return text + "."


class _Control:
    """One part, replayed with what is known before each event kept."""

    def __init__(self, replay: Replay, events: list[Happening]) -> None:
        self.replay, self.events = replay, events
        self.before: list[Known] = run(replay, events, keep=True).before
        self.tried = 0

    def swap(self) -> Swap | None:
        """The first exchange that is refused where it was made, confirmed from the beginning."""
        for pair in _pairs(self.events):
            self.tried += 1
            events, places = _exchanged(self.events, *pair)
            ended = self._replayed(events, min(places), max(places))
            if ended is None or ended.stuck is None or ended.at is None:
                continue
            at = ended.at
            if events[at].number not in (pair[0].number, pair[1].number):
                continue
            again = run(self.replay, events[: max(places) + 1])
            if again.stuck is None or again.at != at:
                continue
            first, second = pair
            rejected = events[at].place
            assert first.place is not None and second.place is not None and rejected is not None
            by = sorted({one.by for one, _ in ended.stuck.refused.most_common(3)})
            texts = (str(first.record), str(second.record))
            return Swap(first.place, second.place, rejected, *texts, by)
        return None

    def alter(self, altered: dict[str, Altered]) -> None:
        """Replace outputs, kind by kind."""
        outputs: dict[str, list[Any]] = {}
        by_kind: dict[str, list[Happening]] = {}
        for event in self.events:
            record = event.record
            if not event.begins and record.has("output"):
                by_kind.setdefault(record.kind, []).append(event)
                there = outputs.setdefault(record.kind, [])
                if len(there) < WRONG_MAX and record.peek("output") not in there:
                    there.append(record.peek("output"))
        for kind, events in by_kind.items():
            if outputs[kind] == [None]:
                continue
            count = altered.setdefault(kind, Altered(kind))
            for event in _spread(events, OUTPUTS_MAX):
                self._alter(event, outputs[kind], count)

    def _alter(self, event: Happening, others: list[Any], count: Altered) -> None:
        had = event.record.peek("output")
        asked = event.record.peek("input") if event.record.has("input") else None
        made = list(itertools.islice(_leaves(had, asked), WRONG_MAX // 2))
        there = [had, *(value for value, _ in made)]
        of_others = [(other, False) for other in others if other not in there]
        for value, nobodys in [*made, *of_others[: WRONG_MAX - len(made)]]:
            changed = event.record.with_output(value)
            events = [
                one._replace(record=changed) if one.number == event.number else one
                for one in self.events
            ]
            places = [n for n, one in enumerate(events) if one.number == event.number]
            ended = self._replayed(events, min(places), max(places) + AFTER_MAX)
            if ended is None or ended.exceeded:
                continue
            refused = ended.stuck is not None
            count.tried += 1
            count.refused += refused
            if nobodys:
                count.nobodys += 1
                count.nobodys_refused += refused
            if not refused and not count.accepted:
                count.accepted = f"{shown(value)} for {shown(had)}"

    def _replayed(self, events: list[Happening], first: int, last: int) -> Ended | None:
        """From what was known before the first change to the last one; places count from the
        beginning. None where the specification cannot take the changed record."""
        try:
            ended = run(self.replay, events[first : last + 1], self.before[first])
        except ConfigError:
            return None
        return ended._replace(at=None if ended.at is None else ended.at + first)


def _pairs(events: list[Happening]) -> list[tuple[Happening, Happening]]:
    """Records that end one after the other, first those of which the second began later; then such
    that end near each other."""
    begun: dict[int, int] = {}
    ended: dict[int, int] = {}
    for at, event in enumerate(events):
        (begun if event.begins else ended)[event.number] = at
    ends = [one for one in events if not one.begins and one.record.kind != GAP]
    pairs = [
        (first, second, distance)
        for distance in range(1, NEAR + 1)
        for first, second in zip(ends, ends[distance:], strict=False)
    ]
    kinds: list[list[tuple[Happening, Happening]]] = [[], [], []]
    for first, second, distance in pairs:
        apart = begun.get(second.number, len(events)) > ended[first.number]
        kinds[2 if distance > 1 else 0 if apart else 1].append((first, second))
    tried: list[tuple[Happening, Happening]] = []
    for kind in kinds:
        tried += _spread(kind, SWAPS_MAX - len(tried))
    return tried


def _exchanged(
    events: list[Happening], first: Happening, second: Happening
) -> tuple[list[Happening], list[int]]:
    """Each in the place and at the times of the other, and the places that have changed."""
    there = {
        first.number: second.record.at_the_time_of(first.record),
        second.number: first.record.at_the_time_of(second.record),
    }
    changed = [
        one._replace(record=there[one.number]) if one.number in there else one for one in events
    ]
    return changed, [n for n, one in enumerate(events) if one.number in there]


def _spread(found: list[Any], most: int) -> list[Any]:
    """Evenly, at most so many."""
    if len(found) <= most:
        return list(found)
    return [found[n * len(found) // most] for n in range(most)]


def _leaves(value: Any, asked: Any) -> Iterator[tuple[Any, bool]]:
    """With a part of it changed, and whether that is what nobody has returned: true and false are
    others' as well. What an output says again of the input, in the same place, is no answer."""
    if isinstance(value, bool):
        yield not value, False
    elif isinstance(value, int | float):
        yield value + 1_000_003, True
    elif isinstance(value, str):
        yield f"{value}'", True
    elif isinstance(value, tuple):
        given = asked if isinstance(asked, tuple) and len(asked) == len(value) else None
        for n in reversed(range(len(value))):
            for other, nobodys in _inside(value[n], None if given is None else (given[n],)):
                yield (*value[:n], other, *value[n + 1 :]), nobodys
    elif isinstance(value, dict):
        for name, inner in value.items():
            there = isinstance(asked, dict) and name in asked
            for other, nobodys in _inside(inner, (asked[name],) if there else None):
                yield {**value, name: other}, nobodys


def _inside(value: Any, given: tuple[Any] | None) -> Iterator[tuple[Any, bool]]:
    if given is not None and value == given[0]:
        return iter(())
    return _leaves(value, None if given is None else given[0])


def _unguarded(model: Model, mapped: Mapped, part: list[Happening]) -> bool:
    """Is every record taken where nothing is asked of it? One order will do: none is refused for
    its order."""
    taker = Taker(model, mapped, guarded=False)
    state = model.initial[0]
    for event in part:
        record: Record = event.record
        if event.begins or record.kind == GAP:
            continue
        try:
            found, _ = taker.record(record, state)
        except ConfigError:
            return False
        if not found:
            return False
        state = found[0]
    return True
