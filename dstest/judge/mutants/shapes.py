"""Canaries: broken copies of a run's own history that its checker must reject, since one that
accepts everything would pass every run. Here is the loop that makes them, what all makers share,
and the shapes that `operators` are written over: what the operations of a model write and see.

A copy has one thing changed such that it is a violation for certain: makers use only values that a
single operation can have written, and only strict real-time order. A maker gets the operations that
are judged together and dice, and gives back what it did in a sentence, with the broken operations;
or None: a kind that this history offers nothing for is left out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from dstest.core.history import History
from dstest.core.op import Op, Outcome

T = TypeVar("T")

PHANTOM: Final = 2_000_000_011
"""A value that no workload writes."""

TRIES: Final = 200
"""Operations, or keys, looked at before a kind counts as not applicable."""

_CHANCES: Final = 3

Made = tuple[str, list[Op]] | None

Name = tuple[str, str]
"""Of a value: its key and itself, as tokens."""

Writes = list[tuple[Any, Any, bool]]
"""(key, value, whatever was there before) of all that an operation may write."""

Seen = list[tuple[Any, Any, Any]]
"""(place in the output, key, value) of all that an observer saw."""


class Mutant(NamedTuple):
    """One broken copy: its kind, what was done in a sentence, and the operations."""

    kind: str
    description: str
    history: History


class Part:
    """Operations that are judged together, in order of invocation: those of one key, or all.
    `name` begins what is said of them."""

    def __init__(self, ops: list[Op], options: Mapping[str, Any], name: str = "") -> None:
        self.ops, self.options, self.name = ops, options, name
        self._known: dict[Any, Any] = {}

    def once(self, what: Callable[[list[Op]], T]) -> T:
        """What a function makes of the operations, worked out once for all makers."""
        if what not in self._known:
            self._known[what] = what(self.ops)
        found: T = self._known[what]
        return found


Maker = Callable[[Part, random.Random], Made]


def token(value: Any) -> str:
    """Values compare as JSON: 1 and True differ, and lists can be looked up."""
    if type(value) is int:
        return str(value)
    return json.dumps(value, sort_keys=True, default=repr)


def acked(ops: list[Op], *types: str) -> list[Op]:
    """The ok operations of these types."""
    return [op for op in ops if op.op_type in types and op.outcome is Outcome.OK]


def attempts(ops: list[Op], *types: str) -> list[Op]:
    """The operations of these types that may have taken effect."""
    return [op for op in ops if op.op_type in types and op.outcome is not Outcome.FAIL]


def end(op: Op) -> int:
    """Completion of an operation that was answered, ns."""
    assert op.complete_ts is not None
    return op.complete_ts


def over(op: Op, than: Op) -> bool:
    """Was it acknowledged before the other one began?"""
    return op.outcome is Outcome.OK and end(op) < than.invoke_ts


def began(op: Op) -> int:
    """For sorting and searching, ns."""
    return op.invoke_ts


def changed(ops: list[Op], changes: Mapping[int | str, Mapping[str, Any]]) -> list[Op]:
    """A copy with the fields of some operations replaced, in order of invocation."""
    copy = [replace(op, **changes[op.op_id]) if op.op_id in changes else op for op in ops]
    return sorted(copy, key=began)


def answering(ops: list[Op], *answers: tuple[Op, Any]) -> list[Op]:
    """A copy in which some operations have other outputs."""
    outputs = {op.op_id: output for op, output in answers}
    return [replace(op, output=outputs[op.op_id]) if op.op_id in outputs else op for op in ops]


def without(ops: list[Op], *gone: Op) -> list[Op]:
    """A copy that lacks some operations."""
    ids = {op.op_id for op in gone}
    return [op for op in ops if op.op_id not in ids]


def pick(dice: random.Random, items: Iterable[Any]) -> Any:
    """One of `items`, None where there is none."""
    found = list(items)
    return dice.choice(found) if found else None


def some(dice: random.Random, items: list[T]) -> list[T]:
    """Up to `TRIES` of them in random order."""
    return dice.sample(items, min(len(items), TRIES))


def finals(ops: list[Op], observer: str, *others: str) -> list[Op]:
    """Observations that began after the last completed operation of another type had ended;
    `others` change nothing either."""
    last = max(
        (
            op.complete_ts
            for op in ops
            if op.op_type not in (observer, *others) and op.complete_ts is not None
        ),
        default=-1,
    )
    return [op for op in acked(ops, observer) if op.invoke_ts > last]


def in_turn(ops: list[Op], dice: random.Random) -> Iterator[tuple[Op, Op]]:
    """Some pairs of which the first had ended before the second began."""
    for _ in range(60 if len(ops) > 1 else 0):
        a, b = sorted(dice.sample(ops, 2), key=began)
        if end(a) < b.invoke_ts:
            yield a, b


def parts_of(history: History, whole: bool = False) -> list[Part]:
    """The operations by key, or all together."""
    groups: dict[str, list[Op]] = {}
    for op in history.ops:
        groups.setdefault("" if whole else token(op.key), []).append(op)
    return [
        Part(ops, history.header.options, "" if whole else f"key {ops[0].key}: ")
        for ops in groups.values()
    ]


def copies(
    kinds: Mapping[str, Maker],
    parts: list[Part],
    history: History,
    dice: random.Random,
    count: int,
    *,
    once: bool = False,
) -> Iterator[Mutant]:
    """Up to `count` copies, or one of each kind where those are more: the kinds in turn, each on
    another part. `once`: no kind takes a part again."""
    parts = some(dice, parts)
    made, most = 0, max(count, len(kinds))
    turns: dict[str, Iterator[Part]] = {}
    for at, kind in enumerate(kinds if parts else ()):
        first = at % len(parts)
        order = [*parts[first:], *parts[:first]]
        turns[kind] = chain.from_iterable(repeat(order, 1 if once else _CHANCES * most))
    while turns and made < most:
        for kind in list(turns)[: most - made]:
            # What a maker looks at is chance: each part is asked again before the kind is given up.
            turn = islice(turns[kind], _CHANCES * len(parts))
            asked = ((part, kinds[kind](part, dice)) for part in turn)
            found = next(((part, change) for part, change in asked if change is not None), None)
            if found is None:
                del turns[kind]
                continue
            part, (said, ops) = found
            made += 1
            yield Mutant(kind, part.name + said, replace(history, ops=ops))


class Write(NamedTuple):
    """An operation that surely or maybe wrote a value; `plain`: whatever was there before."""

    op: Op
    value: Any
    plain: bool


class Sight(NamedTuple):
    """What an operation saw at a place of its output."""

    place: Any
    name: Name
    value: Any


class Shape:
    """What operations write and see. `retried`: several attempts may have written what was seen,
    and count as one; `failed`: what definitely failed counts as an attempt all the same."""

    retried = False
    failed = True

    def written(self, op: Op) -> Writes:
        """What the operation may write."""
        raise NotImplementedError

    def observers(self, ops: list[Op]) -> list[Op]:
        """The ok operations that saw something, or nothing."""
        raise NotImplementedError

    def seen(self, op: Op) -> Seen:
        """What an observer saw."""
        raise NotImplementedError

    def showing(self, op: Op, place: Any, value: Any) -> Any:
        """The observer's output with this value there."""
        del op, place
        return value

    def sights(self, op: Op) -> list[Sight]:
        """What an observer saw, by name; nulls name nothing that was written."""
        return [Sight(at, (token(key), token(v)), v) for at, key, v in self.seen(op)]

    def writes(self, ops: list[Op]) -> dict[Name, list[Write]]:
        """All that may have written something, by its name."""
        found: dict[Name, list[Write]] = {}
        for op in ops:
            if self.failed or op.outcome is not Outcome.FAIL:
                for key, value, plain in self.written(op):
                    name = (token(key), token(value))
                    found.setdefault(name, []).append(Write(op, value, plain))
        return found

    def lone(self, ops: list[Op]) -> dict[str, list[Write]]:
        """Per key, in order of invocation: acknowledged writes of what nobody else writes."""
        found: dict[str, list[Write]] = {}
        for (key, _), writes in self.writes(ops).items():
            write = writes[0]
            if len(writes) == 1 and write.op.outcome is Outcome.OK and write.value is not None:
                found.setdefault(key, []).append(write)
        for writes in found.values():
            writes.sort(key=lambda write: write.op.invoke_ts)
        return found

    def ended(self, ops: list[Op]) -> dict[str, list[Op]]:
        """Observers by key, in order of completion."""
        found: dict[str, list[Op]] = {}
        for op in sorted(self.observers(ops), key=end):
            found.setdefault(token(op.key), []).append(op)
        return found


