"""One step of a model at a time, with what refused it: guards, domains, invariants. A sequence of
steps done again, which guards would have to go for it to be accepted (`knock`), and why an action
cannot be taken at all (`why`)."""

from __future__ import annotations

import inspect
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.rng import stream
from dstest.spec.compose import System
from dstest.spec.declare import Spec, actions_of, error_text, remedy_for
from dstest.spec.explore import Steady
from dstest.spec.mapping import Mapped, Record
from dstest.spec.model import (
    Action,
    Args,
    Count,
    Guard,
    Invariant,
    Model,
    Step,
    Watch,
    bound,
    fields_of,
    new_counts,
    show,
    truth,
)
from dstest.spec.mutate import operands, text_of
from dstest.spec.trace import Trace, walk_from, way_to

NO_STEP: Final = "stands for nothing here"
"""Of a record whose mapping has no candidate in a state."""

Accepts = Callable[[Model], bool]
"""Is what was to be possible possible in this model?"""

LARGEST: int = 4
"""Guards of a contradiction, at most: larger sets would be read by nobody."""

WALK_STEPS: int = 50

Truth = Literal["true", "false", "undefined"]


def domain_guards(spec: Spec) -> dict[str, list[Guard]]:
    """Action -> a guard for each of its domains that is a function of the state.

    Domains that ask for the state restrict a step as guards do: whoever takes arguments from
    elsewhere than the domains, as records do, asks these as well. Fixed domains are constants of an
    exploration, and restrict nothing else.
    """
    found = _of(spec, "system", lambda s: s, {})
    if isinstance(spec, System):
        places = {name: list(params) for name, params in _params(spec).items()}
        found = _of(spec, "system", lambda s: s, places)
        for part, inner in spec.parts.items():
            for name, guards in _of(inner, f"sub:{part}", _field(part), places).items():
                found.setdefault(name, []).extend(guards)
    return found


def _params(spec: System) -> dict[str, tuple[str, ...]]:
    return {one.name: one.params for one in spec.model().actions}


def _of(
    spec: Spec, level: str, state_of: Callable[[Any], Any], places: dict[str, list[str]]
) -> dict[str, list[Guard]]:
    found: dict[str, list[Guard]] = {}
    for one in actions_of(spec):
        params = places.get(one.name) or list(one.domains)
        for name, domain in one.domains.items():
            if callable(domain) and "s" in inspect.signature(domain).parameters:
                asked = bound(spec, domain, (), f"parameter {name!r} of action {one.name!r}")
                holds = _among(asked, params.index(name), state_of)
                found.setdefault(one.name, []).append(
                    Guard(f"domain of {name}", level, holds, domain)
                )
    return found


def _among(
    asked: Callable[[Any, Args], Iterable[Any]], place: int, state_of: Callable[[Any], Any]
) -> Callable[[Any, Args], bool]:
    return lambda s, a: a[place] in asked(state_of(s), ())


def _field(part: str) -> Callable[[Any], Any]:
    return lambda s: getattr(s, part)


class GuardUse(msgspec.Struct):
    """How often a guard held and how often not; `action` and the guard's own label name it."""

    action: str
    guard: str
    true: int = 0
    false: int = 0


class RefusedStep(NamedTuple):
    """A candidate, and what it was refused by: a guard, an invariant, or its mapping (then there is
    no candidate)."""

    step: Step | None
    by: str


