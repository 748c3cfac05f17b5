"""Transactional histories of a simulated store at a known isolation level.

The store keeps for each key everything that was ever committed to it, each value with the number of
its commit, so that a transaction can read any past state:

    level                               reads
    strict-serializable                 the state at the moment of its writes
    strong-session-serializable         so; read-only: a state not older than the session's last
    serializable, repeatable-read       so; read-only: any recent state
    strong-snapshot-isolation           the state at the invocation
    strong-session-snapshot-isolation   a state not older than the session's last
    snapshot-isolation                  any recent state
    read-committed                      each read a newer state

Under snapshot isolation a transaction whose keys were written after the state that it read tries
again with the newest state.

A history is a function of its `Spec`; memory does not grow with it, except for what is written to
keys that are still in use.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.core.rng import stream
from dstest.generator.gadgets import Step, gadget

WORKLOADS: Final = ("list-append", "rw-register", "register")

LEVELS: Final = (
    "strict-serializable",
    "strong-session-serializable",
    "serializable",
    "repeatable-read",
    "strong-snapshot-isolation",
    "strong-session-snapshot-isolation",
    "snapshot-isolation",
    "read-committed",
)

_LAG_MAX: Final = 20
"""How many commits a stale state may be behind."""

_STEP_NS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Spec:
    """What to generate. Shares are probabilities; `inject` counts gadgets by name."""

    workload: str = "list-append"
    txns: int = 1000
    concurrency: int = 10
    level: str = "strict-serializable"
    seed: int = 0
    inject: dict[str, int] = field(default_factory=dict)
    fail_share: float = 0.02
    info_share: float = 0.01
    active_keys: int = 10
    writes_per_key: int = 32
    txn_length_max: int = 4


@dataclass(slots=True)
class Txn:
    """One transaction. `mops` are (function, key, argument or result)."""

    id: int
    process: int
    begin_ns: int
    mops: list[tuple[str, int, Any]]
    results: list[tuple[str, int, Any]] | None = None
    outcome: str = "open"
    end_ns: int | None = None
    snapshot: int = 0


Event = tuple[str, Txn]
"""(`begin` or `end`, the transaction as it is then)."""


class _Store:
    """Values and their commit numbers by key."""

    def __init__(self, lists: bool) -> None:
        self.lists = lists
        self.commits = 0
        self.values: dict[int, list[Any]] = {}
        self.numbers: dict[int, list[int]] = {}

    def read(self, key: int, at: int) -> Any:
        """The list or value of a key after commit number `at`."""
        numbers = self.numbers.get(key)
        if not numbers:
            return [] if self.lists else None
        n = len(numbers) if numbers[-1] <= at else bisect_right(numbers, at)
        if self.lists:
            return self.values[key][:n]
        return self.values[key][n - 1] if n else None

    def last(self, key: int) -> int:
        numbers = self.numbers.get(key)
        return numbers[-1] if numbers else 0

    def commit(self, txn: Txn, states: list[int]) -> list[tuple[str, int, Any]]:
        """Executes a transaction: read i sees `states[i]` and what the transaction wrote."""
        writes = any(f != "r" for f, _, _ in txn.mops)
        self.commits += writes
        own: dict[int, list[Any]] = {}
        results = []
        for (f, key, value), state in zip(txn.mops, states, strict=True):
            if f != "r":
                own.setdefault(key, []).append(value)
                results.append((f, key, value))
            elif key not in own:
                results.append((f, key, self.read(key, state)))
            elif self.lists:
                results.append((f, key, [*self.read(key, state), *own[key]]))
            else:
                results.append((f, key, own[key][-1]))
        for key, values in own.items():
            kept = values if self.lists else values[-1:]
            self.values.setdefault(key, []).extend(kept)
            self.numbers.setdefault(key, []).extend([self.commits] * len(kept))
        return results


class _Keys:
    """A few keys in use, the later ones more often; a key retires after enough writes."""

    def __init__(self, spec: Spec, rng: Random) -> None:
        self.active = list(range(spec.active_keys))
        self.limit = spec.writes_per_key
        self.random = rng.random
        self.base = math.log(2.0 ** min(spec.active_keys, 40) + 1.0)
        self.written: dict[int, int] = {}
        self.next = spec.active_keys
        self.retired: list[int] = []

    def pick(self) -> int:
        n = len(self.active)
        at = int(n * -math.log(1.0 - self.random()) / 4.0)
        return self.active[at if at < n else n - 1]

    def fresh(self, key: int) -> int:
        """The next value to write to a key."""
        value = self.written.get(key, 0) + 1
        self.written[key] = value
        if value >= self.limit and key in self.active:
            self.active[self.active.index(key)] = self.next
            self.retired.append(key)
            self.next += 1
        return value

    def reserve(self) -> int:
        """A key that nothing else uses."""
        self.next += 1
        return self.next - 1


class _Run:
    """One simulation."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.rng = stream(spec.seed, "history", spec.workload, spec.level)
        self.store = _Store(spec.workload == "list-append")
        self.keys = _Keys(spec, self.rng)
        self.now = 0
        self.ids = 0
        self.processes = spec.concurrency
        self.sessions: dict[int, int] = {}

    def tick(self) -> int:
        self.now += 1 + int(self.rng.random() * _STEP_NS)
        return self.now

    def open(self, process: int, mops: list[tuple[str, int, Any]]) -> Txn:
        txn = Txn(self.ids, process, self.tick(), mops, snapshot=self.store.commits)
        self.ids += 1
        return txn

    def draw(self) -> list[tuple[str, int, Any]]:
        spec, random, keys = self.spec, self.rng.random, self.keys
        length = 1 if spec.workload == "register" else 1 + int(random() * spec.txn_length_max)
        write = "append" if spec.workload == "list-append" else "w"
        mops: list[tuple[str, int, Any]] = []
        for _ in range(length):
            key = keys.pick()
            if random() < 0.5:
                mops.append(("r", key, None))
            else:
                mops.append((write, key, keys.fresh(key)))
        return mops

    def _stale(self, txn: Txn, oldest: int) -> int:
        back = int(self.rng.random() * self.rng.random() * _LAG_MAX)
        return max(oldest, self.store.commits - back, 0)

    def _newer_and_newer(self, txn: Txn) -> list[int]:
        """A state per micro-operation; what the transaction wrote is locked until its commit."""
        newer = self.store.commits - txn.snapshot + 1
        drawn = sorted(txn.snapshot + int(self.rng.random() * newer) for _ in txn.mops)
        written: set[int] = set()
        for i, (f, key, _) in enumerate(txn.mops):
            if key in written:
                drawn[i] = self.store.commits
            if f != "r":
                written.add(key)
        return drawn

    def states(self, txn: Txn) -> list[int]:
        """What each micro-operation reads from."""
        level, now, n = self.spec.level, self.store.commits, len(txn.mops)
        session = self.sessions.get(txn.process, 0)
        if level == "strict-serializable":
            return [now] * n
        if level == "read-committed":
            return self._newer_and_newer(txn)
        if "snapshot" not in level:
            if any(f != "r" for f, _, _ in txn.mops):
                return [now] * n
            return [self._stale(txn, session if "session" in level else 0)] * n
        state = txn.snapshot
        if not level.startswith("strong"):
            state = self._stale(txn, 0)
        elif "session" in level:
            state = self._stale(txn, session)
        if any(f != "r" and self.store.last(key) > state for f, key, _ in txn.mops):
            state = now  # it would have aborted: its next attempt is what counts
        return [state] * n

    def execute(self, txn: Txn) -> None:
        states = self.states(txn)
        txn.results = self.store.commit(txn, states)
        writes = any(f != "r" for f, _, _ in txn.mops)
        self.sessions[txn.process] = self.store.commits if writes else max(states)

    def end(self, txn: Txn, outcome: str) -> Event:
        txn.outcome = outcome
        txn.end_ns = self.tick()
        return "end", txn

    def forget(self) -> None:
        """Retired keys that no open transaction can have picked need no state any more."""
        for key in self.keys.retired[: -4 * self.spec.concurrency]:
            self.store.values.pop(key, None)
            self.store.numbers.pop(key, None)
            self.keys.written.pop(key, None)
        self.keys.retired = self.keys.retired[-4 * self.spec.concurrency :]