class Registers(Shape):
    """Reads and writes of values by key, one by one (also as get and put) or in transactions."""

    failed = False

    def written(self, op: Op) -> Writes:
        if op.op_type == "txn":
            return [(key, value, True) for f, key, value in op.input if f[0] == "w"]
        if op.op_type in ("write", "put"):
            return [(op.key, op.input, True)]
        # A cas that answered false compared and wrote nothing.
        wrote = op.op_type == "cas" and op.output is not False
        return [(op.key, op.input[1], False)] if wrote else []

    def observers(self, ops: list[Op]) -> list[Op]:
        if any(op.op_type == "append" for op in ops):
            return []  # What is read is made of several writes.
        return [op for op in acked(ops, "read", "get", "txn") if self.seen(op)]

    def seen(self, op: Op) -> Seen:
        if op.op_type != "txn":
            return [(None, op.key, op.output)]
        own = [key for f, key, _ in op.input if f[0] == "w"]
        rows = enumerate(op.output)
        return [(at, key, v) for at, (f, key, v) in rows if f[0] == "r" and key not in own]

    def showing(self, op: Op, place: Any, value: Any) -> Any:
        if op.op_type != "txn":
            return value
        rows = [list(row) for row in op.output]
        rows[place][2] = value
        return rows


class Versions(Registers):
    """Registers whose reads return a version with the value."""

    failed = True

    def observers(self, ops: list[Op]) -> list[Op]:
        return [op for op in acked(ops, "read") if "value" in op.output]

    def seen(self, op: Op) -> Seen:
        return [(None, op.key, op.output["value"])]

    def showing(self, op: Op, place: Any, value: Any) -> Any:
        return {**op.output, "value": value}


