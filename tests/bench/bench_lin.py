"""What linearizability costs per operation on columns that are loaded, in CPU time of one run.

DSTEST_BENCH_OPS is the size of the large histories (default 10,000,000).
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from bench_checkers import CORPORA, columns_of, simulate
from kv_load import falsified, kv_load

from checkers import columns as _native
from checkers.columns import I32, I64, NEVER, OK, READ, U8, WRITE, Columns, Limits, check_registers
from checkers.lin import monitor, registers
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.clock import monotonic_ns
from dstest.history.importers import load_history

SIZES = (1_000_000, int(os.environ.get("DSTEST_BENCH_OPS", "10000000")))
SPREAD = 45
"""Operations are 10 apart and last up to twice this: about ten at once."""

Intervals = tuple[I64, I64, I64]


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<52} {value}\n")
    sys.stdout.flush()


def intervals(count: int, dice: np.random.Generator) -> Intervals:
    """Order of invocation, and sorted invocations and completions around instants 10 apart."""
    instant = np.arange(count, dtype=np.int64) * 10
    invoke = instant - dice.integers(0, SPREAD, count)
    order = np.argsort(invoke, kind="stable")
    complete = instant + dice.integers(0, SPREAD, count)
    return order, invoke[order], complete[order]


def queue(count: int) -> tuple[U8, I32, I64, I64, int]:
    """Kinds, values and times of a real queue, empty now and then."""
    dice = np.random.default_rng(1)
    puts = dice.random(count) < 0.5
    level = np.cumsum(np.where(puts, 1, -1))
    least = np.minimum.accumulate(np.minimum(level, 0))
    nothing = ~puts & (level == least) & (np.diff(least, prepend=0) < 0)
    takes = ~puts & ~nothing
    value = np.where(puts, np.cumsum(puts) - 1, np.cumsum(takes) - 1)
    kind = np.where(puts, monitor.PUT, np.where(takes, monitor.TAKE, monitor.NOTHING))
    order, invoke, complete = intervals(count, dice)
    return (
        kind[order].astype(np.uint8),
        np.maximum(value, 0)[order].astype(np.int32),
        invoke,
        complete,
        int(puts.sum()) + 1,
    )


def register(count: int) -> tuple[U8, I32, I64, I64, int]:
    """Kinds, values and times of a real register; every write is new."""
    dice = np.random.default_rng(2)
    puts = dice.random(count) < 0.5
    value = np.cumsum(puts)
    order, invoke, complete = intervals(count, dice)
    kind = np.where(puts, monitor.PUT, monitor.TAKE)[order].astype(np.uint8)
    return kind, value[order].astype(np.int32), invoke, complete, int(value[-1]) + 1


def elements(count: int, n_elements: int) -> Columns:
    """A set's elements as registers: add = write 1, remove = write 0, contains = read."""
    dice = np.random.default_rng(3)
    element = dice.integers(0, n_elements, count)
    what = dice.integers(0, 4, count)
    by = np.lexsort((np.arange(count), element))
    stored = np.where(what[by] == 0, 2, np.where(what[by] == 1, 1, 0))
    first = np.r_[True, np.diff(element[by]) != 0]
    last = np.maximum.accumulate(np.where(first | (stored > 0), np.arange(count), 0))
    held = np.maximum(stored[last] - 1, 0)
    value = np.empty(count, np.int64)
    value[by] = held
    order, invoke, complete = intervals(count, dice)
    grouped = np.lexsort((np.arange(count), element[order]))
    rows = order[grouped]
    counts = np.bincount(element, minlength=n_elements)
    return Columns(
        kind=np.where(what[rows] < 2, WRITE, READ).astype(np.uint8),
        a=value[rows].astype(np.int32),
        b=np.zeros(count, np.int32),
        invoke=invoke[grouped],
        complete=complete[grouped],
        position=np.arange(count, dtype=np.int64),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        keys=list(range(n_elements)),
        values=[None, True],
        excluded={},
        blocked={},
    )


def timed(name: str, count: int, run: Callable[[], U8]) -> None:
    started = time.process_time()
    verdict = run()
    cpu = time.process_time() - started
    wrong = int((verdict != OK).sum())
    say(name, f"{cpu * 1e9 / count:,.0f} ns/op, {cpu:,.2f} s, {wrong} keys not ok")


def judged(columns: Columns) -> U8:
    return check_registers(
        columns.kind, columns.a, columns.b, columns.invoke, columns.complete, columns.offsets,
        n_values=2, limits=Limits(10**11, 2**33),
    ).verdict  # fmt: skip


def unique() -> None:
    for count in SIZES:
        for name, make, model in (
            ("register", register, monitor.REGISTER),
            ("FIFO queue", queue, monitor.QUEUE),
        ):
            kind, value, invoke, complete, n_values = make(count)
            whole = np.array([0, count], np.int64)
            timed(
                f"{name}, unique values, {count:,} ops, one key",
                count,
                partial(
                    monitor.monitor,
                    *(kind, value, invoke, complete, whole, n_values, model, 2**33),
                ),
            )
        columns = elements(count, 1_000)
        timed(
            f"set, {count:,} ops, 1,000 elements",
            count,
            partial(judged, columns),
        )


def crashes() -> None:
    """200 clients, a tenth of the outcomes unknown."""
    for values in (5, 50, 0):
        rows = simulate(7, 20_000, 200, values, 0.1, 0.3)
        columns = columns_of(rows)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.process_time()
        decision = registers.decide(columns, Budget(time_s=120, memory_mb=1024))
        cpu = time.process_time() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        unknown = int((columns.complete == NEVER).sum())
        word = {0: "ok", 1: "illegal"}.get(
            int(decision.verdict[0]), _native.UNDECIDED.get(int(decision.verdict[0]), "?")
        )
        name = f"cas-register, 200 clients, {values or 'unique'} values"
        memory = f"peak {peak / 1024:,.0f} MB ({(peak - before) / 1024:,.0f} more)"
        say(name, f"{word}, {cpu:,.2f} s, {unknown} of {len(rows[0])} unknown, {memory}")


def mutex() -> None:
    path = CORPORA / "elle-cli" / "knossos" / "mutex" / "bad" / "etcd.edn"
    if not path.exists():
        return
    history = load_history(path)
    started = monotonic_ns()
    result = CHECKER.check(history, "mutex", Budget())
    size = len(result.anomalies["nonlinearizable"][0].ops)
    cost = (monotonic_ns() - started) / 1e6
    say("Knossos' mutex history, witness included", f"{result.valid}, {size} ops, {cost:.0f} ms")


def maps() -> None:
    """50 clients on 10 keys, strings that grow, as in Porcupine's tests."""
    for rounds in (1, 3):
        right = kv_load(1, 50, 10, 40 // rounds, rounds)
        for name, history in (("right", right), ("wrong", falsified(right, 1, 3))):
            started = time.process_time()
            result = CHECKER.check(history, "kv-map", Budget())
            cpu = time.process_time() - started
            sizes = [len(a.ops) for a in result.anomalies.get("nonlinearizable", [])]
            told = f"{result.valid}, {cpu * 1e3:,.0f} ms, witnesses {sizes}"
            say(f"kv-map, {len(history.ops):,} ops, {rounds} rounds, {name}", told)


def main() -> None:
    maps()
    crashes()
    unique()
    mutex()
