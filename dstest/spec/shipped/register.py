"""A register: read, write, compare-and-set. It begins with null.

| operation | input | output |
|---|---|---|
| read | | the value |
| write | the value | |
| cas | [old, new] | true; false where it found another value |

Of operations on several keys, each key is a register of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dstest.spec import Record, Spec, Step, action, invariant, maps, when


@dataclass(frozen=True, slots=True)
class State:
    """What it holds."""

    value: Any


class Register(Spec):
    """One value, which is replaced as a whole."""

    per_key = True

    start: Any = None
    """What it holds at first."""
    values: tuple[Any, ...] = (0, 1, 2)
    """What is written where all states are explored; records bring values of their own."""

    def initial(self) -> Iterable[State]:
        yield State(self.start)

    def done(self, s: State) -> bool:
        return True

    def told(self) -> tuple[Any, ...]:
        """What may be read."""
        return tuple(dict.fromkeys((self.start, *self.values)))

    @action(value=told)
    @when("current", lambda s, value: s.value == value)
    def read(self, s: State, value: Any) -> State:
        """It returns what was written last."""
        return s

    @action(value=lambda self: self.values)
    def write(self, s: State, value: Any) -> State:
        """Whatever was there."""
        return replace(s, value=value)

    @action(old=told, new=lambda self: self.values)
    @when("as compared", lambda s, old: s.value == old)
    def cas(self, s: State, old: Any, new: Any) -> State:
        """It held the old value, and at the same instant holds the new one."""
        return replace(s, value=new)

    @action(old=told)
    @when("another", lambda s, old: s.value != old)
    def refuse(self, s: State, old: Any) -> State:
        """A compare-and-set that finds another value changes nothing."""
        return s

    @invariant("REG1", "a read returns what is there", kind="action")
    def reads(self, before: State, step: Step, after: State) -> bool:
        return step.action != "read" or step.args == (before.value,)

    @invariant("REG2", "it changes to what was written, and by nothing else", kind="action")
    def writes(self, before: State, step: Step, after: State) -> bool:
        if step.action in ("write", "cas"):
            return bool(after.value == step.args[-1])
        return after == before

    @invariant("REG3", "who sets it has compared it first", kind="action")
    def compares(self, before: State, step: Step, after: State) -> bool:
        match step.action, step.args:
            case "cas", (old, _):
                return bool(before.value == old)
            case "refuse", (old,):
                return bool(before.value != old)
        return True

    @maps("read", only_reads=True)
    def of_read(self, record: Record) -> Iterator[Step]:
        yield Step("read", (record.output,))

    @maps("write")
    def of_write(self, record: Record) -> Iterator[Step]:
        yield Step("write", (record.input,))

    @maps("cas")
    def of_cas(self, record: Record) -> Iterator[Step]:
        """Of Jepsen's, what took effect tells its input once more."""
        old, new = record.input
        if not record.known or record.output is True or record.output == record.input:
            yield Step("cas", (old, new))
        elif record.output is False:
            yield Step("refuse", (old,))
