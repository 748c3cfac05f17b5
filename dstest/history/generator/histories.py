"""Transactional histories of a simulated store at a known isolation level, with anomalies in their
smallest form (`GADGETS`, by Elle's names) put in, as our JSONL or as Jepsen's EDN. A history is a
function of its `Spec`.

The store keeps for each key everything that was ever committed to it, each value with the number of
its commit, so that a transaction can read any past state: which one, its level says (`LEVELS`).
Under snapshot isolation a transaction whose keys were written after the state that it read tries
again with the newest state. Memory holds only what is written to keys that are still in use.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.history import Header
from dstest.core.near import meant
from dstest.core.op import Op
from dstest.core.rng import stream

_ORDERED: Final = {
    "G1c": "b0 rx1 e0 b1 ax1 e1",
    "G-single-item": "b0 ax1 e0 b1 rx e1 b2 rx1 e2",
    "G-nonadjacent-item": "b2 ax1 az1 b3 rz1 ry b0 ay1 e0 b1 rx e1 e2 e3 b4 rx1 ry1 e4",
    "G2-item": "b2 ax1 ry b0 ay1 e0 b1 rx e1 e2 b4 rx1 ry1 e4",
}
"""Processes 0 and 1 are one after the other; nothing else orders them."""

_LIST: Final = {
    "G0": "b0 ax1 ay2 b1 ax2 ay1 e0 e1 b2 rx12 ry12 e2",
    "G1a": "b0 ax1 b1 rx1 f0 e1",
    "G1b": "b0 ax1 ax2 b1 rx1 e0 e1",
    "G1c": "b0 ax1 ry1 b1 ay1 rx1 e0 e1",
    "G-single-item": "b0 ax1 ay1 b1 rx1 ry e0 e1 b2 ry1 e2",
    "G-nonadjacent-item": "b0 ax1 b1 ay1 b2 rx1 ry b3 ry1 rx e0 e1 e2 e3",
    "G2-item": "b0 rx ay1 b1 ry ax1 e0 e1 b2 rx1 ry1 e2",
    "lost-update": "b0 rx ax1 b1 rx ax2 e0 e1 b2 rx12 e2",
    "internal": "b0 rx ax1 rx b1 rx1 e0 e1",
    "garbage-read": "b0 rx7 e0",
    "duplicate-elements": "b0 ax1 e0 b1 rx11 e1",
    "incompatible-order": "b0 ax1 b1 ax2 b2 rx12 b3 rx21 e0 e1 e2 e3",
    "dirty-update": "b0 ax1 b1 ax2 f0 e1 b2 rx12 e2",
    "future-read": "b0 rx1 ax1 e0",
    "G0-realtime": "b0 ax1 e0 b1 ax2 e1 b2 rx21 e2",
    **{f"{name}-realtime": text for name, text in _ORDERED.items()},
}

_REGISTER: Final = {
    name: text.replace("a", "w")
    for name, text in _LIST.items()
    if name not in ("G0", "G0-realtime", "duplicate-elements", "incompatible-order")
    and name not in ("dirty-update", "future-read", "internal", "lost-update")
    and not name.startswith(("G-nonadjacent-item-", "G2-item-"))
} | {
    "internal": "b0 wx1 wx2 rx1 e0",
    "G0": "b0 ry1 wx1 wy2 b1 rx1 wx2 wy1 e0 e1",
    "G0-realtime": "b0 rx2 wx1 e0 b1 wx2 e1",
    "lost-update": "b0 rx wx1 b1 rx wx2 e0 e1",
    "cyclic-versions": "b0 rx2 wx1 b1 rx1 wx2 e0 e1",
    "G-nonadjacent-item-realtime": "b2 wx1 wz1 b3 rz1 ry b0 wy1 e0 b1 rx e1 e2 e3",
    "G2-item-realtime": "b2 wx1 ry b0 wy1 e0 b1 rx e1 e2",
}

NEED_WFR: Final = ("G0", "G0-process", "G0-realtime", "cyclic-versions")
"""rw-register gadgets that show where a transaction's write follows its read (`wfr-keys?`)."""

_SHORT: Final = {
    "G-single": "G-single-item",
    "G2": "G2-item",
    "G-nonadjacent": "G-nonadjacent-item",
}

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
"""What a transaction reads: the state at the moment of its writes (strict-serializable; the next
three so where it writes, read-only ones a state not older than the session's last, or any recent
one), that at its invocation (strong-snapshot-isolation), one not older than the session's last
(strong-session-snapshot-isolation), any recent one, or with each read a newer one."""

_LAG_MAX: Final = 20
"""How many commits a stale state may be behind."""

_STEP_NS: Final = 10_000

FORMATS: Final = ("jsonl", "edn")


@dataclass(frozen=True, slots=True)
class Step:
    """One event of a gadget. `mops` are given where a transaction begins."""

    kind: str
    process: int
    mops: tuple[tuple[str, str, Any], ...] = ()


def _sessions(text: str) -> str:
    """The same with what processes 0 and 1 did done by process 0 alone."""
    return " ".join(
        word[0] + "0" if word[0] in "befn" and word[1:] == "1" else word for word in text.split()
    )