class Taker:
    """Takes steps, and counts what was asked. `guarded` false: every step is taken that can be
    executed at all. `watch` is looked at for each record in each state."""

    def __init__(
        self, model: Model, mapped: Mapped, guarded: bool = True, watch: Watch | None = None
    ) -> None:
        self.model, self.mapped, self.guarded = model, mapped, guarded
        self.watch = watch or Watch()
        self.counts: dict[str, Count] = new_counts(model.of_kind("state", "action", "sometimes"))
        self.guards: dict[tuple[str, str], GuardUse] = {
            (one.name, guard.label): GuardUse(one.name, guard.label)
            for one in model.actions
            for guard in one.guards
        }
        self.taken: Counter[str] = Counter()
        self._actions = {one.name: one for one in model.actions}
        self._domains = domain_guards(model.spec)
        self._of_states = model.of_kind("state")
        self._of_steps = model.of_kind("action")
        self._sometimes = model.of_kind("sometimes")
        self._steady = Steady(model)

    def begin(self) -> Iterator[Any]:
        """The initial states, those left out in which an invariant fails."""
        return (state for state in self.model.initial if self._looked_at(state) is None)

    def record(self, record: Record, state: Any) -> tuple[list[Any], list[RefusedStep]]:
        """The states after what a record stands for, and what was refused."""
        self.watch.look()
        found: list[Any] = []
        refused: list[RefusedStep] = []
        steps = self.mapped.steps(record, state)
        after = self.mapped.after(record)
        for step in steps:
            there, by = self.take(state, step)
            if by is None and after is not None and self.guarded:
                said = truth(after(there, record), f"after of {record.kind!r}")
                by = None if said else "what the record says of the state after it"
            if by is None:
                found.append(there)
            else:
                refused.append(RefusedStep(step, by))
        if not steps:
            refused.append(RefusedStep(None, NO_STEP))
        return found, refused

    def take(self, state: Any, step: Step) -> tuple[Any, str | None]:
        """The state after it and None, or None and what refused it."""
        try:
            by = self._guard(state, step) if self.guarded else None
            if by is not None:
                return None, by
            after = self._actions[step.action].update(state, step.args)
            if self.guarded and self._steady.due():
                self._steady.taken(state, step, after)
        except (ConfigError, MemoryError):
            raise
        except Exception as error:
            if not self.guarded:
                return None, "it cannot be executed"
            raise ConfigError(
                f"{self.model.name}: {step} goes wrong in {show(state)}: {error_text(error)}",
                remedy=remedy_for(error, fields_of(state)),
            ) from None
        if type(after) is not type(state):
            raise ConfigError(
                f"{self.model.name}: {step} gives {show(after)}, which is no state",
                remedy="an update returns the state with changes: replace(s, field=...)",
            )
        if self.guarded:
            broken = self._step_looked_at(state, step, after) or self._looked_at(after)
            if broken is not None:
                return None, broken
        self.taken[step.action] += 1
        return after, None

    def all_of(self, state: Any, names: list[str]) -> Iterator[Any]:
        """The states after these actions, with all arguments that their domains allow."""
        for name in names:
            for args in self._actions[name].choices(state):
                self.watch.look()
                after, by = self.take(state, Step(name, args))
                if by is None:
                    yield after

    def _guard(self, state: Any, step: Step) -> str | None:
        for guard in self._actions[step.action].guards:
            use = self.guards[step.action, guard.label]
            if not guard.asked(state, step.args):
                use.false += 1
                return guard.label
            use.true += 1
        for guard in self._domains.get(step.action, ()):
            if not guard.asked(state, step.args):
                return guard.label
        return None

    def _looked_at(self, state: Any) -> str | None:
        for one in self._sometimes:
            self.counts[one.id].passed += self._held(one, state)
        for one in self._of_states:
            if not self._held(one, state):
                self.counts[one.id].failed += 1
                return f"invariant {one.id}"
            self.counts[one.id].passed += 1
        return None

    def _step_looked_at(self, before: Any, step: Step, after: Any) -> str | None:
        for one in self._of_steps:
            if not self._held(one, before, step, after):
                self.counts[one.id].failed += 1
                return f"invariant {one.id}"
            self.counts[one.id].passed += 1
        return None

    def _held(self, one: Invariant, *given: Any) -> bool:
        try:
            return one.asked(*given)
        except (ConfigError, MemoryError):
            raise
        except Exception as error:
            raise self.model.gone_wrong(given[-1], error) from None


class ReplayResult(msgspec.Struct, frozen=True):
    """`trace` is as far as it went; `refused` is the number of the step that was not enabled, from
    0, None where all were done."""

    trace: Trace
    refused: int | None = None


def replay(model: Model, steps: Iterable[Step], start: Any = None) -> ReplayResult:
    """From `start`, the first initial state where None.

    Raises ConfigError for a step of no action, or with another number of arguments.
    """
    trace = Trace((model.initial[0] if start is None else start,))
    for number, step in enumerate(steps):
        action = model.action(step.action)
        if len(step.args) != len(action.params):
            raise ConfigError(
                f"step {number}: {step} has {len(step.args)} arguments",
                remedy=f"{action.name}({', '.join(action.params)})",
            )
        if not action.enabled(trace.last, step.args):
            return ReplayResult(trace, number)
        trace = trace.then(step, action.update(trace.last, step.args))
    return ReplayResult(trace)


