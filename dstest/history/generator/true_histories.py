"""Histories of true systems, in virtual time: every operation takes effect at one instant of its
interval.

`history(name, seed, count)` simulates concurrent clients of one kind of object (sets, queues,
counters, locks, logs) or store (of which one sees several objects at once) with unknown and failed
operations among them; nothing in it is a violation, whatever the size. A final phase follows where
a checker needs one.
"""

from __future__ import annotations

import bisect
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from dstest.core.history import History
from dstest.history.generator.simulated_clients import MS, Refused, Sim


def of_set(sim: Sim, count: int, reads: float | None = None) -> None:
    share = min(0.5, 40 / count) if reads is None else reads
    elements: list[int] = []
    fresh = iter(range(10**9))

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        if sim.dice.random() < share:
            return "read", "s", None, lambda: list(elements)
        value = next(fresh)
        return "add", "s", value, lambda: elements.append(value)

    sim.run(count, step)
    sim.after("read", "s", None, list(elements))


def of_queue(sim: Sim, count: int) -> None:
    waiting: list[int] = []
    head = [0]
    fresh = iter(range(10**9))

    def take() -> Any:
        if head[0] >= len(waiting):
            return None
        head[0] += 1
        return waiting[head[0] - 1]

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        if sim.dice.random() < 0.5:
            return "dequeue", "q", None, take
        value = next(fresh)
        return "enqueue", "q", value, lambda: waiting.append(value)

    unknown, sim.unknown = sim.unknown, 0.0
    if count < 200:
        sim.unknown = unknown
    sim.run(count, step)
    sim.unknown = unknown
    while (value := take()) is not None:
        sim.after("dequeue", "q", None, value)
    sim.after("dequeue", "q", None, None)


def of_dead_letters(sim: Sim, count: int) -> None:
    waiting: deque[int] = deque()
    dead: deque[int] = deque()
    fresh = iter(range(10**9))

    def reject() -> Any:
        if not waiting:
            return None
        dead.append(waiting.popleft())
        return dead[-1]

    takes: dict[str, Callable[[], Any]] = {
        "dequeue": lambda: waiting.popleft() if waiting else None,
        "collect": lambda: dead.popleft() if dead else None,
        "reject": reject,
    }

    last = 0

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        nonlocal last
        if sim.dice.random() < 0.5:
            kind = sim.dice.choice(["dequeue", "reject", "collect"])
            return kind, "q", None, takes[kind]
        # Some are put in again: each of them is owed.
        value = last = last if sim.dice.random() < 0.1 else next(fresh)
        return "enqueue", "q", value, lambda: waiting.append(value)

    sim.run(count, step)
    for kind in ("dequeue", "collect"):
        while (value := takes[kind]()) is not None:
            sim.after(kind, "q", None, value)
        sim.after(kind, "q", None, None)


def of_prefix(sim: Sim, count: int) -> None:
    log: dict[int, list[int]] = {}
    fresh = iter(range(10**9))

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        key = len(sim.ops) // 60
        mine = log.setdefault(key, [])
        if sim.dice.random() < 0.4:
            return "read", key, None, lambda: list(mine)
        value = next(fresh)
        return "append", key, value, lambda: mine.append(value)

    sim.run(count, step)


def of_counter(sim: Sim, count: int, negative: bool = False) -> None:
    value = {"c0": 0, "c1": 0}

    def add(key: str, delta: int, tell: bool) -> Any:
        value[key] += delta
        return value[key] if tell else None

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        key = sim.dice.choice(("c0", "c1"))
        if sim.dice.random() < 0.4:
            return "read", key, None, lambda: value[key]
        delta = sim.dice.randint(-3 if negative else 1, 5) or 1
        tell = sim.dice.random() < 0.5
        return "inc", key, delta, lambda: add(key, delta, tell)

    sim.run(count, step)
    for key, total in value.items():
        sim.after("read", key, None, total)


