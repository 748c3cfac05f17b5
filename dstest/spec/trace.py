"""A behaviour: states with the steps between them, as data, as text, as a file of JSON, and as
sequence charts (Mermaid), two of them side by side with the first difference marked.

A file is `{"spec": NAME, "constants": {..}, "steps": [{"action", "args"}]}`. Arguments are text, as
they are shown; what they mean is found among what the action may take in the state that it stands
in. So a trace is read by the model that it was written with, or one near it.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.compose import System
from dstest.spec.declare import State, constants_of
from dstest.spec.model import Action, Args, Model, Step, fields_of, show


class Trace(msgspec.Struct, frozen=True):
    """`states` is one longer than `steps`; a state is followed by what was done in it."""

    states: tuple[Any, ...]
    steps: tuple[Step, ...] = ()

    @property
    def last(self) -> Any:
        """Where it ends."""
        return self.states[-1]

    def then(self, step: Step, state: State) -> Trace:
        """With one step more."""
        return Trace((*self.states, state), (*self.steps, step))


def way_to(before: Mapping[Any, tuple[Any, Step] | None], end: Any) -> Trace:
    """The way that a search came by: `before` has, for each state, the one before it with what was
    done there, None for one in which it began."""
    states, steps = [end], list[Step]()
    while (last := before[states[-1]]) is not None:
        states.append(last[0])
        steps.append(last[1])
    return Trace(tuple(reversed(states)), tuple(reversed(steps)))


def walk_from(model: Model, start: Any, rng: random.Random, steps: int) -> Trace:
    """A random walk without a look at invariants, of so many steps at most."""
    trace = Trace((start,))
    for _ in range(steps):
        ways = list(model.steps(trace.last))
        if not ways:
            break
        trace = trace.then(*rng.choice(ways))
    return trace


def changed(before: Any, after: Any) -> str:
    """The fields that are others, `name: old -> new`; the whole state where it has no fields."""
    old, new = fields_of(before), fields_of(after)
    if old is None or new is None:
        return f"{show(before)} -> {show(after)}" if before != after else ""
    return ", ".join(
        f"{name}: {show(old[name])} -> {show(value)}"
        for name, value in new.items()
        if old.get(name) != value
    )


def lines(trace: Trace) -> list[str]:
    """For people: the first state, and each step with what it changed."""
    said = [f"     begins in {show(trace.states[0])}"]
    pairs = zip(trace.states, trace.states[1:], strict=False)
    for number, (step, (before, after)) in enumerate(zip(trace.steps, pairs, strict=True), 1):
        said.append(f"{number:4} {step}  {changed(before, after) or 'changes nothing'}")
    return said


def as_data(model: Model, trace: Trace) -> dict[str, Any]:
    """For JSON: arguments by their names, states as text."""
    params = {one.name: one.params for one in model.actions}
    return {
        "initial": show(trace.states[0]),
        "steps": [
            {
                "action": step.action,
                "args": {n: show(v) for n, v in zip(params[step.action], step.args, strict=True)},
                "state": show(state),
            }
            for step, state in zip(trace.steps, trace.states[1:], strict=True)
        ],
    }


class WrittenStep(msgspec.Struct, frozen=True):
    """Argument by the name of its parameter, as text. `state` is the one after it, as text; empty
    where a file does not say it."""

    action: str
    args: dict[str, str] = {}
    state: str = ""


class TraceFile(msgspec.Struct, frozen=True):
    """A file of a trace. `recorded`: its arguments are those of records, `refused` are what the
    next record may stand for (`dstest.spec.recorded`)."""

    spec: str
    steps: tuple[WrittenStep, ...]
    initial: str = ""
    constants: dict[str, str] = {}
    recorded: bool = False
    refused: tuple[WrittenStep, ...] = ()


def trace_data(model: Model, trace: Trace) -> dict[str, Any]:
    """As data."""
    return {"spec": model.name, "constants": constants_shown(model), **as_data(model, trace)}


def to_bytes(model: Model, trace: Trace) -> bytes:
    """The file."""
    return msgspec.json.format(msgspec.json.encode(trace_data(model, trace)), indent=2) + b"\n"


def read_trace(path: Path) -> TraceFile:
    """Raises ConfigError where it is no trace."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=TraceFile)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", remedy="a file of a trace") from None
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"{path} is no trace: {error}", remedy="one that `dstest spec explore --out` wrote"
        ) from None


class StoredTrace(msgspec.Struct, frozen=True):
    """Where a trace begins, its steps, and the states after them as the file has them. `refused`
    are steps of which one had to come next, and could not."""

    start: Any
    steps: tuple[Step, ...]
    states: tuple[str, ...] = ()
    refused: tuple[Step, ...] = ()


def steps_in(model: Model, file: TraceFile) -> StoredTrace:
    """As steps of the model, from the state in which the file begins.

    Raises ConfigError for a trace of another specification, with other constants, that begins where
    the model does not, without steps, or with an action or argument that the model does not have. A
    step that is not enabled is no error here: its arguments are looked for in the state before it,
    and those after it in that same state.
    """
    _require_same(model, file)
    starts = [one for one in model.initial if show(one) == file.initial]
    if not starts:
        raise ConfigError(
            f"{model.name} does not begin in {file.initial!r}",
            remedy=f"a trace of it, which begins in {show(model.initial[0])}",
        )
    state = starts[0]
    found = []
    for number, row in enumerate(file.steps):
        action = model.action(row.action)
        args = _args(action, row, state, number)
        found.append(Step(action.name, args))
        if action.enabled(state, args):
            state = action.update(state, args)
    return StoredTrace(starts[0], tuple(found), tuple(row.state for row in file.steps))