def without_guards(model: Model, dropped: Collection[str]) -> Model:
    """The model as it would be without these guards, by `action.label`."""

    def kept(action: Action) -> Action:
        guards = tuple(g for g in action.guards if f"{action.name}.{g.label}" not in dropped)
        return msgspec.structs.replace(action, guards=guards)

    return msgspec.structs.replace(model, actions=tuple(map(kept, model.actions)))


class Knockout(msgspec.Struct, frozen=True):
    """`guards` are by `action.label`: with all of them gone it is accepted, with one of them back
    it is not. None where it is refused without any guard. `asked` counts the models tried."""

    guards: tuple[str, ...] | None
    asked: int


def knock(model: Model, accepts: Accepts) -> Knockout:
    """`accepts` says whether a model allows what is wanted.

    A smallest set of guards that none may stay of. To drop a guard never forbids what was allowed.
    So the guards are laid in a row, and the shortest part of it, from the front, that is enough is
    found by halves; its last one is needed. That is done again with those that are known to be
    needed in front, until they are enough by themselves. Source: Junker, "QuickXplain: Preferred
    Explanations and Relaxations for Over-Constrained Problems" (2004), by the binary search of
    Hemery et al., "Extracting MUCs from Constraint Networks" (2006).
    """
    row = [f"{one.name}.{g.label}" for one in model.actions for g in one.guards]
    asked = 0

    def enough(dropped: list[str]) -> bool:
        nonlocal asked
        asked += 1
        return accepts(without_guards(model, dropped))

    needed: list[str] = []
    if enough([]):
        return Knockout((), asked)
    if not enough(row):
        return Knockout(None, asked)
    while True:
        low, high = 0, len(row)  # the first `high` are enough, the first `low` are not
        while high - low > 1:
            half = (low + high) // 2
            if enough([*needed, *row[:half]]):
                high = half
            else:
                low = half
        needed.append(row[high - 1])
        row = row[: high - 1]
        if not row or enough(needed):
            return Knockout(tuple(sorted(needed)), asked)


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A guard that does not hold for these arguments, or raises: then `truth` is `undefined`.
    `operands` are what it compares, with their values."""

    args: dict[str, Any]
    guard: str
    level: str
    text: str
    truth: Truth
    operands: dict[str, str]


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Guards that held nowhere together, each of which held somewhere: labels and their levels.
    `proved` where all states that can be reached were asked."""

    guards: tuple[str, ...]
    levels: tuple[str, ...]
    proved: bool

    @property
    def across(self) -> bool:
        """Do they stand at several levels?"""
        return len(set(self.levels)) > 1


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """`refused` is of the state that was asked about, each argument on its own: all of its guards
    would have to go. `path` leads to a state in which the action can be taken, where there is one.

    `never` are guards that held nowhere. `asked` counts the states, `complete` says that there are
    no more.
    """

    action: str
    enabled: tuple[Args, ...]
    refused: tuple[Refusal, ...]
    path: Trace | None
    step: Step | None
    never: tuple[str, ...]
    contradictions: tuple[Contradiction, ...]
    asked: int
    complete: bool


def refusals(model: Model, action: Action, state: Any, args: Args) -> list[Refusal]:
    """The guards that do not hold, every one of them asked."""
    given = dict(zip(action.params, args, strict=True))
    found = []
    for guard in action.guards:
        truth = _truth(guard, state, args)
        if truth != "true":
            found.append(
                Refusal(
                    args=given,
                    guard=guard.label,
                    level=guard.level,
                    text=text_of(guard.source),
                    truth=truth,
                    operands=operands(guard.source, _names(model, guard, state, given)),
                )
            )
    return found


def _truth(guard: Guard, state: Any, args: Args) -> Truth:
    try:
        return "true" if guard.asked(state, args) else "false"
    except ConfigError:
        raise
    except Exception:  # it relies on a guard before it, which does not hold either
        return "undefined"


def _names(model: Model, guard: Guard, state: Any, given: dict[str, Any]) -> dict[str, Any]:
    """What the guard's function calls `self` and `s`: a part's guard sees the part."""
    part = guard.level.partition("sub:")[2]
    if not part:
        return {"self": model.spec, "s": state, **given}
    parts = getattr(model.spec, "parts", {})
    return {"self": parts.get(part), "s": getattr(state, part), **given}


