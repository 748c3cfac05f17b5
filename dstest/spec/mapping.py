"""Which steps a record may stand for: a method of the specification per kind of record.

    @maps("dequeue")
    def of_dequeue(self, record, s):
        if record.known and record.output is None:
            yield Step("empty")
        elif record.known:
            yield Step("dequeue", (record.output,))
        elif s.items:
            yield Step("dequeue", (s.items[0],))

It names `record`, and `s` where it has to know the state. What it yields are candidates, each an
action with all of its arguments; guards decide. Arguments come from the record and not from the
domains of the specification: whatever must hold of one is a guard, or a domain that asks for `s`.
A kind that has no such method is one of `ignores`, or an error. Nothing stands for every action
there is: such a mapping could not refuse anything. Values are equal as Python has it: true is 1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.op import Op, Outcome
from dstest.spec.declare import Spec, error_text, marked_once, remedy_for, require_taking
from dstest.spec.model import Model, Step, show, truth

GAP: Final = "gap"
"""Kind of an event: what wrote the log ended here, and what it did last may not stand in it."""

_ACCEPTED: Final = ("self", "record", "s")

_Of = bool | Callable[["Record"], bool]
_OfState = Callable[[Any, "Record"], bool]


class Event(msgspec.Struct, frozen=True):
    """A line of a log: a kind, and what it says."""

    kind: str
    fields: dict[str, Any] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, line: Mapping[str, Any], kind: str = "kind") -> Event:
        """An object of a log, with the field that holds its kind. Raises ConfigError."""
        if not isinstance(line.get(kind), str):
            raise ConfigError(
                f"a record has no {kind!r} that is a text: {show(dict(line))}",
                remedy="name the field that says of what kind a record is",
            )
        return cls(line[kind], {name: v for name, v in line.items() if name != kind})


class Record:
    """An operation or an event as a specification sees it: what was asked and what came of it, with
    lists as tuples. Of an operation these are `key`, `input`, `output`, `process`, `node`, `op_id`,
    `invoke_ts`, `complete_ts` (ns); of an event its own fields.

    `known` is false for an operation of unknown outcome, which has no output to ask for. `asked`
    are the fields that were looked at, `candidates` its steps where they are the same in each
    state, once they are known.
    """

    __slots__ = ("_fields", "asked", "candidates", "kind", "known")

    def __init__(self, kind: str, fields: Mapping[str, Any], known: bool = True) -> None:
        self.kind, self.known = kind, known
        self.asked: set[str] = set()
        self.candidates: list[Step] | None = None
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self.known and name in ("output", "complete_ts"):
            raise ConfigError(
                f"nobody knows the {name} of a {self.kind} of unknown outcome",
                remedy="ask record.known first; or mark what changes nothing: only_reads=True",
            )
        if name not in self._fields:
            raise ConfigError(
                f"a record of kind {self.kind!r} has no field {name!r}",
                remedy=meant(name, list(self._fields)),
            )
        self.asked.add(name)
        return self._fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field that may be absent."""
        return getattr(self, name) if self.has(name) else default

    def has(self, name: str) -> bool:
        """Is there such a field?"""
        return name in self._fields

    def peek(self, name: str) -> Any:
        """A field, without having looked at it."""
        return self._fields[name]

    def with_output(self, value: Any) -> Record:
        """The same with another output."""
        return Record(self.kind, {**self._fields, "output": value}, self.known)

    def at_the_time_of(self, other: Record) -> Record:
        """The same in the place of another."""
        times = ("invoke_ts", "complete_ts")
        moved = {name: value for name, value in other._fields.items() if name in times}
        return Record(self.kind, {**self._fields, **moved}, self.known)

    def __str__(self) -> str:
        parts = [self.kind]
        for name, value in self._fields.items():
            unsaid = name in ("op_id", "node", "invoke_ts", "complete_ts")
            answer = name == "output" and self._fields.get("input") is None
            if (value is None and not answer) or unsaid or (name == "output" and not self.known):
                continue
            parts.append(f"{name}={show(value)}")
        return " ".join(parts) if self.known else " ".join([*parts, "(unknown)"])