def _load(run: _Run, quota: int, open_: list[Txn | None], names: list[int]) -> Iterator[Event]:
    """`quota` more transactions; some stay open."""
    spec, random = run.spec, run.rng.random
    slots = len(open_)
    unknown = spec.fail_share + spec.info_share
    while quota:
        slot = int(random() * slots)
        txn = open_[slot]
        if txn is None:
            open_[slot] = txn = run.open(names[slot], run.draw())
            quota -= 1
            yield "begin", txn
        elif txn.results is None and txn.outcome == "open":
            luck = random()
            if luck < spec.fail_share:
                txn.outcome = "fail"
            elif luck < unknown and random() < 0.5:
                txn.outcome = "info"
            else:
                run.execute(txn)
                txn.outcome = "info" if luck < unknown else "ok"
        else:
            yield run.end(txn, txn.outcome)
            _release(run, slot, open_, names)


def _release(run: _Run, slot: int, open_: list[Txn | None], names: list[int]) -> None:
    txn = open_[slot]
    if txn is not None and txn.outcome == "info":
        names[slot] = run.processes
        run.processes += 1
    open_[slot] = None
    if len(run.keys.retired) > 64 * run.spec.concurrency:
        run.forget()


def _inject(run: _Run, steps: list[Step]) -> Iterator[Event]:
    """A gadget in one piece, on fresh keys and processes."""
    keys: dict[str, int] = {}
    processes: dict[int, int] = {}
    open_: dict[int, Txn] = {}
    for step in steps:
        if step.process not in processes:
            processes[step.process] = run.processes
            run.processes += 1
        if step.kind != "b":
            outcome = {"e": "ok", "f": "fail", "n": "info"}[step.kind]
            yield run.end(open_.pop(step.process), outcome)
            continue
        done = []
        for f, name, value in step.mops:
            if name not in keys:
                keys[name] = run.keys.reserve()
            done.append((f, keys[name], value))
        asked = [(f, k, None if f == "r" else v) for f, k, v in done]
        txn = run.open(processes[step.process], asked)
        txn.results = done
        open_[step.process] = txn
        yield "begin", txn


