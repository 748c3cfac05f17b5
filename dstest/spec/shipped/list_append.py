"""Transactions that append to lists and read them, each at one instant: strictly serializable.

| operation | input | output |
|---|---|---|
| txn | [["append", key, value], ["r", key, null], ..] | the same, with the lists that were read |

A transaction sees what it has appended itself. A list that nobody appended to is null or []. What
is appended to a key is appended once, as in Jepsen's list-append.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dstest.spec import FrozenDict, Record, Spec, Step, action, invariant, maps, when

Micro = tuple[str, Any, Any]
"""(`append` or `r`, key, what is appended or was read)."""

Lists = FrozenDict[Any, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class State:
    """Key -> what was appended to it, in order."""

    lists: Lists


def walk(lists: Lists, txn: Iterable[Micro]) -> Iterator[tuple[str, Any, Any, tuple[Any, ...]]]:
    """Each micro-operation, with the list of its key as it is for it."""
    own: dict[Any, tuple[Any, ...]] = {}
    for function, key, value in txn:
        there = own.get(key, lists.get(key, ()))
        yield function, key, value, there
        if function == "append":
            own[key] = (*there, value)


def consistent(lists: Lists, txn: tuple[Micro, ...]) -> bool:
    """Did each read see the list as it was at that point of the transaction?"""
    return all(f == "append" or value == there for f, _, value, there in walk(lists, txn))


def fresh(lists: Lists, txn: tuple[Micro, ...]) -> bool:
    """Is nothing appended that is there?"""
    return all(f != "append" or value not in there for f, _, value, there in walk(lists, txn))


def appended(txn: tuple[Micro, ...], key: Any) -> int:
    """How many values to this key."""
    return sum(function == "append" and to == key for function, to, _ in txn)


def outgrown(s: State, record: Record) -> bool:
    """Was something read that no list can become again? What is in one stays, at its place."""
    own: Counter[Any] = Counter()
    for function, key, value in record.output:
        if function == "append":
            own[key] += 1
            continue
        there, seen = s.lists.get(key, ()), value or ()
        if seen[: len(seen) - own[key]][: len(there)] != there:
            return True
    return False


class ListAppend(Spec):
    """One step per transaction."""

    keys: tuple[Any, ...] = ("x", "y")
    values: tuple[Any, ...] = (1, 2)
    """What is used where all states are explored; records bring keys and values of their own."""

    def initial(self) -> Iterable[State]:
        yield State(FrozenDict())

    def done(self, s: State) -> bool:
        return True

    def transactions(self) -> Iterator[tuple[Micro, ...]]:
        """An append, two of them, or an append to one key and a read of any."""
        appends = [("append", key, value) for key in self.keys for value in self.values]
        contents = [
            some
            for count in range(len(self.values) + 1)
            for some in itertools.permutations(self.values, count)
        ]
        reads = [("r", key, read) for key in self.keys for read in contents]
        yield from ((one,) for one in (*appends, *reads))
        yield from itertools.combinations(appends, 2)
        for append, read in itertools.product(appends, reads):
            yield (append, read)
            yield (read, append)

    @action(txn=transactions)
    @when("reads are current", lambda s, txn: consistent(s.lists, txn))
    @when("appended once", lambda s, txn: fresh(s.lists, txn))
    def commit(self, s: State, txn: tuple[Micro, ...]) -> State:
        """All of it, or nothing."""
        grown = walk(s.lists, txn)
        changed = {key: (*there, value) for f, key, value, there in grown if f == "append"}
        return State(s.lists.with_(changed))

    @invariant("LST1", "nothing is in a list twice")
    def once(self, s: State) -> bool:
        return all(len(set(one)) == len(one) for one in s.lists.values())

    @invariant("LST2", "lists only grow, at their ends", kind="action")
    def growing(self, before: State, step: Step, after: State) -> bool:
        return all(after.lists[key][: len(old)] == old for key, old in before.lists.items())

    @invariant("LST3", "what a transaction appends is there after it, and no more", kind="action")
    def atomic(self, before: State, step: Step, after: State) -> bool:
        (txn,) = step.args
        there = all(value in after.lists[key] for f, key, value in txn if f == "append")
        return there and all(
            len(now) - len(before.lists.get(key, ())) == appended(txn, key)
            for key, now in after.lists.items()
        )

    @invariant("LST4", "what a transaction reads is there after it", kind="action")
    def seen(self, before: State, step: Step, after: State) -> bool:
        (txn,) = step.args
        return all(
            after.lists.get(key, ())[: len(value)] == value for f, key, value in txn if f == "r"
        )

    @invariant("LST5", "what a transaction reads lacks nothing that was there", kind="action")
    def whole(self, before: State, step: Step, after: State) -> bool:
        (txn,) = step.args
        return all(
            len(value) >= len(before.lists.get(key, ())) for f, key, value in txn if f == "r"
        )

    @invariant("LST6", "lists get longer", kind="sometimes")
    def longer(self, s: State) -> bool:
        return any(len(one) > 1 for one in s.lists.values())

    @maps(
        "txn",
        only_reads=lambda record: all(f == "r" for f, _, _ in record.input),
        too_late=outgrown,
    )
    def of_txn(self, record: Record) -> Iterator[Step]:
        """Of one whose answer was lost only the appends are known, and these are all it does."""
        found = record.output if record.known else [m for m in record.input if m[0] != "r"]
        yield Step("commit", (tuple((f, key, () if v is None else v) for f, key, v in found),))
