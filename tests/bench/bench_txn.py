"""What the transaction checks cost, in CPU seconds of one run, apart from loading.

Histories are strictly serializable: ten active keys chosen exponentially, one to four micro-ops,
a key retired after `WRITES_PER_KEY` writes. `bench_txn.py [TXNS]` sets the size of the large one.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

from checkers.txn.api import check
from checkers.txn.columns import NIL, READ, WRITE, TxnColumns
from dstest.core.check import Budget

WRITES_PER_KEY = 32
BUDGET = Budget(time_s=600, memory_mb=8192)


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")


def simulate(txns: int, processes: int, *, lists: bool, seed: int = 1) -> TxnColumns:
    """A serial store behind `processes` clients; transactions take effect in order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, txns)
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    m = int(start[-1])
    kind = rng.integers(0, 2, m).astype(np.uint8)
    slot = np.minimum(rng.geometric(0.5, m) - 1, 9)
    key = np.zeros(m, np.int32)
    count = np.zeros(m, np.int32)
    active = list(range(10))
    written = [0] * 10
    fresh = 10
    keys, counts = key.tolist(), count.tolist()
    for i, (what, s) in enumerate(zip(kind.tolist(), slot.tolist(), strict=True)):
        keys[i] = active[s]
        if what == WRITE:
            written[s] += 1
        counts[i] = written[s]
        if what == WRITE and written[s] == WRITES_PER_KEY:
            active[s], written[s], fresh = fresh, 0, fresh + 1
    key, count = np.array(keys, np.int32), np.array(counts, np.int32)
    reads = kind == READ
    lengths = np.where(reads, count, 0) if lists else np.zeros(m, np.int64)
    elem_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    total = int(elem_start[-1])
    elem = (np.arange(total) - np.repeat(elem_start[:-1], lengths)).astype(np.int32)
    value = np.where(reads & (lists | (count == 0)), NIL, count - 1).astype(np.int32)
    order = np.arange(txns, dtype=np.int64)
    invoke, complete = _positions(order, processes, rng)
    rank = np.argsort(invoke)
    assert (rank == order).all()
    return TxnColumns(
        outcome=np.zeros(txns, np.uint8),
        process=order % processes,
        invoke_pos=invoke,
        complete_pos=complete,
        op_index=complete,
        mop_start=start,
        mop_kind=kind,
        mop_key=key,
        mop_value=value,
        mop_known=np.ones(m, np.uint8),
        elem_start=elem_start,
        elem=elem,
        key_names=list(range(fresh)),
        value_names=list(range(WRITES_PER_KEY)),
    )


def _positions(
    order: np.ndarray, processes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Invocations in order, each completion some transactions later, as one numbering."""
    n = len(order)
    late = order + rng.integers(0, processes, n) + 0.5
    times = np.concatenate([order.astype(float), late])
    position = np.empty(2 * n, np.int64)
    position[np.argsort(times, kind="stable")] = np.arange(2 * n)
    return position[:n], position[n:]


def measure(name: str, columns: TxnColumns, workload: str, opts: dict[str, bool]) -> float:
    """CPU seconds of the best of three checks."""
    times = []
    for _ in range(3 if columns.txns <= 2_000_000 else 1):
        started = time.process_time()
        result = check(columns, workload, opts=opts, budget=BUDGET)
        times.append(time.process_time() - started)
        assert result.valid is True, result
    best = min(times)
    say(name, f"{best:.3f} s CPU, {best / columns.txns * 1e9:.0f} ns/txn")
    return best


def main() -> None:
    small = simulate(1_000_000, 10, lists=True)
    million = measure("list-append, 1M, strict-serializable", small, "list-append", {})
    del small
    registers = simulate(1_000_000, 10, lists=False)
    measure("rw-register, 1M, strict-serializable", registers, "rw-register", {})
    for name in ("wfr-keys?", "sequential-keys?", "linearizable-keys?"):
        measure(f"rw-register, 1M, {name}", registers, "rw-register", {name: True})
    del registers
    if len(sys.argv) > 1:
        size = int(sys.argv[1])
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        large = simulate(size, 10, lists=True)
        cpu = measure(f"list-append, {size:,}", large, "list-append", {})
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        say("growth per transaction from 1M", f"{cpu / size / (million / 1e6) - 1:+.0%}")
        say("peak memory, generator included", f"{max(before_kb, peak_kb) / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