def _with_sessions(gadgets: dict[str, str]) -> dict[str, str]:
    process = {
        name.replace("-realtime", "-process"): _sessions(text)
        for name, text in gadgets.items()
        if name.endswith("-realtime")
    }
    return {**gadgets, **process}


GADGETS: Final[dict[str, dict[str, str]]] = {
    "list-append": _with_sessions(_LIST),
    "rw-register": _with_sessions(_REGISTER),
    "register": {"nonlinearizable": "b0 wx1 e0 b1 wx2 e1 b2 rx1 e2"},
}
"""Gadgets by workload: a few transactions on keys and processes of their own, as events in order.
The -process ones show where a strong session model is asked.

    b0 ax1 ry      process 0 begins a transaction that appends 1 to x and reads y as empty
    b1 rx12        process 1 reads x as [1 2] (as 12 in a register history)
    e0  f0  n0     process 0 ends: ok, fail, or with nobody knowing
"""


def _mop(word: str, lists: bool) -> tuple[str, str, Any]:
    function, key, digits = word[0], word[1], word[2:]
    if function == "r":
        value: Any = [int(d) for d in digits] if lists else int(digits) if digits else None
        return "r", key, value
    return ("append" if function == "a" else "w"), key, int(digits)


def gadget(workload: str, name: str) -> list[Step]:
    """The events of a gadget. Raises ConfigError for a name that the workload does not have."""
    known = GADGETS[workload]
    text = known.get(_SHORT.get(name, name))
    if text is None:
        raise ConfigError(
            f"{workload} has no anomaly called {name!r} to inject",
            remedy=meant(name, sorted(known)),
        )
    steps: list[Step] = []
    for word in text.split():
        if word[0] in "befn":
            steps.append(Step(word[0], int(word[1:])))
            continue
        last = steps[-1]
        steps[-1] = Step(
            last.kind, last.process, (*last.mops, _mop(word, workload == "list-append"))
        )
    return steps


def parse_injections(texts: list[str]) -> dict[str, int]:
    """`NAME:COUNT`, or `NAME` for one; several may be separated by commas."""
    counts: dict[str, int] = {}
    for text in (part for t in texts for part in t.split(",") if part):
        name, _, count = text.partition(":")
        if count and not count.isdigit():
            raise ConfigError(f"{text!r} is no injection", remedy="give NAME:COUNT, as in G1c:2")
        counts[name] = counts.get(name, 0) + int(count or 1)
    return counts


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


def _op(txn: Txn, workload: str) -> Op:
    known = txn.outcome == "ok"
    common: dict[str, Any] = {
        "op_id": txn.id,
        "process_id": txn.process,
        "invoke_ts": txn.begin_ns,
        "complete_ts": None if txn.outcome == "info" else txn.end_ns,
        "error": "definite-abort" if txn.outcome == "fail" else None,
        "timeout_marker": txn.outcome == "info",
    }
    if workload == "register":
        f, key, value = txn.mops[0]
        output = txn.results[0][2] if known and f == "r" and txn.results else None
        kind = "read" if f == "r" else "write"
        return Op(op_type=kind, key=key, input=value, output=output, **common)
    return Op(op_type="txn", input=txn.mops, output=txn.results if known else None, **common)


def _jsonl(events: Iterable[Event], spec: Spec) -> Iterator[bytes]:
    """Records in order of invocation: one waits until all before it have ended."""
    encode = msgspec.json.Encoder().encode
    header = Header(
        workload=spec.workload,
        model=None if spec.workload == "register" else spec.level,
        concurrency=spec.concurrency,
        seed=spec.seed,
        source="generated",
    )
    yield encode(header) + b"\n"
    waiting: deque[Txn] = deque()
    for kind, txn in events:
        if kind == "begin":
            waiting.append(txn)
        while waiting and waiting[0].end_ns is not None:
            yield encode(_op(waiting.popleft(), spec.workload)) + b"\n"


def _value(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, list):
        return f"[{' '.join(map(str, value))}]"
    return str(value)


def _edn_value(txn: Txn, kind: str, workload: str) -> str:
    results = txn.results if kind == "ok" and txn.results is not None else txn.mops
    if workload == "register":
        _, key, value = results[0]
        return f"[{key} {_value(value)}]"
    return f"[{' '.join(f'[:{f} {k} {_value(v)}]' for f, k, v in results)}]"


def _edn(events: Iterable[Event], spec: Spec) -> Iterator[bytes]:
    for index, (what, txn) in enumerate(events):
        kind = "invoke" if what == "begin" else txn.outcome
        time = txn.begin_ns if what == "begin" else txn.end_ns
        f = "txn"
        if spec.workload == "register":
            f = "read" if txn.mops[0][0] == "r" else "write"
        value = _edn_value(txn, kind, spec.workload)
        yield (
            f"{{:index {index}, :type :{kind}, :process {txn.process}, :time {time}, "
            f":f :{f}, :value {value}}}\n"
        ).encode()


def lines(events: Iterable[Event], spec: Spec, fmt: str) -> Iterator[bytes]:
    """The lines of a history file, newlines included."""
    return _jsonl(events, spec) if fmt == "jsonl" else _edn(events, spec)
