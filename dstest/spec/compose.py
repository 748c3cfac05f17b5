"""`System`: several specifications as one, by conjunction.

An action that several parts have under one name is one action of the whole: it can be taken where
all of them allow it, and changes each of them as that part says. Its parameters are joined by their
names, and may be what all of them allow. What the system itself says of an action comes on top.

No `canonical` of a part is used: names that parts share must be exchanged in all of them at once,
which no part can say. A system that has one of its own says it of the whole state.
Source: Abadi and Lamport, "Conjoining Specifications" (1995).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from dstest.core.errors import ConfigError
from dstest.spec.declare import DeclaredAction, Spec, State, actions_of
from dstest.spec.model import (
    WHOLE,
    Action,
    Args,
    Guard,
    Invariant,
    Model,
    bound,
    finished,
    guard_of,
    invariant_models,
    shown,
    truth,
    values_of,
)


class System(Spec):
    """The state has a field for each part. What the system declares itself is of the whole state.

    Raises ConfigError for a part that is no specification, or that has parts itself: what such a
    one says is not in its own methods alone.
    """

    parts: ClassVar[Mapping[str, Spec]] = {}
    """Name -> specification; names are words."""

    def __init__(self, **constants: Any) -> None:
        super().__init__(**constants)
        for name, part in self.parts.items():
            if not isinstance(part, Spec) or not name.isidentifier():
                raise ConfigError(
                    f"part {name!r} of {type(self).__name__} is no specification",
                    remedy="parts = {'word': SomeSpec()}",
                )
            if hasattr(part, "model"):
                raise ConfigError(
                    f"part {name!r} of {type(self).__name__} is a whole itself, which no part is",
                    remedy=f"its parts among those of {type(self).__name__}, and what it says of"
                    " the whole there",
                )
        self.state = dataclasses.make_dataclass(
            f"{type(self).__name__}State", [(n, Any) for n in self.parts], frozen=True, slots=True
        )

    def initial(self) -> Iterable[State]:
        """One of each part, in all ways."""
        for states in itertools.product(*(part.initial() for part in self.parts.values())):
            yield self.state(*states)

    def done(self, s: Any) -> bool:
        """Where all of its parts are."""
        return all(
            truth(part.done(getattr(s, name)), f"done() of {name}")
            for name, part in self.parts.items()
        )

    def model(self) -> Model:
        """As `model_of` gives it."""
        own = {one.name: one for one in actions_of(self)}
        of_parts = {name: {a.name: a for a in actions_of(p)} for name, p in self.parts.items()}
        names = dict.fromkeys(
            [*own, *itertools.chain.from_iterable(found for found in of_parts.values())]
        )
        actions = tuple(self._joined(name, own.get(name), of_parts) for name in names)
        return finished(self, actions, self._invariants())

    def _invariants(self) -> tuple[Invariant, ...]:
        """Of an id that several parts have, each is told by its part: `left.P1`."""
        found = list(invariant_models(self))
        of_parts = [(n, one) for n, part in self.parts.items() for one in invariant_models(part)]
        times = Counter(one.id for _, one in of_parts)
        for name, one in of_parts:
            holds = _of_field(one.holds, name, one.kind == "action")
            id_ = one.id if times[one.id] == 1 else f"{name}.{one.id}"
            found.append(Invariant(id_, one.text, one.kind, holds, one.source))
        return tuple(found)

    def _joined(
        self,
        name: str,
        own: DeclaredAction | None,
        of_parts: Mapping[str, Mapping[str, DeclaredAction]],
    ) -> Action:
        shares = {part: found[name] for part, found in of_parts.items() if name in found}
        declared = [*([own] if own else []), *shares.values()]
        params = tuple(dict.fromkeys(itertools.chain.from_iterable(a.domains for a in declared)))
        where = f"action {name!r}"
        guards: list[Guard] = []
        updates: list[tuple[str, Callable[[Any, Args], State]]] = []
        for part, one in shares.items():
            spec, level = self.parts[part], f"sub:{part}"
            for given in one.guards:
                made = guard_of(spec, given, params, f"{where} of {part}", level)
                guards.append(Guard(made.name, level, _inner(made.holds, part), made.source))
            updates.append((part, bound(spec, one.update, params, where)))
        last = None
        if own is not None:
            guards = [*(guard_of(self, g, params, where, WHOLE) for g in own.guards), *guards]
            last = bound(self, own.update, params, where)
        return Action(
            name,
            params,
            self._choices(params, own, shares, where),
            tuple(guards),
            _update(updates, last),
            max(one.weight for one in declared),
            next((one.doc for one in declared if one.doc), ""),
            tuple(one.update for one in declared),
            next((one.adversary for one in declared if one.adversary), ""),
        )

    def _choices(
        self,
        params: tuple[str, ...],
        own: DeclaredAction | None,
        shares: Mapping[str, DeclaredAction],
        where: str,
    ) -> Callable[[Any], Iterable[Args]]:
        """What all who name a parameter allow, in the order of the first of them."""
        ways: list[list[Callable[[Any], Iterable[Any]]]] = []
        for param in params:
            asked: list[Callable[[Any], Iterable[Any]]] = []
            if own is not None and param in own.domains:
                of = f"parameter {param!r} of {where}"
                asked.append(values_of(self, own.domains[param], of))
            for part, one in shares.items():
                if param in one.domains:
                    of = f"parameter {param!r} of {where} of {part}"
                    values = values_of(self.parts[part], one.domains[param], of)
                    asked.append(_seen_by(part, values))
            ways.append(asked)
        return lambda s: itertools.product(*(_common(asked, s) for asked in ways))


def _seen_by(part: str, values: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Iterable[Any]]:
    return lambda s: values(getattr(s, part))


def _common(asked: list[Callable[[Any], Iterable[Any]]], state: Any) -> Iterator[Any]:
    first, *others = (list(way(state)) for way in asked)
    return (value for value in first if all(value in other for other in others))


def _inner(holds: Callable[[Any, Args], bool], part: str) -> Callable[[Any, Args], bool]:
    return lambda s, a: holds(getattr(s, part), a)


def _of_field(holds: Callable[..., bool], part: str, of_steps: bool) -> Callable[..., bool]:
    if of_steps:
        return lambda before, step, after: holds(getattr(before, part), step, getattr(after, part))
    return lambda s: holds(getattr(s, part))


def _update(
    updates: list[tuple[str, Callable[[Any, Args], State]]],
    last: Callable[[Any, Args], State] | None,
) -> Callable[[Any, Args], State]:
    def changed(s: Any, a: Args) -> State:
        made = {part: way(getattr(s, part), a) for part, way in updates}
        for part, new in made.items():
            kind = type(getattr(s, part))
            if type(new) is not kind:
                raise ConfigError(
                    f"an action of {part} gave {shown(new)}, which is no {kind.__name__}",
                    remedy="an action returns the next state",
                )
        after = dataclasses.replace(s, **made)
        return last(after, a) if last is not None else after

    return changed
