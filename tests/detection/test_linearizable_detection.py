"""Detection power: what is seeded into a clean history is found, and clean histories stay clean.

A history comes from a simulated register with concurrent clients, unknown and failed operations;
each operation takes effect at a known instant. An anomaly is seeded by changing one result, in a
place where it is certain that no order explains it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from checkers.linearizable import CHECKER
from dstest.core.check import Anomaly, Budget
from dstest.core.history import Header, History
from dstest.core.op import Op, Outcome

pytestmark = pytest.mark.slow

KEYS = ("a", "b", "c")


@dataclass
class Simulated:
    history: list[Op]
    instants: dict[int, int]
    """op_id -> when it took effect; absent where it did not."""


def simulate(seed: int, ops: int = 300, clients: int = 8, crash: float = 0.08) -> Simulated:
    """A clean run. Written values are unique, so a result names the operation it comes from."""
    rng = random.Random(seed)
    free = dict.fromkeys(range(clients), 0)
    drafts = []
    for op_id in range(ops):
        client = min(free, key=lambda c: free[c])
        invoke = free[client] + rng.randint(1, 20)
        complete = invoke + rng.randint(2, 60)
        free[client] = complete
        drafts.append((rng.randint(invoke + 1, complete - 1), op_id, client, invoke, complete))
    made, instants = [], {}
    values: dict[str, int | None] = dict.fromkeys(KEYS)
    for instant, op_id, client, invoke, complete in sorted(drafts):
        key, kind, fate = rng.choice(KEYS), rng.choice("rrwwc"), rng.random()
        crashed, failed = fate < crash, crash <= fate < 1.5 * crash
        effective = not failed and not (crashed and rng.random() < 0.5)
        now = values[key]
        asked: Any
        asked, output = (None, now) if kind == "r" else (1000 + op_id, None)
        if kind == "c":
            asked = [now if rng.random() < 0.6 else 1000 + rng.randrange(ops), 1000 + op_id]
            output = asked[0] == now
        if effective:
            instants[op_id] = instant
            if kind == "w":
                values[key] = asked
            elif kind == "c" and output:
                values[key] = asked[1]
        made.append(
            Op(
                op_id=op_id,
                process_id=client if not crashed else 100 + op_id,
                invoke_ts=invoke,
                complete_ts=None if crashed else complete,
                op_type={"r": "read", "w": "write", "c": "cas"}[kind],
                key=key,
                input=asked,
                output=None if crashed or failed else output,
                error="refused" if failed else None,
                timeout_marker=crashed,
            )
        )
    return Simulated(sorted(made, key=lambda op: op.invoke_ts), instants)


def stored(op: Op) -> object:
    return op.input[1] if op.op_type == "cas" else op.input


def stores(op: Op) -> bool:
    return op.op_type == "write" or (op.op_type == "cas" and op.output is not False)


def ok_reads(run: Simulated, rng: random.Random) -> list[Op]:
    reads = [o for o in run.history if o.op_type == "read" and o.outcome is Outcome.OK]
    return rng.sample(reads, len(reads))


def change(run: Simulated, op: Op, output: object) -> list[Op]:
    return [replace(o, output=output) if o.op_id == op.op_id else o for o in run.history]


def stale_read(run: Simulated, rng: random.Random) -> list[Op] | None:
    """A read returns a value that was certainly replaced before the read began."""
    for read in ok_reads(run, rng):
        done = [
            o
            for o in run.history
            if o.key == read.key
            and o.op_type == "write"
            and o.outcome is Outcome.OK
            and (o.complete_ts or 0) < read.invoke_ts
        ]
        for old in done:
            if any(n.invoke_ts > (old.complete_ts or 0) for n in done):
                return change(run, read, stored(old))
    return None


def phantom(run: Simulated, rng: random.Random) -> list[Op] | None:
    """A read returns a value that nobody wrote."""
    return change(run, ok_reads(run, rng)[0], -1)


def failed_write_seen(run: Simulated, rng: random.Random) -> list[Op] | None:
    """A read returns the value of a write that is said to have had no effect."""
    for write in run.history:
        if write.op_type == "write" and write.outcome is Outcome.FAIL:
            for read in ok_reads(run, rng):
                if read.key == write.key:
                    return change(run, read, write.input)
    return None


def read_of_the_future(run: Simulated, rng: random.Random) -> list[Op] | None:
    """A read returns a value whose write began after the read was over."""
    for read in ok_reads(run, rng):
        for write in run.history:
            if (
                write.key == read.key
                and write.op_type == "write"
                and write.outcome is not Outcome.FAIL
                and write.invoke_ts > (read.complete_ts or 0)
            ):
                return change(run, read, write.input)
    return None


def initial_again(run: Simulated, rng: random.Random) -> list[Op] | None:
    """A read returns the initial value after an acknowledged write."""
    for read in ok_reads(run, rng):
        for write in run.history:
            if (
                write.key == read.key
                and write.op_type == "write"
                and write.outcome is Outcome.OK
                and (write.complete_ts or 0) < read.invoke_ts
            ):
                return change(run, read, None)
    return None


Seeder = Callable[[Simulated, random.Random], list[Op] | None]
SEEDERS = [stale_read, phantom, failed_write_seen, read_of_the_future, initial_again]


def check(ops: list[Op]) -> tuple[object, list[Anomaly]]:
    result = CHECKER.check(History(header=Header(), ops=ops), "cas-register", Budget(time_s=20))
    return result.valid, result.anomalies.get("nonlinearizable", [])


@pytest.mark.parametrize("seed", range(40))
def test_clean_runs_are_valid(seed: int) -> None:
    clients = 2 + seed % 20
    run = simulate(seed, clients=clients, crash=0.02 * (seed % 8))
    assert check(run.history) == (True, [])


@pytest.mark.parametrize("seeder", SEEDERS, ids=lambda s: s.__name__)
def test_seeded_anomalies_are_found(seeder: Seeder) -> None:
    seeded, sizes = 0, []
    for seed in range(60):
        run = simulate(seed, ops=200, crash=0.1)
        ops = seeder(run, random.Random(seed))
        if ops is None:
            continue
        seeded += 1
        valid, anomalies = check(ops)
        assert valid is False, f"{seeder.__name__} with seed {seed} was missed"
        for anomaly in anomalies:
            assert anomaly.minimal
            sizes.append(len(anomaly.ops))
            assert_sound(anomaly)
    assert seeded >= 30, "the seeding is too weak to show anything"
    assert sorted(sizes)[len(sizes) // 2] <= 4


def assert_sound(anomaly: Anomaly) -> None:
    """The witness contradicts itself, and a value that it reads has its write in the witness
    unless that write began too late or failed."""
    ops = [Op(**fields) for fields in anomaly.witness]
    assert check(ops)[0] is False
    assert {op.key for op in ops} == {anomaly.key}
    assert anomaly.explanation


def test_lost_acknowledged_write_without_neighbours() -> None:
    """Every write but the lost one is read back: only real time betrays it."""
    ops, at = [], 0
    for i in range(50):
        ops.append(Op(op_id=2 * i, process_id=0, invoke_ts=at, complete_ts=at + 1,
                      op_type="write", key="k", input=i))  # fmt: skip
        seen = i if i != 25 else 24
        ops.append(Op(op_id=2 * i + 1, process_id=1, invoke_ts=at + 2, complete_ts=at + 3,
                      op_type="read", key="k", output=seen))  # fmt: skip
        at += 4
    valid, (anomaly,) = check(ops)
    assert valid is False
    assert anomaly.ops == [48, 50, 51]