class Lists(Shape):
    """Observations of a list of values. `final` ones alone are looked at where the others need not
    be up to date. `numbered`: entries have an offset, their `place`."""

    numbered = False
    writers: tuple[str, ...] = ("add", "append", "enqueue", "send", "insert")
    reader = "read"

    def __init__(self, *, final: bool = False) -> None:
        self.final = final

    def written(self, op: Op) -> Writes:
        return [(None, op.input, True)] if op.op_type in self.writers else []

    def observers(self, ops: list[Op]) -> list[Op]:
        found = finals(ops, self.reader) if self.final else acked(ops, self.reader)
        return [op for op in found if isinstance(op.output, list)]

    def entries(self, op: Op) -> list[Any]:
        """What the observation lists."""
        found: list[Any] = op.output
        return found

    def holding(self, op: Op, entries: list[Any]) -> Any:
        """The output with these entries."""
        del op
        return entries

    def place(self, entry: Any) -> Any:
        """What tells an entry from its neighbours."""
        return entry

    def seen(self, op: Op) -> Seen:
        return [(at, None, value) for at, value in enumerate(op.output)]

    def showing(self, op: Op, place: Any, value: Any) -> Any:
        return [*op.output, value]


class Ledger(Lists):
    """Effects by id, each tried until it is acknowledged, and audits of all."""

    retried = True
    reader = "audit"

    def written(self, op: Op) -> Writes:
        name = op.input.get("id") if isinstance(op.input, dict) else None
        tries = name is not None and op.op_type in ("credit", "debit", "apply", "pay")
        return [(None, name, True)] if tries else []


class Members(Lists):
    """Registers of a group, each written once and all read together."""

    writers = ("write",)

    def written(self, op: Op) -> Writes:
        return [(None, str(op.input[0]), True)] if op.op_type == "write" else []

    def observers(self, ops: list[Op]) -> list[Op]:
        return acked(ops, "read")

    def seen(self, op: Op) -> Seen:
        rows = enumerate(op.output or ())
        return [(at, None, str(member)) for at, (member, value) in rows if value is not None]

    def showing(self, op: Op, place: Any, value: Any) -> Any:
        return [*(op.output or []), ["phantom", value]]


class Feed(Lists):
    """A stream: `listed` names the list in an observation's output, `offset` a place in the output
    of a write. An entry is [offset, value] or an event."""

    retried = True
    numbered = True

    def __init__(self, write: str, observe: str, listed: str, offset: str) -> None:
        super().__init__()
        self.writers, self.reader, self.listed, self.offset = (write,), observe, listed, offset

    def written(self, op: Op) -> Writes:
        return [(op.key, op.input, True)] if op.op_type in self.writers else []

    def observers(self, ops: list[Op]) -> list[Op]:
        found = acked(ops, self.reader)
        return [op for op in found if isinstance(op.output, dict) and self.entries(op)]

    def entries(self, op: Op) -> list[Any]:
        found: list[Any] = op.output.get(self.listed) or []
        return found

    def holding(self, op: Op, entries: list[Any]) -> Any:
        return {**op.output, self.listed: entries}

    def seen(self, op: Op) -> Seen:
        return [
            (at, entry["key"] if isinstance(entry, dict) else op.key, self.value(entry))
            for at, entry in enumerate(self.entries(op))
        ]

    def showing(self, op: Op, place: Any, value: Any) -> Any:
        entries = list(self.entries(op))
        entries[place] = self.with_value(entries[place], value)
        return self.holding(op, entries)

    def place(self, entry: Any) -> Any:
        return entry[self.offset] if isinstance(entry, dict) else entry[0]

    def value(self, entry: Any) -> Any:
        """What stands there."""
        return entry["value"] if isinstance(entry, dict) else entry[1]

    def with_value(self, entry: Any, value: Any) -> Any:
        """The entry with another value."""
        return {**entry, "value": value} if isinstance(entry, dict) else [entry[0], value]