def record_of(one: Op | Event) -> Record:
    """As a mapping sees it."""
    if isinstance(one, Event):
        return Record(one.kind, {name: _frozen(value) for name, value in one.fields.items()})
    fields = {
        "process": one.process_id,
        "key": one.key,
        "input": _frozen(one.input),
        "output": _frozen(one.output),
        "node": one.node_seen,
        "op_id": one.op_id,
        "invoke_ts": one.invoke_ts,
        "complete_ts": one.complete_ts,
    }
    return Record(one.op_type, fields, one.outcome is Outcome.OK)


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {name: _frozen(inner) for name, inner in value.items()}
    return value


class _Maps(msgspec.Struct, frozen=True):
    kinds: tuple[str, ...]
    only_reads: _Of
    after: _OfState | None
    too_late: _OfState | None


def maps(
    *kinds: str,
    only_reads: _Of = False,
    after: _OfState | None = None,
    too_late: _OfState | None = None,
) -> Callable[[Callable[..., Iterable[Step]]], Callable[..., Iterable[Step]]]:
    """The method says which steps a record of these kinds may stand for.

    `only_reads`, or a function of the record: its steps leave the state as it is, so one of unknown
    outcome tells nothing. `after` is what must hold of the state after the step and the record, for
    records that say something of it. `too_late`: can the record, once it is known what came of it,
    not happen any more in this state, nor in any that comes after it? That is not needed for a
    right answer, and saves much work: a state in which what is under way is too late leads nowhere.
    """
    if not kinds or GAP in kinds or not all(kind.strip("*? ") for kind in kinds):
        raise ConfigError(
            f"a mapping is of records of kinds named one by one, {GAP!r} not among them",
            remedy='@maps("read")',
        )

    def mark(function: Callable[..., Iterable[Step]]) -> Callable[..., Iterable[Step]]:
        marked_once(function, "@maps")
        vars(function)["spec_maps"] = _Maps(kinds, only_reads, after, too_late)
        return function

    return mark


class _Way(msgspec.Struct, frozen=True):
    """One method that maps, bound to its specification."""

    steps: Callable[[Record, Any], Iterable[Step]]
    of_state: bool
    said: _Maps
    name: str
    file: str
    place: str


