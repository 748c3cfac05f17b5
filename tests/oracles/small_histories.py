"""Random small transactional histories as Jepsen op maps, from correct to absurd.

Each history is a function of its seed: a store with one of several ways to execute transactions,
a few processes, all outcomes, then sometimes reads that are changed at random.
"""

from __future__ import annotations

import random
from typing import Any

__all__ = ["random_history", "random_options"]

STYLES = ("serial", "snapshot", "committed", "wild")

Event = dict[str, Any]


class _Store:
    """Lists or registers by key, and the next unique value of each key."""

    def __init__(self, workload: str, rng: random.Random) -> None:
        self.lists = workload == "list-append"
        self.rng = rng
        self.state: dict[Any, Any] = {}
        self.next: dict[Any, int] = {}

    def fresh(self, key: Any) -> int:
        self.next[key] = self.next.get(key, 0) + 1
        return self.next[key]

    def read(self, state: dict[Any, Any], key: Any) -> Any:
        value = state.get(key)
        if not self.lists:
            return value
        if not value and self.rng.random() < 0.7:
            return None if self.rng.random() < 0.8 else []
        return list(value or [])

    def write(self, state: dict[Any, Any], key: Any, value: Any) -> None:
        state[key] = [*(state.get(key) or []), value] if self.lists else value


def _invocation(store: _Store, keys: int) -> list[list[Any]]:
    rng = store.rng
    mops: list[list[Any]] = []
    for _ in range(rng.randint(1, 4)):
        key = rng.randrange(keys)
        if rng.random() < 0.5:
            mops.append(["r", key, None])
        else:
            mops.append(["append" if store.lists else "w", key, store.fresh(key)])
    return mops


def _apply(store: _Store, mops: list[list[Any]], base: dict[Any, Any]) -> list[list[Any]]:
    """Executes on `base`; gives the micro-ops with their results."""
    done = []
    for f, k, v in mops:
        if f == "r":
            done.append([f, k, store.read(base, k)])
        else:
            store.write(base, k, v)
            done.append([f, k, v])
    return done


def _wild(store: _Store, mops: list[list[Any]]) -> list[list[Any]]:
    rng = store.rng
    done = []
    for f, k, v in mops:
        if f != "r" or rng.random() < 0.3:
            done.append([f, k, v if f != "r" else store.read(store.state, k)])
            if f != "r":
                store.write(store.state, k, v)
            continue
        known = list(range(1, store.next.get(k, 0) + 1)) or [1]
        if store.lists:
            done.append([f, k, rng.sample(known, rng.randint(0, len(known)))])
        else:
            done.append([f, k, rng.choice([None, *known, *known])])
    return done


def _execute(store: _Store, style: str, mops: list[list[Any]], snapshot: dict[Any, Any]) -> Any:
    if style == "wild":
        return _wild(store, mops)
    if style != "snapshot":
        return _apply(store, mops, store.state)
    own = {k: (list(v) if isinstance(v, list) else v) for k, v in snapshot.items()}
    done = _apply(store, mops, own)
    for f, k, v in mops:
        if f != "r":
            store.write(store.state, k, v)
    return done


def _perturb(history: list[Event], rng: random.Random, lists: bool) -> None:
    """Changes a few reads: a shorter, reordered or doubled list, another value, nothing."""
    reads = [m for e in history if e["type"] == "ok" for m in e["value"] if m[0] == "r"]
    for mop in rng.sample(reads, min(len(reads), rng.randint(1, 3))):
        value = mop[2]
        if not lists:
            mop[2] = rng.choice([None, value, 1, 2, 3, 4])
        elif value:
            change = rng.randrange(4)
            if change == 0:
                mop[2] = value[: rng.randrange(len(value))]
            elif change == 1:
                mop[2] = rng.sample(value, len(value))
            elif change == 2:
                mop[2] = [*value, rng.choice(value)]
            else:
                mop[2] = None


def _outcome(rng: random.Random) -> str:
    return rng.choices(["ok", "fail", "info"], [8, 1, 1])[0]


def random_history(seed: int, workload: str) -> list[Event]:
    """Up to 16 transactions on up to three keys."""
    rng = random.Random(f"{workload}/{seed}")
    store = _Store(workload, rng)
    style = rng.choice(STYLES)
    keys, processes = rng.randint(1, 3), list(range(rng.randint(1, 5)))
    history: list[Event] = []
    open_: dict[int, tuple[int, Any, dict[Any, Any], Any]] = {}
    fresh = len(processes)

    def emit(kind: str, process: int, value: Any) -> None:
        history.append(
            {"index": len(history), "type": kind, "process": process, "f": "txn", "value": value}
        )

    left = rng.randint(1, 16)
    while left or open_:
        slot = rng.randrange(len(processes))
        if slot not in open_ and left:
            mops = _invocation(store, keys)
            left -= 1
            emit("invoke", processes[slot], [list(m) for m in mops])
            snapshot = {k: (list(v) if isinstance(v, list) else v) for k, v in store.state.items()}
            early = None
            if style in ("serial", "wild") or (style == "committed" and rng.random() < 0.5):
                early = rng.random() < 0.5
            open_[slot] = (0, mops, snapshot, _execute(store, style, mops, {}) if early else None)
        elif slot in open_:
            _, mops, snapshot, done = open_.pop(slot)
            outcome = _outcome(rng)
            if (
                done is None
                and (outcome != "fail" or style == "wild")
                and (outcome == "ok" or rng.random() < 0.6)
            ):
                done = _execute(store, style, mops, snapshot)
            if outcome == "ok":
                emit("ok", processes[slot], done)
            else:
                emit(outcome, processes[slot], mops)
            if outcome == "info":
                processes[slot] = fresh
                fresh += 1
    if rng.random() < 0.4:
        _perturb(history, rng, store.lists)
    if rng.random() < 0.05:
        history = [e for e in history if e["type"] != "invoke"]
    elif rng.random() < 0.05:
        history = [e for e in history if e["type"] != "info"]
    return history


def random_options(seed: int, workload: str) -> tuple[list[str], dict[str, Any]]:
    """Demanded models and options for the history of the same seed."""
    rng = random.Random(f"options/{workload}/{seed}")
    models = [
        rng.choice(
            [
                "strict-serializable",
                "serializable",
                "snapshot-isolation",
                "read-committed",
                "repeatable-read",
                "strong-session-serializable",
                "strong-session-snapshot-isolation",
                "read-uncommitted",
            ]
        )
    ]
    opts: dict[str, Any] = {}
    if workload == "rw-register":
        name = rng.choice([None, "wfr-keys?", "sequential-keys?", "linearizable-keys?"])
        if name is not None:
            opts[name] = True
        if rng.random() < 0.2:
            opts["wfr-keys?"] = True
    return models, opts