def of_lock(sim: Sim, count: int, ttl_ns: int | None = None) -> None:
    """With a time to live the server keeps the lock from the effect until that long after."""
    holder: dict[str, tuple[int, int]] = {}
    mine: dict[int, tuple[str, int]] = {}
    token = [0]

    def free(key: str, now: int) -> bool:
        held = holder.get(key)
        return held is None or now > held[1]

    def acquire(slot: int, key: str, now: int) -> Any:
        if not free(key, now):
            return False
        token[0] += 1
        holder[key] = (token[0], now + ttl_ns if ttl_ns else 2**62)
        mine[slot] = (key, token[0])
        return {"token": token[0]}

    def release(slot: int, key: str, own: int) -> Any:
        if holder.get(key, (None,))[0] == own:
            del holder[key]
        elif sim.dice.random() < 0.5:
            raise Refused("not-held: it has expired")
        return None

    def renew(slot: int, key: str, own: int, now: int) -> Any:
        held = holder.get(key)
        if held is None or held[0] != own or now > held[1]:
            raise Refused("gone")
        assert ttl_ns is not None
        holder[key] = (own, now + ttl_ns)
        return None

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        asked = {"ttl_ns": ttl_ns} if ttl_ns else None
        if slot in mine:
            key, own = mine[slot]
            if ttl_ns and sim.dice.random() < 0.5:
                return "renew", key, asked, lambda: renew(slot, key, own, effect)
            del mine[slot]
            return "release", key, asked, lambda: release(slot, key, own)
        key = sim.dice.choice(("l0", "l1"))
        return "acquire", key, asked, lambda: acquire(slot, key, effect)

    sim.gone = lambda slot: mine.pop(slot, None)
    # A lock whose release got lost is never free again: only leases come back.
    if ttl_ns is None:
        sim.unknown = sim.fail = 0.0
    sim.run(count, step)


def of_ids(sim: Sim, count: int) -> None:
    top = [0]

    def give() -> int:
        top[0] += 1
        return top[0]

    sim.run(count, lambda slot, start, effect: ("generate", None, None, give))


def of_versions(sim: Sim, count: int) -> None:
    state: dict[str, tuple[int, Any]] = {}
    fresh = iter(range(10**9))

    def put(key: str, value: int) -> Any:
        version = state.get(key, (0, None))[0] + 1
        state[key] = (version, value)
        return {"version": version}

    def get(key: str) -> Any:
        version, value = state.get(key, (0, None))
        return {"version": version, "value": value}

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        key = sim.dice.choice("xyz")
        if sim.dice.random() < 0.5:
            return "read", key, None, lambda: get(key)
        value = next(fresh)
        return "write", key, value, lambda: put(key, value)

    sim.run(count, step)


def of_register(sim: Sim, count: int) -> None:
    state: dict[str, Any] = {}
    fresh = iter(range(10**9))

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        key = sim.dice.choice("xyzuvw" if count > 50 else "xy")
        if sim.dice.random() < 0.5:
            return "read", key, None, lambda: state.get(key)
        value = next(fresh)
        return "write", key, value, lambda: state.update({key: value})

    sim.run(count, step)


def of_watch(sim: Sim, count: int) -> None:
    events: list[dict[str, Any]] = []
    fresh = iter(range(10**9))

    def put(key: str, value: int) -> Any:
        events.append({"revision": len(events) + 1, "key": key, "value": value})
        return {"revision": len(events)}

    def look(start: int) -> Any:
        return {"events": events[start - 1 :], "to": len(events)}

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        if slot % 3 == 0:
            begin = sim.answered.get((slot, None), {"to": 0})["to"] + 1
            return "watch", None, {"from": begin}, lambda: look(begin)
        key, value = sim.dice.choice("xyz"), next(fresh)
        return "write", key, value, lambda: put(key, value)

    sim.run(count, step)
    begins = [told["to"] + 1 for (_, key), told in sim.answered.items() if key is None]
    last = max(begins, default=1)
    sim.after("watch", None, {"from": last}, {"events": events[last - 1 :], "to": len(events)})


