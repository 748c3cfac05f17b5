"""A system held to its specification step by step (`Subject`): the specification says what is done
and what must be answered, the system does it. And the controls of an `accept`: could it have been
another answer (`controlled`)?

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

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.registry import error_line, module_at
from dstest.core.rng import stream
from dstest.spec.conformance import AlteredRecords, ConformResult, Swap
from dstest.spec.declare import require_taking
from dstest.spec.mapping import GAP, Mapped, Record
from dstest.spec.merge import Frontier, Happening, Replay, ReplayEnd, run
from dstest.spec.model import Model, Step, Watch, show
from dstest.spec.taking import Taker
from dstest.spec.trace import Trace, walk_from

_TRIES: Final = 200
"""Walks that are tried to make one shorter."""

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
                told = got if isinstance(got, str) else show(got[0])
                self.answers = ("any answer" if wanted is ... else show(wanted), told)
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
        return error_line(error)


def _broken(how: str, error: BaseException) -> ConfigError:
    return ConfigError(
        f"the system cannot be {how}: {error_line(error)}",
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


def controlled(
    said: ConformResult,
    how: _How,
    mapped: Mapped,
    parts: list[list[Happening]],
    frontier_max: int,
    watch: Watch,
) -> None:
    """Write down what the controls came to, and the verdict that follows. Raises Spent.

    | control | what must be noticed |
    |---|---|
    | swap | two records near each other, exchanged: one is refused, where it then stands |
    | outputs | a record with another output than it had: half of those that are nobody's |
    | no guards | all is taken without guards, and wrong outputs too: nothing is compared |

    A guard that was never false while the records were replayed could be left out, one at a time,
    with the same answer: those are named. Records are exchanged, and outputs replaced, in the
    largest parts first. Each exchange is replayed from what was known before it, and from the
    beginning.

    An output that another record of its kind has may be allowed where it is put: of several that
    wait, any may come first. One that nobody has (a number or text that is in no record) is wrong
    wherever an output is compared. So a kind is judged by those, and where it has none, as true and
    false have none, by all that were tried. A model may let a part of them pass, as one that takes
    any larger number does; where it lets more than half pass, an answer would have been accepted
    that is more likely wrong than not, and nothing was shown."""
    model = mapped.model
    altered: dict[str, AlteredRecords] = {}
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


def _weak(said: ConformResult, records: int) -> list[str]:
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


def _judged_by(one: AlteredRecords) -> tuple[int, int]:
    """How many were tried, and refused, of those that a kind is judged by."""
    if one.nobodys >= TRIED_MIN:
        return one.nobodys, one.nobodys_refused
    return one.tried, one.refused


def _meaning(said: ConformResult, model: Model) -> str:
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
        self.before: list[Frontier] = run(replay, events, keep=True).before
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

    def alter(self, altered: dict[str, AlteredRecords]) -> None:
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
            count = altered.setdefault(kind, AlteredRecords(kind))
            for event in _spread(events, OUTPUTS_MAX):
                self._alter(event, outputs[kind], count)

    def _alter(self, event: Happening, others: list[Any], count: AlteredRecords) -> None:
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
                count.accepted = f"{show(value)} for {show(had)}"

    def _replayed(self, events: list[Happening], first: int, last: int) -> ReplayEnd | None:
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