class Mapped:
    """The mappings of a model's specification.

    `asked` has by kind the fields that were looked at. Raises ConfigError where there are none, for
    two of one kind, for one whose kind is ignored, and for parameters that are not known.
    """

    def __init__(self, model: Model) -> None:
        spec = model.spec
        self.asked: dict[str, set[str]] = {}
        self.model = model
        self._actions = {one.name: one for one in model.actions}
        self._ways: dict[str, _Way] = {}
        for function in _functions(spec):
            self._add(spec, function)
        if not self._ways:
            raise ConfigError(
                f"{model.name} says of no record what it stands for",
                remedy='mark methods with @maps("KIND")',
            )
        for name in sorted({*spec.hidden, *([spec.crash] if spec.crash else [])}):
            model.action(name)
        visible = {*self._actions} - spec.hidden - {spec.crash}
        self._all = visible if len(visible) > 1 else set()

    def _add(self, spec: Spec, function: Callable[..., Iterable[Step]]) -> None:
        said: _Maps = vars(function)["spec_maps"]
        named = list(inspect.signature(function).parameters)
        where = f"{self.model.name}.{function.__name__}"
        if strange := [name for name in named if name not in _ACCEPTED]:
            raise ConfigError(
                f"{where} asks for {', '.join(strange)}",
                remedy="self, record and s is all there is",
            )
        for what, asked, given in (
            ("only_reads", said.only_reads, ("record",)),
            ("after", said.after, ("s", "record")),
            ("too_late", said.too_late, ("s", "record")),
        ):
            if callable(asked):
                require_taking(asked, given, f"{what} of {where}")
        call = function.__get__(spec)
        file = function.__code__.co_filename
        place = f"{file}, line {function.__code__.co_firstlineno}"

        def steps(record: Record, state: Any) -> Iterable[Step]:
            there = {"record": record, "s": state}
            found: Iterable[Step] = call(**{n: there[n] for n in named if n != "self"})
            return found

        for kind in said.kinds:
            if kind in self._ways or kind in spec.ignores:
                raise ConfigError(
                    f"{where}: records of kind {kind!r} are mapped or ignored elsewhere as well",
                    remedy="one mapping per kind of record",
                )
            self._ways[kind] = _Way(steps, "s" in named, said, where, file, place)

    @property
    def kinds(self) -> set[str]:
        """Those that a method maps."""
        return {*self._ways}

    def knows(self, kind: str) -> bool:
        """Is a record of this kind mapped? Raises ConfigError for one that is not ignored either:
        nobody knows what it did."""
        if kind in self._ways:
            return True
        spec = self.model.spec
        if kind in spec.ignores:
            return False
        raise ConfigError(
            f"{self.model.name} neither maps nor ignores records of kind {kind!r}",
            remedy=meant(kind, [*self._ways, *spec.ignores]),
        )

    def of_state(self, kind: str) -> bool:
        """Do the candidates depend on the state?"""
        return self._ways[kind].of_state

    def only_reads(self, record: Record) -> bool:
        """Do all of its steps leave the state as it is, as the specification says?"""
        said = self._ways[record.kind].said.only_reads
        return truth(said(record) if callable(said) else said, f"only_reads of {record.kind!r}")

    def after(self, record: Record) -> _OfState | None:
        """What the record says of the state after it, None where that is nothing."""
        return self._ways[record.kind].said.after

    def too_late(self, record: Record) -> _OfState | None:
        """Whether it can no longer happen, None where the specification does not say."""
        return self._ways[record.kind].said.too_late

    def steps(self, record: Record, state: Any) -> list[Step]:
        """The candidates. Raises ConfigError for what no action can be taken with, and for
        candidates of every action that there is."""
        way = self._ways[record.kind]
        if record.candidates is not None:
            return record.candidates
        try:
            found = self._steps_of(way, record, state)
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(
                f"{self.model.name}: {record} cannot be mapped: {error_text(error)}",
                remedy=f"a mapping takes each record of its kind; {remedy_for(error)}",
            ) from None
        self.asked.setdefault(record.kind, set()).update(record.asked)
        if self._all and {step.action for step in found} >= self._all:
            raise ConfigError(
                f"{self.model.name}: {record} may stand for any action, and would be accepted "
                "whatever it is",
                remedy="a record stands for the actions of its own kind",
            )
        if not way.of_state:
            record.candidates = found
        return found

    def _steps_of(self, way: _Way, record: Record, state: Any) -> list[Step]:
        """Each looked at where it comes from. Raises ConfigError for what is no step."""
        given = way.steps(record, state)
        if given is None or isinstance(given, Step):
            raise ConfigError(
                f"{self.model.name}: {way.name} ({way.place}) "
                + ("gives nothing" if given is None else "returns a step"),
                remedy="it yields steps: yield Step(..); a bare `return` above one yields none",
            )
        found = []
        for step in given:
            line = getattr(getattr(given, "gi_frame", None), "f_lineno", None)
            place = way.place if line is None else f"{way.file}, line {line}"
            self._look_at(step, record, place)
            found.append(step)
        return found

    def _look_at(self, step: Any, record: Record, place: str) -> None:
        if isinstance(step, Step) and not isinstance(step.args, tuple):
            raise ConfigError(
                f"{place}: {record} is mapped to a step of {step.action!r} whose arguments are"
                f" {step.args!r}, which is no tuple",
                remedy=f"with a comma after the last: Step({step.action!r}, (x,))",
            )
        one = self._actions.get(step.action) if isinstance(step, Step) else None
        if one is None or len(step.args) != len(one.params):
            raise ConfigError(
                f"{place}: {record} is mapped to {step}, which is no action with its arguments of "
                f"{self.model.name}",
                remedy=f"its parameters are: {', '.join(one.params)}"
                if one and one.params
                else f"its actions are: {', '.join(self._actions)}",
            )
        try:
            hash(step.args)
        except TypeError:
            raise ConfigError(
                f"{place}: {record} is mapped to {step}, whose arguments cannot be hashed",
                remedy="take out of an object what is an argument",
            ) from None


def _functions(spec: Spec) -> list[Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for base in reversed(type(spec).__mro__):
        found.update({n: f for n, f in vars(base).items() if inspect.isfunction(f)})
    return [function for function in found.values() if "spec_maps" in vars(function)]