def of_kafka(sim: Sim, count: int) -> None:
    logs: dict[str, list[list[int]]] = {"p0": [], "p1": []}
    top = [0]
    fresh = iter(range(10**9))

    def send(key: str, value: int) -> Any:
        top[0] += sim.dice.randint(1, 2)
        logs[key].append([top[0], value])
        return {"offset": top[0]}

    def poll(key: str, start: int) -> Any:
        at = bisect.bisect_left(logs[key], [start])
        return {"records": [list(r) for r in logs[key][at:]], "to": top[0]}

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        key = sim.dice.choice(("p0", "p1"))
        if slot % 3 == 0:
            begin = sim.answered.get((slot, key), {"to": -1})["to"] + 1
            return "poll", key, {"from": begin}, lambda: poll(key, begin)
        value = next(fresh)
        return "send", key, value, lambda: send(key, value)

    sim.run(count, step)
    for key in logs:
        ends = [t["to"] for (_, k), t in sim.answered.items() if k == key and "to" in t]
        begin = max(ends, default=-1) + 1
        sim.after("poll", key, {"from": begin}, poll(key, begin))


def matches(predicate: Any, value: Any) -> bool:
    if value is None:
        return False
    if predicate is True:
        return True
    if predicate[0] == "=":
        return bool(value == predicate[1])
    return bool(value % predicate[1] == predicate[2])


def run(mops: list[list[Any]], rows: dict[Any, Any]) -> list[Any]:
    """Executes micro-ops on `rows`; what the reads return."""
    returned: list[Any] = []
    for mop in mops:
        match mop:
            case ["r", key, *_]:
                returned.append(rows.get(key))
            case ["w" | "insert", key, value]:
                rows[key] = value
            case ["delete", key]:
                rows.pop(key, None)
            case ["rp", predicate, *_]:
                returned.append({k: v for k, v in rows.items() if matches(predicate, v)})
    return returned


def of_bank(sim: Sim, count: int) -> None:
    sim.options = {"bank_accounts": 5, "bank_balance": 20}
    balance = {str(i): 20 for i in range(5)}

    def move(a: str, b: str, amount: int) -> Any:
        if balance[a] < amount:
            return False
        balance[a] -= amount
        balance[b] += amount
        return True

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        if sim.dice.random() < 0.4:
            return "read", None, None, lambda: dict(balance)
        a, b = sim.dice.sample(sorted(balance), 2)
        amount = sim.dice.randint(1, 5)
        return "transfer", None, {"from": a, "to": b, "amount": amount}, lambda: move(a, b, amount)

    sim.run(count, step)
    sim.after("read", None, None, dict(balance))


def of_long_fork(sim: Sim, count: int) -> None:
    groups: dict[str, dict[str, Any]] = {}
    todo: list[tuple[str, str]] = []

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        number = len(sim.ops) // 24
        name = f"g{number}"
        if name not in groups:
            groups[name] = dict.fromkeys("abcd")
            todo.extend((name, m) for m in "abcd")
        if todo and sim.dice.random() < 0.4:
            group, member = todo.pop(sim.dice.randrange(len(todo)))
            return "write", group, [member, 1], lambda: groups[group].update({member: 1})
        return "read", name, None, lambda: [[m, v] for m, v in groups[name].items()]

    sim.run(count, step)


def of_ledger(sim: Sim, count: int) -> None:
    effects: list[str] = []
    again: list[str] = []
    fresh = iter(range(10**9))

    def pay(name: str) -> None:
        if name not in done:
            done.add(name)
            effects.append(name)

    done: set[str] = set()

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        name = again.pop() if again and sim.dice.random() < 0.5 else f"p-{next(fresh)}"
        if sim.dice.random() < 0.3:
            again.append(name)
        return "pay", "a", {"id": name, "amount": 1}, lambda: pay(name)

    sim.run(count, step)
    sim.after("audit", None, None, list(effects))


def of_dumps(sim: Sim, count: int) -> None:
    state: dict[str, int] = dict.fromkeys("abcdef", 10)
    sim.options = {"invariants": "sum=60, size=6, min=0, no-null"}

    def move(a: str, b: str) -> None:
        if state[a] > 0:
            state[a] -= 1
            state[b] += 1

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        a, b = sim.dice.sample(sorted(state), 2)
        return "write", None, [a, b], lambda: move(a, b)

    sim.run(count, step)
    for _ in range(2):
        for node in ("n1", "n2", "n3"):
            sim.after("dump", None, None, dict(state), node)