class Log(Feed):
    """Appends that get an offset, and reads of [offset, value] from one on."""

    def __init__(self) -> None:
        super().__init__("append", "read", "", "")

    def observers(self, ops: list[Op]) -> list[Op]:
        return [op for op in acked(ops, "read") if op.output]

    def entries(self, op: Op) -> list[Any]:
        found: list[Any] = op.output
        return found

    def holding(self, op: Op, entries: list[Any]) -> Any:
        return entries


class Elements(Shape):
    """Lookups of elements that are added and removed again and again."""

    retried = True

    def written(self, op: Op) -> Writes:
        return [(None, op.input, True)] if op.op_type == "add" else []

    def observers(self, ops: list[Op]) -> list[Op]:
        return [op for op in acked(ops, "contains") if op.output is True]

    def seen(self, op: Op) -> Seen:
        return [(None, None, op.input)]


class Passage(NamedTuple):
    """A value that was put in once, by an acknowledged put, and taken once."""

    value: Any
    put: Op
    take: Op


class Passing(Shape):
    """Puts and takes: how the types of operations begin that put in, that take out, and that have
    a value in hand."""

    def __init__(self, put: str, *takes: str, held: tuple[str, ...] = ()) -> None:
        self.put, self.takes, self.held = put, takes, held or takes

    def written(self, op: Op) -> Writes:
        return [(None, op.input, True)] if op.op_type.startswith(self.put) else []

    def observers(self, ops: list[Op]) -> list[Op]:
        return [op for op in ops if op.op_type.startswith(self.held) and op.outcome is Outcome.OK]

    def seen(self, op: Op) -> Seen:
        gets = op.op_type.startswith(self.takes) and op.output is not None
        return [(None, None, op.output)] if gets else []

    def taken(self, ops: list[Op]) -> list[Op]:
        """Takes that got a value out."""
        return [op for op in self.observers(ops) if self.seen(op)]

    def passages(self, ops: list[Op]) -> list[Passage]:
        """In order of the puts."""
        took: dict[str, list[Op]] = {}
        for op in self.taken(ops):
            took.setdefault(token(op.output), []).append(op)
        return [
            Passage(write.value, write.op, took[token(write.value)][0])
            for writes in self.lone(ops).values()
            for write in writes
            if len(took.get(token(write.value), ())) == 1
        ]

    def spare(self, ops: list[Op]) -> int | None:
        """How many takers may have something when the last look finds nothing; None without such a
        look, and where one of them may have any number."""
        looks = [op for op in finals(ops, "dequeue") if op.output is None]
        takers = [op for op in ops if op.outcome is not Outcome.OK and op.op_type != self.put]
        if not looks or any(op.op_type == "drain" for op in takers):
            return None
        since = max(looks, key=end).invoke_ts
        return sum(op.outcome is Outcome.UNKNOWN or end(op) >= since for op in takers)


class DeadLetters(Passing):
    """A queue whose refused elements are collected elsewhere."""

    def observers(self, ops: list[Op]) -> list[Op]:
        return [op for op in super().observers(ops) if op.output is not None]

    def spare(self, ops: list[Op]) -> int | None:
        letters = [op for op in finals(ops, "collect") if op.output is None]
        last = max(letters, key=end, default=None)
        looks = [
            op for op in acked(ops, "dequeue", "reject")
            if op.output is None and last is not None and over(op, last)
        ]  # fmt: skip
        if not looks:
            return None
        since = max(looks, key=end).invoke_ts
        takers = [op for op in ops if op.op_type in self.held and op.outcome is not Outcome.OK]
        return sum(op.outcome is Outcome.UNKNOWN or end(op) >= since for op in takers)