def _check(spec: Spec) -> None:
    if spec.workload not in WORKLOADS:
        raise ConfigError(f"no workload {spec.workload!r}", remedy=meant(spec.workload, WORKLOADS))
    if spec.level not in LEVELS:
        raise ConfigError(f"no level {spec.level!r}", remedy=meant(spec.level, LEVELS))
    if spec.workload == "register" and spec.level != "strict-serializable":
        raise ConfigError("a register is linearizable or it is not", remedy="leave --level out")
    if spec.txns < 0 or spec.concurrency < 1 or not 0 <= spec.fail_share + spec.info_share <= 1:
        raise ConfigError(
            "need txns >= 0, concurrency >= 1 and shares between 0 and 1",
            remedy="leave them out for the defaults, which `dstest generate --help` names",
        )


def events(spec: Spec) -> Iterator[Event]:
    """Begins and ends of transactions in order of time; every one that begins also ends.

    The gadgets come at random places, on top of `spec.txns`. Raises ConfigError for a bad spec.
    """
    _check(spec)
    run = _Run(spec)
    gadgets = [g for name, n in spec.inject.items() for g in [gadget(spec.workload, name)] * n]
    run.rng.shuffle(gadgets)
    places = sorted(run.rng.randint(0, spec.txns) for _ in gadgets)
    open_: list[Txn | None] = [None] * spec.concurrency
    names = list(range(spec.concurrency))
    done = 0
    for place, steps in zip(places, gadgets, strict=True):
        yield from _load(run, place - done, open_, names)
        done = place
        yield from _inject(run, steps)
    yield from _load(run, spec.txns - done, open_, names)
    for slot, txn in enumerate(open_):
        if txn is None:
            continue
        if txn.outcome == "open":
            run.execute(txn)
            txn.outcome = "ok"
        yield run.end(txn, txn.outcome)
        open_[slot] = None
