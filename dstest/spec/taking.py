"""One step of a model at a time, with what refused it: guards, domains, invariants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.errors import ConfigError
from dstest.spec.bounds import Watch
from dstest.spec.counts import Count, counted
from dstest.spec.domains import domain_guards
from dstest.spec.mapping import Mapped, Record
from dstest.spec.model import Invariant, Model, Step, fields_of, shown, truth
from dstest.spec.steady import Steady
from dstest.spec.wrong import remedy_for, told

NO_STEP: Final = "stands for nothing here"
"""Of a record whose mapping has no candidate in a state."""


class GuardUse(msgspec.Struct):
    """How often a guard held and how often not; `action` and the guard's own label name it."""

    action: str
    guard: str
    true: int = 0
    false: int = 0


class Refused(NamedTuple):
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
        self.counts: dict[str, Count] = counted(model.of_kind("state", "action", "sometimes"))
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

    def record(self, record: Record, state: Any) -> tuple[list[Any], list[Refused]]:
        """The states after what a record stands for, and what was refused."""
        self.watch.look()
        found: list[Any] = []
        refused: list[Refused] = []
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
                refused.append(Refused(step, by))
        if not steps:
            refused.append(Refused(None, NO_STEP))
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
                f"{self.model.name}: {step} goes wrong in {shown(state)}: {told(error)}",
                remedy=remedy_for(error, fields_of(state)),
            ) from None
        if type(after) is not type(state):
            raise ConfigError(
                f"{self.model.name}: {step} gives {shown(after)}, which is no state",
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