def of_fair(sim: Sim, count: int) -> None:
    sim.options = {
        "fairness_p99_ratio": 2.0,
        "fairness_ok_per_s": 1.0,
        "fairness_error_rate": 0.2,
        "fairness_spread": 0.5,
    }
    sim.run(count, lambda slot, start, effect: ("read", "x", None, lambda: 1))


def of_served(sim: Sim, count: int) -> None:
    sim.options = {"slo": "ok_ratio>=0.5, p50_ms<=1000,gap_s<=60", "slo_of": "read"}
    sim.run(count, lambda slot, start, effect: ("read", "x", None, lambda: 1))


def of_views(sim: Sim, count: int, moments: int = 1) -> None:
    """A group is retired after 60 operations. A look is of one moment, or each of its steps of one
    that is not before the last one's (read committed)."""
    made: dict[str, list[int]] = {}

    def bump(group: str, effect: int) -> Any:
        made.setdefault(group, []).append(effect)
        return [len(made[group])] * 2

    def look(group: str, steps: list[list[Any]], start: int, effect: int) -> Any:
        times = sorted(sim.dice.randint(start, effect) for _ in steps)
        times = times if moments > 1 else [effect] * len(steps)
        seen = [bisect.bisect_right(made.get(group, []), at) for at in times]
        rows = zip(steps, seen, strict=True)
        return [[kind, member, n if kind == "r" else None] for (kind, member, _), n in rows]

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        group = f"g{len(sim.ops) // 60}"
        if sim.dice.random() < 0.5:
            return "bump", group, [0, 1], lambda: bump(group, effect)
        steps = [["r", 0, None], ["touch", 1, None], ["r", 1, None], ["r", 0, None]]
        return "look", group, steps, lambda: look(group, steps, start, effect)

    sim.run(count, step)


def of_predicates(sim: Sim, count: int) -> None:
    stores: dict[str, dict[int, int]] = {}
    values = itertools.count(1)

    def micro_op() -> list[Any]:
        key, what = sim.dice.randrange(4), sim.dice.random()
        if what < 0.4:
            return ["rp", sim.dice.choice([True, ["mod", 2, 0], ["mod", 2, 1]])]
        if what < 0.5:
            return ["r", key]
        return ["delete", key] if what < 0.6 else ["w", key, next(values)]

    def execute(group: str, steps: list[list[Any]]) -> list[list[Any]]:
        rows = stores.setdefault(group, {})
        done = []
        for mop in steps:
            if mop[0] in ("r", "rp"):
                (got,) = run([mop], rows)
                found = [[k, v] for k, v in got.items()] if mop[0] == "rp" else got
                done.append([*mop, found])
            else:
                run([mop], rows)
                done.append(mop)
        return done

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        group = f"g{len(sim.ops) // 30}"
        steps = [micro_op() for _ in range(sim.dice.randint(1, 4))]
        if sim.dice.random() < 0.1:
            group, steps = f"g{sim.dice.randint(0, len(sim.ops) // 30)}", [["rp", True]]
        return "txn", group, steps, lambda: execute(group, steps)

    sim.run(count, step)


def of_tenants(sim: Sim, count: int) -> None:
    """Two tenants for 60 operations, of whose names one begins with the other, and a stranger."""
    state: dict[str, dict[str, str]] = {}
    fresh = itertools.count(1)
    names = ["k", "K", "k ", "1k"]

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        cell = f"c{len(sim.ops) // 60}-"
        tenant, name = cell + sim.dice.choice(("1", "11")), sim.dice.choice(names)
        about = {"cell": cell, "class": "prefix"}
        kinds = ("put", "get", "list", "count", "drop", "probe")
        kind = sim.dice.choices(kinds, (6, 5, 2, 2, 1, 1))[0]
        mine = state.setdefault(tenant, {})
        if kind == "put":
            value = f"v{next(fresh)}"
            asked = {"name": name, "value": value, **about}
            return kind, tenant, asked, lambda: mine.update({name: value})
        if kind == "get":
            return kind, tenant, {"name": name, **about}, lambda: mine.get(name)
        if kind == "probe":
            return kind, f"{tenant}1k", {"name": name, **about}, lambda: None
        does: dict[str, Callable[[], Any]] = {
            "list": lambda: [[k, v] for k, v in mine.items()],
            "count": lambda: len(mine),
            "drop": mine.clear,
        }
        return kind, tenant, about, does[kind]

    sim.run(count, step)


