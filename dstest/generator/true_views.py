"""Clients of true stores in virtual time: what one sees of several objects at once."""

from __future__ import annotations

import bisect
import itertools
from typing import Any

from dstest.generator.rows import run
from dstest.generator.simulated_clients import Sim


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
