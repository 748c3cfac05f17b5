"""What is recorded of runs that pass, by kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from made_runs import registers, transactions

from dstest.core.op import Op
from dstest.history.generator.simulated_clients import Sim
from dstest.history.generator.true_histories import KINDS, of_set
from dstest.history.generator.true_histories import history as true_history

COUNT = 700


def versions(seed: int = 1, count: int = COUNT) -> list[Op]:
    """`session` on keys that are retired and read again."""
    sim = Sim(seed, 8, 0.005, 0.01)
    state: dict[str, tuple[int, Any]] = {}
    fresh = iter(range(1, 10**9))

    def put(key: str, value: int) -> Any:
        state[key] = (state.get(key, (0, None))[0] + 1, value)
        return {"version": state[key][0]}

    def get(key: str) -> Any:
        version, value = state.get(key, (0, None))
        return {"version": version, "value": value}

    def step(slot: int, start: int, effect: int) -> tuple[Any, ...]:
        newest = len(sim.ops) // 25
        if sim.dice.random() < 0.6:
            back = sim.dice.random() < 0.3
            key = f"s{sim.dice.randrange(newest + 1) if back else newest}"
            return "read", key, None, lambda: get(key)
        key, value = f"s{newest}", next(fresh)
        return "write", key, value, lambda: put(key, value)

    sim.run(count, step)
    return sim.history().ops


def of(name: str, count: int = COUNT, **rename: str) -> tuple[list[Op], dict[str, Any]]:
    """(operations, options) of a true history; some with other operation types."""
    made = true_history(name, 3, count, processes=8, unknown=0.005)
    ops = [
        msgspec.structs.replace(
            op,
            op_type=rename.get(op.op_type, op.op_type),
            key="a" if op.key is None and rename else op.key,
        )
        for op in made.ops
    ]
    return ops, made.header.options


def elements() -> list[Op]:
    sim = Sim(2, 8, 0.005, 0.01)
    of_set(sim, COUNT, 0.2)
    return sim.history().ops


RUNS: dict[str, Callable[[], dict[str, Any]]] = {
    "register": lambda: {"ops": registers(count=COUNT), "workload": "register"},
    "list-append": lambda: {"ops": transactions("list-append", count=COUNT)},
    "rw-register": lambda: {"ops": transactions("rw-register", count=COUNT)},
    "session": lambda: {"ops": versions(), "workload": "session"},
    "set-full": lambda: {"ops": elements(), "workload": "set", "checkers": ["set-full"]},
    "set": lambda: {"ops": elements(), "workload": "set", "checkers": ["set"]},
    "no-lost-ack": lambda: {"ops": elements(), "workload": "set", "checkers": ["no-lost-ack"]},
}
for _name, _workload in {
    "bank": "bank",
    "total-queue": "queue",
    "dead-letters": "dead-letters",
    "fifo": "queue",
    "counter": "counter",
    "lock": "lock",
    "unique-ids": "unique-ids",
    "atomic-view": "atomic-view",
    "g2": "g2",
    "closed-predicate": "closed-predicate",
    "causal": "causal",
    "kafka": "append-log",
}.items():
    RUNS[_name] = lambda n=_name, w=_workload: {  # type: ignore[misc]
        "ops": of(n)[0], "options": of(n)[1], "workload": w, "model": KINDS[n].model,
        "checkers": [KINDS[n].checker],
    }  # fmt: skip
RUNS["exactly-once"] = lambda: {
    "ops": of("exactly-once", pay="credit")[0], "workload": "ledger",
}  # fmt: skip
