"""A lock that is given for a time: acquire, renew, release. When the time is over it is free again.

| operation | input | output |
|---|---|---|
| acquire | | {"token": number}, null or true for a lock without tokens; false: somebody has it |
| renew, release | | null or true; false: it was not the caller's |

The owner is the process that calls. No record says when a lease ended: `expire` may have happened
at any time after it was given, so that time is not compared. With `leased=False` nothing expires,
and two holders at once are refused. Tokens rise from hold to hold. Each key is a lock of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dstest.spec import Record, Spec, Step, action, invariant, maps, when


@dataclass(frozen=True, slots=True)
class State:
    """`holder` is None where it is free; `token` is the last that was given."""

    holder: Any = None
    token: int = 0


def token_of(record: Record) -> int:
    """0 where none was told."""
    told = record.output if record.known else None
    token: int = told["token"] if isinstance(told, dict) else 0
    return token


class Lock(Spec):
    """At most one holder, whose hold may end by itself."""

    per_key = True
    hidden = frozenset({"expire"})

    leased: bool = True
    """May a hold end by itself?"""
    processes: tuple[Any, ...] = (0, 1, 2)
    tokens: tuple[int, ...] = (1, 2, 3, 4)
    """Who calls, and what is given, where all states are explored."""

    def initial(self) -> Iterable[State]:
        yield State()

    def done(self, s: State) -> bool:
        return True

    @action(process=lambda self: self.processes, token=lambda self: self.tokens)
    @when("free", lambda s: s.holder is None)
    @when("newer token", lambda s, token: token is None or token > s.token)
    def acquire(self, s: State, process: Any, token: int | None) -> State:
        """Without a token where none is given, or the answer was lost."""
        return State(process, s.token if token is None else token)

    @action(process=lambda self: self.processes)
    @when("taken", lambda s: s.holder is not None)
    def refuse(self, s: State, process: Any) -> State:
        """An acquire that finds it taken changes nothing, also where its holder asks again."""
        return s

    @action(process=lambda self: self.processes)
    @when("its own", lambda s, process: s.holder == process)
    def renew(self, s: State, process: Any) -> State:
        """Its hold goes on."""
        return s

    @action(process=lambda self: self.processes)
    @when("its own", lambda s, process: s.holder == process)
    def release(self, s: State, process: Any) -> State:
        """Its holder gives it back."""
        return replace(s, holder=None)

    @action(process=lambda self: self.processes)
    @when("not its own", lambda s, process: s.holder != process)
    def disown(self, s: State, process: Any) -> State:
        """A renewal or a release by who does not hold it changes nothing."""
        return s

    @action()
    @when("leased", lambda self: self.leased)
    @when("taken", lambda s: s.holder is not None)
    def expire(self, s: State) -> State:
        """The holder has not renewed it in time."""
        return replace(s, holder=None)

    @invariant("LCK1", "nobody gets what another one holds", kind="action")
    def exclusion(self, before: State, step: Step, after: State) -> bool:
        return after.holder in (before.holder, None) or before.holder is None

    @invariant("LCK2", "a hold ends by its holder's release, or when it expires", kind="action")
    def held(self, before: State, step: Step, after: State) -> bool:
        if before.holder is None or after.holder == before.holder:
            return True
        return (step.action, step.args) in (("release", (before.holder,)), ("expire", ()))

    @invariant("LCK3", "tokens rise from hold to hold", kind="action")
    def fencing(self, before: State, step: Step, after: State) -> bool:
        if step.action == "acquire" and step.args[1] is not None:
            return bool(after.token == step.args[1] > before.token)
        return after.token == before.token

    @invariant("LCK4", "each is told how it stands", kind="action")
    def told(self, before: State, step: Step, after: State) -> bool:
        match step.action, step.args:
            case "renew", (process,):
                return bool(before.holder == process)
            case "disown", (process,):
                return bool(before.holder != process)
            case (("refuse" | "expire"), _):
                return before.holder is not None
        return True

    @invariant("LCK5", "what is given back, or has expired, is free", kind="action")
    def ended(self, before: State, step: Step, after: State) -> bool:
        return step.action not in ("release", "expire") or after.holder is None

    @invariant("LCK6", "it is given again", kind="sometimes")
    def again(self, s: State) -> bool:
        return s.holder is not None and s.token > 1

    @maps("acquire", too_late=lambda s, record: 0 < token_of(record) <= s.token)
    def of_acquire(self, record: Record) -> Iterator[Step]:
        told = record.output if record.known else None
        if told is False:
            yield Step("refuse", (record.process,))
        else:
            yield Step("acquire", (record.process, token_of(record) or None))

    @maps("renew", "release")
    def of_own(self, record: Record) -> Iterator[Step]:
        if record.known and record.output is False:
            yield Step("disown", (record.process,))
        else:
            yield Step(record.kind, (record.process,))