def why(
    model: Model,
    name: str,
    states: Sequence[Any],
    args: Args | None = None,
    *,
    seed: int = 0,
    most_states: int = 20_000,
    walks: int = 1000,
) -> Why:
    """Asks of `states`, then of those that can be reached from there: all of them up to
    `most_states`, and where those are more, also what that many walks come by.

    Raises ConfigError where there is no such action.

    A guard of a part and one of the whole that can never hold together leave no counterexample: the
    action is simply never taken. So all states that can be reached are asked which guards hold
    there; a smallest set of guards that never hold together, though each does somewhere, is the
    reason. Source: Liffiton and Sakallah, "Algorithms for Computing Minimal Unsatisfiable Subsets
    of Constraints" (2008), for what minimal means.
    """
    action = model.action(name)
    enabled: list[Args] = []
    refused: list[Refusal] = []
    for state in states:
        for one in [args] if args is not None else action.choices(state):
            rows = refusals(model, action, state, one)
            refused += rows
            if not rows:
                enabled.append(one)
    seen = _GuardSets(model, action, args)
    complete = seen.all_from(states, most_states)
    if not complete and seen.found is None:
        seen.by_walks(states, walks, stream(seed, "why"))
    found = seen.found
    return Why(
        action=name,
        enabled=tuple(enabled),
        refused=tuple(refused),
        path=found[0] if found else None,
        step=found[1] if found else None,
        never=tuple(g.label for i, g in enumerate(action.guards) if not seen.ever & (1 << i)),
        contradictions=() if found else tuple(_contradictions(action, seen, complete)),
        asked=len(seen.states),
        complete=complete,
    )


class _GuardSets:
    """Which guards held together, as sets of bits, over all states that were asked."""

    def __init__(self, model: Model, action: Action, args: Args | None) -> None:
        self._model, self._action, self._args = model, action, args
        self._all = (1 << len(action.guards)) - 1
        self.masks: set[int] = set()
        self.ever = 0
        self.states: set[Any] = set()
        self.found: tuple[Trace, Step] | None = None

    def ask(self, state: Any) -> Step | None:
        """The action with arguments for which all guards hold here."""
        self.states.add(state)
        ways = [self._args] if self._args is not None else self._action.choices(state)
        for args in ways:
            mask = 0
            for bit, guard in enumerate(self._action.guards):
                if _truth(guard, state, args) == "true":
                    mask |= 1 << bit
            self.masks.add(mask)
            self.ever |= mask
            if mask == self._all:
                return Step(self._action.name, args)
        return None

    def all_from(self, starts: Sequence[Any], most: int) -> bool:
        """Breadth first, until the action can be taken. Were that all states?"""
        before: dict[Any, tuple[Any, Step] | None] = dict.fromkeys(starts)
        todo = deque(before)
        while todo:
            state = todo.popleft()
            step = self.ask(state)
            if step is not None:
                self.found = way_to(before, state), step
                return False
            for done, after in self._model.steps(state):
                if after not in before:
                    if len(before) >= most:
                        return False
                    before[after] = (state, done)
                    todo.append(after)
        return True

    def by_walks(self, starts: Sequence[Any], walks: int, rng: random.Random) -> None:
        """States that lie further away."""
        for _ in range(walks):
            trace = walk_from(self._model, rng.choice(starts), rng, WALK_STEPS)
            for length, state in enumerate(trace.states):
                step = None if state in self.states else self.ask(state)
                if step is not None:
                    self.found = Trace(trace.states[: length + 1], trace.steps[:length]), step
                    return


def _contradictions(action: Action, seen: _GuardSets, proved: bool) -> Iterator[Contradiction]:
    """Smallest first, those across levels before the others of their size."""
    guards = [(bit, g) for bit, g in enumerate(action.guards) if seen.ever & (1 << bit)]
    found: list[int] = []
    for size in range(2, min(LARGEST, len(guards)) + 1):
        here: list[Contradiction] = []
        for chosen in itertools.combinations(guards, size):
            mask = sum(1 << bit for bit, _ in chosen)
            if any(mask & one == one for one in found):
                continue
            if not any(mask & one == mask for one in seen.masks):
                found.append(mask)
                here.append(
                    Contradiction(
                        guards=tuple(g.label for _, g in chosen),
                        levels=tuple(g.level for _, g in chosen),
                        proved=proved,
                    )
                )
        yield from sorted(here, key=lambda one: not one.across)