def of_pairs(sim: Sim, count: int) -> None:
    rows: set[str] = set()

    def insert(key: str) -> bool:
        there = key in rows
        rows.add(key)
        return not there

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        number = len(sim.ops)
        if number % 50 == 49:
            return "read", None, None, lambda: {"pairs": [], "more": False}
        key = f"p{number // 3}"
        return "insert", key, ["ab"[number % 2], number], lambda: insert(key)

    sim.run(count, step)


class Kind:
    """A kind of history: how it is made, which checker judges it under which model."""

    def __init__(self, make: Callable[[Sim, int], None], checker: str, model: str) -> None:
        self.make, self.checker, self.model = make, checker, model


KINDS = {
    "set-full": Kind(lambda s, n: of_set(s, n), "set-full", "linearizable"),
    "set": Kind(lambda s, n: of_set(s, n), "set", "eventual"),
    "no-lost-ack": Kind(lambda s, n: of_set(s, n), "no-lost-ack", "durable"),
    "total-queue": Kind(of_queue, "total-queue", "exactly-once"),
    "dead-letters": Kind(of_dead_letters, "dead-letters", "at-least-once"),
    "fifo": Kind(of_queue, "order", "fifo"),
    "prefix": Kind(of_prefix, "order", "prefix"),
    "counter": Kind(lambda s, n: of_counter(s, n), "counter-bounds", "counter-bounds"),
    "pn-counter": Kind(lambda s, n: of_counter(s, n, True), "counter-bounds", "counter-bounds"),
    "lock": Kind(lambda s, n: of_lock(s, n), "exclusion", "lock"),
    "lease": Kind(lambda s, n: of_lock(s, n, 20 * MS), "exclusion", "lease"),
    "atomic-view": Kind(of_views, "atomic-view", "strict-serializable"),
    "read-committed-view": Kind(
        lambda s, n: of_views(s, n, 4), "atomic-view", "monotonic-atomic-view"
    ),
    "g2": Kind(of_pairs, "g2", "serializable"),
    "closed-predicate": Kind(of_predicates, "closed-predicate", "strict-serializable"),
    "boundary": Kind(of_tenants, "boundary", "isolated"),
    "bank": Kind(of_bank, "bank", "strict-serializable"),
    "long-fork": Kind(of_long_fork, "long-fork", "strict-serializable"),
    "causal-reverse": Kind(of_long_fork, "causal-reverse", "strict-serializable"),
    "unique-ids": Kind(of_ids, "unique-ids", "increasing"),
    "session": Kind(of_versions, "sessions", "session"),
    "causal": Kind(of_register, "causal", "causal"),
    "watch": Kind(of_watch, "watch", "watch"),
    "kafka": Kind(of_kafka, "kafka", "linearizable"),
    "exactly-once": Kind(of_ledger, "exactly-once", "ledger"),
    "reconciliation": Kind(of_dumps, "reconciliation", "converged"),
    "final-state": Kind(of_dumps, "final-state", "invariant"),
    "fairness": Kind(of_fair, "fairness", "fair"),
    "slo": Kind(of_served, "slo", "slo"),
}


def history(
    name: str,
    seed: int,
    count: int,
    *,
    processes: int = 6,
    unknown: float = 0.02,
    fail: float = 0.02,
) -> History:
    """A clean history of about `count` operations."""
    sim = Sim(seed, processes, unknown, fail)
    KINDS[name].make(sim, count)
    return sim.history()
