"""A key-value store with revisions, as clients see it: each change makes one revision of the whole
store, and a key carries the revision of its last change as its version.

| operation | input | output |
|---|---|---|
| write | the value | {"version": the new revision} |
| read | | {"value", "version"}; null and 0 where the key is not there |
| delete | | {"version": the new revision}; {"version": null} where the key was not there |
| txn | {"if": [[key, version], ..], "then": [[key, value], ..]} | as for write; null: refused |

A transaction compares versions (0: the key is not there) and writes all of its keys at one
revision, or nothing. All who write are in the history: revisions have no gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dstest.spec import FrozenDict, Record, Spec, Step, action, invariant, maps, when

Pairs = tuple[tuple[Any, Any], ...]
"""Keys with what is compared with, or written to, each."""


@dataclass(frozen=True, slots=True)
class State:
    """Key -> (value, version)."""

    revision: int
    rows: FrozenDict[Any, tuple[Any, int]]

    def row(self, key: Any) -> tuple[Any, int]:
        """Its value and version: null and 0 where it is not there."""
        return self.rows.get(key, (None, 0))

    def written(self, puts: Pairs) -> State:
        """All of them at the next revision."""
        new = self.revision + 1
        return State(new, self.rows.with_({key: (value, new) for key, value in puts}))


def as_compared(s: State, compared: Pairs) -> bool:
    """Do all keys have the versions that they are compared with?"""
    return all(s.row(key)[1] == version for key, version in compared)


def overwritten(s: State, record: Record) -> bool:
    """Has the store come to the version that was read, without the key having it?"""
    version: int = record.output["version"]
    return 0 < version <= s.revision and s.row(record.key)[1] != version


def past(s: State, record: Record) -> bool:
    """Has the store come to the revision that this change has made?"""
    version = record.output and record.output["version"]
    return version is not None and version <= s.revision


class Kv(Spec):
    """Values with versions, and transactions that compare these."""

    start: int = 1
    """The revision of the empty store."""
    changes: int = 3
    keys: tuple[Any, ...] = ("x", "y")
    values: tuple[Any, ...] = (1, 2)
    """How often what is changed where all states are explored; records bring their own."""

    def initial(self) -> Iterable[State]:
        yield State(self.start, FrozenDict())

    def done(self, s: State) -> bool:
        return True

    def revisions(self) -> Iterable[int]:
        """Those that a change can make."""
        return range(self.start + 1, self.start + self.changes + 1)

    def versions(self) -> Iterable[int]:
        """What a key may carry."""
        return (0, *self.revisions())

    def compares(self) -> Iterator[Pairs]:
        """Each key alone, and all of them."""
        for version in self.versions():
            yield from (((key, version),) for key in self.keys)
            yield tuple((key, version) for key in self.keys)

    def puts(self) -> Iterator[Pairs]:
        """The first key, and all of them."""
        for value in self.values:
            yield ((self.keys[0], value),)
            yield tuple((key, value) for key in self.keys)

    @action(key=lambda self: self.keys, value=lambda self: self.values, revision=revisions)
    @when("next revision", lambda s, revision: revision == s.revision + 1)
    def put(self, s: State, key: Any, value: Any, revision: int) -> State:
        """Whatever was there."""
        return s.written(((key, value),))

    @action(key=lambda self: self.keys, value=lambda self: (None, *self.values), version=versions)
    @when("current", lambda s, key, value, version: s.row(key) == (value, version))
    def get(self, s: State, key: Any, value: Any, version: int) -> State:
        """The last value, with its version."""
        return s

    @action(key=lambda self: self.keys, revision=revisions)
    @when("there", lambda s, key: key in s.rows)
    @when("next revision", lambda s, revision: revision == s.revision + 1)
    def delete(self, s: State, key: Any, revision: int) -> State:
        """A change like any other."""
        return State(revision, s.rows.without(key))

    @action(key=lambda self: self.keys)
    @when("not there", lambda s, key: key not in s.rows)
    def miss(self, s: State, key: Any) -> State:
        """To delete what is not there changes nothing."""
        return s

    @action(compared=compares, puts=puts, revision=revisions)
    @when("as compared", lambda s, compared: as_compared(s, compared))
    @when("next revision", lambda s, revision: revision == s.revision + 1)
    def commit(self, s: State, compared: Pairs, puts: Pairs, revision: int) -> State:
        """All at one revision."""
        return s.written(puts)

    @action(compared=compares)
    @when("another version", lambda s, compared: not as_compared(s, compared))
    def refuse(self, s: State, compared: Pairs) -> State:
        """A transaction that finds another version changes nothing."""
        return s

    @invariant("KV1", "no key is younger than the store")
    def versioned(self, s: State) -> bool:
        return all(self.start < version <= s.revision for _, version in s.rows.values())

    @invariant("KV2", "a change is one revision, and nothing else is one", kind="action")
    def counted(self, before: State, step: Step, after: State) -> bool:
        changes = step.action in ("put", "delete", "commit")
        return after.revision - before.revision == int(changes) and (changes or after == before)

    @invariant("KV3", "a key carries the revision of its last change", kind="action")
    def carried(self, before: State, step: Step, after: State) -> bool:
        return all(
            row == before.rows.get(key) or row[1] == after.revision
            for key, row in after.rows.items()
        )

    @invariant("KV4", "what is written is there, all of it", kind="action")
    def whole(self, before: State, step: Step, after: State) -> bool:
        match step.action, step.args:
            case "put", (key, value, revision):
                return after.rows.get(key) == (value, revision)
            case "commit", (_, puts, revision):
                return all(after.rows.get(key) == (value, revision) for key, value in puts)
            case "delete", (key, _):
                return key in before.rows and key not in after.rows
        return True

    @invariant("KV5", "what is told of a key is so", kind="action")
    def told(self, before: State, step: Step, after: State) -> bool:
        match step.action, step.args:
            case "get", (key, value, version):
                return before.row(key) == (value, version)
            case "miss", (key,):
                return key not in before.rows
            case "commit", (compared, _, _):
                return as_compared(before, compared)
            case "refuse", (compared,):
                return not as_compared(before, compared)
        return True

    @maps("read", only_reads=True, too_late=overwritten)
    def of_read(self, record: Record) -> Iterator[Step]:
        yield Step("get", (record.key, record.output["value"], record.output["version"]))

    @maps("write", too_late=past)
    def of_write(self, record: Record, s: State) -> Iterator[Step]:
        """Where the answer was lost, its revision is the next one, whenever that was."""
        revision = record.output["version"] if record.known else s.revision + 1
        yield Step("put", (record.key, record.input, revision))

    @maps("delete", too_late=past)
    def of_delete(self, record: Record, s: State) -> Iterator[Step]:
        revision = record.output["version"] if record.known else s.revision + 1
        if revision is None:
            yield Step("miss", (record.key,))
        else:
            yield Step("delete", (record.key, revision))

    @maps("txn", too_late=past)
    def of_txn(self, record: Record, s: State) -> Iterator[Step]:
        compared, puts = record.input["if"], record.input["then"]
        if record.known and record.output is None:
            yield Step("refuse", (compared,))
        else:
            revision = record.output["version"] if record.known else s.revision + 1
            yield Step("commit", (compared, puts, revision))
