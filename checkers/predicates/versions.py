"""What each read can have seen: of every key one version, some of which are out of the question.

A version is a transaction's last write of a key, or how the key began (BEGINNING). A read of a
value saw the one version that has it; a read of nothing saw some version without a row; a predicate
read saw of every key that it did not return some version that the predicate does not hold of
(Adya 1999, section 4.3: the version set). Such versions are the `domain` of a look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from checkers._findings import name_of
from checkers.predicates.groups import ABSENT, Group, Mop, Predicate, Rows, Txn, identity
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns
from dstest.core.errors import HistoryError
from dstest.core.op import Outcome

BEGINNING: Final = -1

INTERNAL: Final = "internal"

_LOOK_BYTES: Final = 200
"""What a look takes, but for its domain."""


class Fault(NamedTuple):
    """What one read shows alone. `txns` are places in the history."""

    kind: str
    key: Any
    txns: tuple[int, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Look:
    """Transaction `txn` saw of `key` one of these versions (writers, or BEGINNING). `item`: the row
    or its absence was read by its key, or it was returned; else it only did not match."""

    txn: int
    key: int
    domain: tuple[int, ...]
    item: bool


@dataclass(slots=True)
class Problem:
    """Transactions that did not fail; keys are numbered over all groups, `names` has (group, key).
    `states` has the versions of each key by writer, `writes` the last writes of each transaction
    by key. Of the transactions' predicate reads, `predicate_reads` could have been changed by what
    somebody else wrote; `returned` counts rows in them that somebody else had written, `late` reads
    that began when such a write was over, `late_own` when it was over in their session."""

    txns: list[Txn] = field(default_factory=list)
    names: list[tuple[Any, Any]] = field(default_factory=list)
    states: list[dict[int, Any]] = field(default_factory=list)
    writes: list[dict[int, Any]] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    predicate_reads: int = 0
    readers: set[int] = field(default_factory=set)
    returned: int = 0
    late: int = 0
    late_own: int = 0

    def tested(self, between: str, *, serial: bool) -> int:
        """Predicate reads that could have been refuted; `between` relates transactions as in
        `search.between_of`. Who reads how keys began can stand first in the order, but not who
        began when a write was over, and in a `serial` order not two that write themselves."""
        stands = {"realtime": self.late, "session": self.late_own}.get(between, 0)
        writing = sum(1 for at in self.readers if self.writes[at])
        return self.predicate_reads if self.returned or stands or (serial and writing > 1) else 0


class _Sight(NamedTuple):
    """What a micro-op says of one key."""

    key: int
    fits: Callable[[Any], bool]
    item: bool
    text: str
    value: Any
    returned: bool


def _is(value: Any) -> Callable[[Any], bool]:
    wanted = identity(value)
    return lambda state: identity(state) == wanted


def _whole(key: Any) -> bool:
    """Is it a float that some writers of JSON call as if it were an integer?"""
    return isinstance(key, float) and key.is_integer()


class _Universe:
    """The keys of one group, and who wrote what there."""

    def __init__(self, group: Group, problem: Problem) -> None:
        self.problem, self.group = problem, group
        self.number: dict[Any, int] = {}
        self.called: dict[str, list[int]] = {}
        self.writer: dict[tuple[int, Any], Txn] = {}
        self.middle: dict[tuple[int, Any], Txn] = {}
        self.failed: dict[tuple[int, Any], Txn] = {}
        mops = [mop for txn in group.txns for mop in txn.mops]
        initial = group.initial or Rows((), named=False)
        # What is no string can be told only by who does not name it in an object.
        for mop in mops:
            if mop.kind != "rp":
                self.key(mop.key)
        for rows, named in [(mop.found, mop.named) for mop in mops] + [initial]:
            for key, _ in () if named else rows:
                self.key(key)
        for mop in mops:
            for key, _ in mop.found:
                self.found(key, named=mop.named)
        for key, value in initial.rows:
            self.problem.states[self.found(key, named=initial.named)][BEGINNING] = value

    def key(self, key: Any) -> int:
        """Its number; a new one begins without a row."""
        at = identity(key)
        if at not in self.number:
            number = self.number[at] = len(self.problem.names)
            self.problem.names.append((self.group.key, key))
            self.problem.states.append({BEGINNING: ABSENT})
            for name in {name_of(key), *([str(int(key))] if _whole(key) else ())}:
                self.called.setdefault(name, []).append(number)
        return self.number[at]

    def found(self, key: Any, *, named: bool) -> int:
        """The key of a row; keys of objects are strings, whatever they are elsewhere. Raises
        HistoryError where several are called so."""
        if not named:
            return self.key(key)
        called = self.called.get(key, ())
        if len(called) > 1:
            keys = " and ".join(repr(self.problem.names[number][1]) for number in called)
            raise HistoryError(
                f"the key {key!r} of an object may be any of {keys}",
                remedy="write rows as a list of [key, value]",
            )
        return called[0] if called else self.key(key)

    def add(self, txn: Txn) -> dict[int, Any]:
        """Notes a transaction's writes; its last ones by key. Raises HistoryError for a value that
        was written to its key before."""
        last: dict[int, Any] = {}
        for mop in txn.mops:
            if mop.kind != "w":
                continue
            key = self.key(mop.key)
            if key in last and txn.outcome is not Outcome.FAIL:
                self.middle[key, identity(last[key])] = txn
            last[key] = mop.value
            self._once(txn, key, mop)
        return last

    def _once(self, txn: Txn, key: int, mop: Mop) -> None:
        at = key, identity(mop.value)
        if txn.outcome is Outcome.FAIL:
            self.failed.setdefault(at, txn)
            return
        first = self.problem.states[key][BEGINNING]
        if mop.value is ABSENT:
            return
        if at in self.writer or identity(first) == at[1]:
            raise HistoryError(
                f"{mop.value!r} is written to key {mop.key!r} twice: a read does not tell which it "
                "saw",
                remedy="write each value to a key only once, and none that it begins with",
            )
        self.writer[at] = txn


def _told(mop: Mop, universe: _Universe, keys: range) -> Iterator[_Sight]:
    """What a read says of keys."""
    if mop.kind == "r":
        key = universe.key(mop.key)
        yield _Sight(key, _is(mop.value), True, f"read {mop.value!r} in", mop.value, True)
    if mop.kind != "rp" or mop.predicate is None:
        return
    rows = {universe.found(key, named=mop.named): value for key, value in mop.found}
    holds = mop.predicate.holds
    for key in keys:
        if key in rows:
            text = f"read by predicate {mop.predicate} the value {rows[key]!r} of"
            yield _Sight(key, _is(rows[key]), True, text, rows[key], True)
        else:
            text = f"did not find by predicate {mop.predicate}"
            yield _Sight(key, lambda state: not holds(state), False, text, ABSENT, False)


def _shown(predicate: Predicate, state: Any) -> Any:
    """What a predicate read returns of a row in this state."""
    return identity(state) if predicate.holds(state) else None


class _Reads:
    """The looks of one transaction."""

    def __init__(self, universe: _Universe, at: int, keys: range, *, merged: bool) -> None:
        self.universe, self.problem, self.at, self.keys = universe, universe.problem, at, keys
        self.txn, self.merged = self.problem.txns[at], merged
        self.own: dict[int, Any] = {}
        self.past: dict[int, list[Any]] = {}
        self.looks: dict[int, Look] = {}

    def fault(self, kind: str, key: int, text: str, other: Txn | None = None) -> None:
        txns = {self.txn.at} if other is None else {self.txn.at, other.at}
        name = self.problem.names[key][1]
        self.problem.faults.append(Fault(kind, name, tuple(sorted(txns)), text))

    def all(self) -> None:
        """Notes what it saw and what that shows by itself."""
        for mop in self.txn.mops:
            if mop.kind == "w":
                key = self.universe.key(mop.key)
                self.own[key] = mop.value
                self.past.setdefault(key, []).append(mop.value)
                continue
            if mop.kind == "rp":
                self._require(mop)
                self._count(mop)
            for seen in _told(mop, self.universe, self.keys):
                self._look(seen)
        self.problem.looks.extend(self.looks.values())

    def _require(self, mop: Mop) -> None:
        """What a predicate returned it must hold of."""
        for key, value in mop.found:
            if mop.predicate is not None and not mop.predicate.holds(value):
                text = f"{self.txn.name} found {value!r} by predicate {mop.predicate}"
                number = self.universe.found(key, named=mop.named)
                self.fault("predicate-mismatch", number, f"{text}, which does not hold of it")

    def _count(self, mop: Mop) -> None:
        """Could others have changed what it returned?"""
        predicate = mop.predicate
        assert predicate is not None
        changes: list[Txn] = []
        for key in self.keys:
            if key in self.own:
                continue
            states = self.problem.states[key]
            first = _shown(predicate, states[BEGINNING])
            changed = [
                self.problem.txns[w]
                for w, state in states.items()
                if w not in (self.at, BEGINNING) and _shown(predicate, state) != first
            ]
            changes += changed
        if not changes:
            return
        self.problem.predicate_reads += 1
        self.problem.readers.add(self.at)
        over = [t for t in changes if -1 < t.complete_pos < self.txn.invoke_pos]
        self.problem.late += any(t.outcome is Outcome.OK for t in over)
        self.problem.late_own += any(t.process == self.txn.process for t in over)
        for key, value in mop.found:
            number = self.universe.found(key, named=mop.named)
            first = identity(self.problem.states[number][BEGINNING])
            mine = number in self.own and identity(self.own[number]) == identity(value)
            self.problem.returned += identity(value) != first and not mine

    def _look(self, seen: _Sight) -> None:
        who, key = self.txn.name, seen.key
        name = repr(self.problem.names[key][1])
        if key in self.own:
            if seen.fits(self.own[key]):
                return
            wrote = "deleted" if self.own[key] is ABSENT else f"had written {self.own[key]!r} to"
            self.fault(INTERNAL, key, f"{who} {seen.text} key {name}, though it {wrote} it before")
            if self.merged or any(map(seen.fits, self.past[key])):
                return
        states = self.problem.states[key]
        domain = tuple(w for w, s in states.items() if w != self.at and seen.fits(s))
        if not domain:
            self._nobody(seen, f"{who} {seen.text} key {name}")
            return
        if not self.merged:
            self.looks[len(self.looks)] = Look(self.at, key, domain, seen.item)
            return
        before = self.looks.get(key)
        if before is not None:
            both = tuple(w for w in before.domain if w in domain)
            if not both:
                text = f"{who} {seen.text} key {name}, which does not fit what it had read before"
                self.fault(INTERNAL, key, text)
                return
            domain = both
        item = seen.item or (before is not None and before.item)
        self.looks[key] = Look(self.at, key, domain, item)

    def _nobody(self, seen: _Sight, said: str) -> None:
        """No version is like that: what is that called?"""
        at = seen.key, identity(seen.value)
        universe = self.universe
        if not seen.returned:
            text = f"{said}, though the predicate holds of every version of it"
            self.fault("predicate-read-miss", seen.key, text)
        elif universe.writer.get(at) is self.txn:
            self.fault("future-read", seen.key, f"{said}, which it wrote only later")
        elif at in universe.middle:
            other = universe.middle[at]
            text = f"{said}, which was not the last that {other.name} wrote there"
            self.fault("G1b", seen.key, text, other)
        elif at in universe.failed:
            other = universe.failed[at]
            self.fault("G1a", seen.key, f"{said}, as {other.name} left it; but it failed", other)
        else:
            self.fault("garbage-read", seen.key, f"{said}, and nobody left it so")


def problem_of(groups: list[Group], budget: Budget, *, merged: bool) -> Problem:
    """The problem of some groups, whose transactions are told apart by their keys. `merged`: all
    reads of a transaction see one version of each key, up to its own write of it. Raises
    HistoryError for values that were written twice, and for predicates that cannot be evaluated;
    TimeoutError and MemoryError where the budget is not enough to make it."""
    deadline_ns = monotonic_ns() + int(budget.time_s * 1e9)
    problem = Problem()
    spans = []
    for group in groups:
        begin = len(problem.names)
        universe = _Universe(group, problem)
        spans.append((universe, range(begin, len(problem.names))))
    owner: dict[int, tuple[_Universe, range]] = {}
    every = [(txn, universe, keys) for universe, keys in spans for txn in universe.group.txns]
    for txn, universe, keys in sorted(every, key=lambda row: row[0].invoke_pos):
        last = universe.add(txn)
        if txn.outcome is Outcome.FAIL:
            continue
        at = len(problem.txns)
        owner[at] = universe, keys
        problem.txns.append(txn)
        problem.writes.append(last)
        for key, state in last.items():
            problem.states[key][at] = state
    room = budget.memory_mb << 20
    for at, (universe, keys) in owner.items():
        if problem.txns[at].told:
            made = len(problem.looks)
            _Reads(universe, at, keys, merged=merged).all()
            room -= sum(_LOOK_BYTES + 8 * len(look.domain) for look in problem.looks[made:])
        if monotonic_ns() > deadline_ns:
            raise TimeoutError
        if room < 0:
            raise MemoryError
    return problem
