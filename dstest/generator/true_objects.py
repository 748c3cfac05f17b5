"""Clients of true objects in virtual time: sets, queues, counters, locks, logs."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable
from typing import Any

from dstest.generator.simulated_clients import Refused, Sim


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