def difference(read: StoredTrace, states: Sequence[Any]) -> str | None:
    """Where the states that its steps lead to, the first one before them, are others than those in
    the file: the step, the fields, and both values. None where they are the same."""
    for number, (wanted, state) in enumerate(zip(read.states, states[1:], strict=False)):
        if wanted and show(state) != wanted:
            return f"step {number}, {read.steps[number]}: {_other_fields(wanted, state)}"
    return None


def require_same_states(read: StoredTrace, states: Sequence[Any]) -> None:
    """Raises ConfigError for a trace that leads elsewhere than it did."""
    found = difference(read, states)
    if found is not None:
        raise ConfigError(
            f"the trace leads to other states than it did: {found}",
            remedy="the specification, or the file, was changed since; make the trace again",
        )


def _other_fields(wanted: str, state: Any) -> str:
    mine = fields_of(state)
    there = _fields_in(wanted)
    if mine is None or there is None or set(mine) != set(there):
        return f"is {show(state)}, and {wanted} in the file"
    return ", ".join(
        f"{name} is {show(value)}, and {there[name]} in the file"
        for name, value in mine.items()
        if show(value) != there[name]
    )


def _fields_in(text: str) -> dict[str, str] | None:
    """Of `Name(a=1, b=(2, 3))`: the text of each field."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(call, ast.Call):
        return None
    return {
        one.arg: ast.get_source_segment(text, one.value) or ""
        for one in call.keywords
        if one.arg is not None
    }


def _require_same(model: Model, file: TraceFile) -> None:
    if file.spec != model.name:
        raise ConfigError(f"a trace of {file.spec}, not of {model.name}", remedy="its own SPEC")
    mine, theirs = constants_shown(model), dict(file.constants)
    if isinstance(model.spec, System):
        theirs.pop("parts", None)  # older files had where the parts lay in memory
    if other := sorted(n for n in {*mine, *theirs} if mine.get(n) != theirs.get(n)):
        given = [
            f"{name}={theirs.get(name, '?')}"
            if "." in name
            else f"--set '{name}={theirs.get(name, '?')}'"
            for name in other
        ]
        raise ConfigError(
            f"the trace has other constants: {', '.join(other)}", remedy=" ".join(given)
        )
    if not file.steps and not file.recorded:
        raise ConfigError("the trace has no step", remedy="one of at least one step")


def constants_shown(model: Model) -> dict[str, str]:
    """All of them, as they are; those of a part as `part.name`."""
    spec = model.spec
    parts = spec.parts if isinstance(spec, System) else {}
    return {
        f"{before}{name}": show(getattr(one, name))
        for before, one in [("", spec), *((f"{part}.", one) for part, one in parts.items())]
        for name in constants_of(type(one))
    }


def _args(action: Action, row: WrittenStep, state: Any, number: int) -> Args:
    wanted = tuple(row.args.get(name) for name in action.params)
    for args in action.choices(state):
        if tuple(map(show, args)) == wanted:
            return args
    raise ConfigError(
        f"step {number}: {action.name} cannot take {row.args}",
        remedy=f"{action.name}({', '.join(action.params)}), with values of its domains",
    )


class Arrow(msgspec.Struct, frozen=True):
    """Who tells whom what; `to` is who acts where nobody is told."""

    at: str
    to: str
    text: str


def arrows_of(
    steps: Sequence[Step], lanes: Callable[[Step], tuple[str, str]] | None = None
) -> list[Arrow]:
    """`lanes` are who acts and who is told; without it, the first argument acts by itself."""

    def own(step: Step) -> tuple[str, str]:
        who = show(step.args[0]) if step.args else "system"
        return who, who

    return [Arrow(*(lanes or own)(step), str(step)) for step in steps]


def lanes_of(model: Model) -> Callable[[Step], tuple[str, str]]:
    """Who acts is the argument that the specification names (`lane`), or that all of its actions
    have first. Where there is none, it is the specification."""
    firsts = {one.params[0] for one in model.actions if one.params}
    lane = model.spec.lane or (next(iter(firsts)) if len(firsts) == 1 else "")
    places = {one.name: one.params.index(lane) for one in model.actions if lane in one.params}

    def lanes(step: Step) -> tuple[str, str]:
        place = places.get(step.action)
        who = model.name if place is None else f"{lane} {show(step.args[place])}"
        return who, who

    return lanes


def _word(text: str) -> str:
    """As Mermaid takes it: its own signs of a chart are left out."""
    return text.replace(";", ",").replace("#", "").replace("\n", " ")


def chart(arrows: Sequence[Arrow], title: str = "", differs_at: int | None = None) -> str:
    """One chart."""
    lines = ["sequenceDiagram"]
    if title:
        lines.insert(0, f"---\ntitle: {_word(title)}\n---")
    names = dict.fromkeys(name for one in arrows for name in (one.at, one.to))
    ids = {name: f"p{number}" for number, name in enumerate(names)}
    lines += [f"    participant {id_} as {_word(name)}" for name, id_ in ids.items()]
    for number, one in enumerate(arrows):
        if number == differs_at:
            lines.append(f"    Note over {ids[one.at]}: first difference")
        lines.append(f"    {ids[one.at]}->>{ids[one.to]}: {_word(one.text)}")
    return "\n".join(lines) + "\n"


def side_by_side(
    left: Sequence[Arrow], right: Sequence[Arrow], titles: tuple[str, str]
) -> tuple[str, str, int | None]:
    """Both charts, and where they differ first; None where one is the other."""
    both = list(zip(left, right, strict=False))
    at = next((i for i, (a, b) in enumerate(both) if a.text != b.text), None)
    if at is None and len(left) != len(right):
        at = len(both)
    return chart(left, titles[0], at), chart(right, titles[1], at), at
