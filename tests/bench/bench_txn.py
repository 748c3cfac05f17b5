"""What the transaction checks cost, in CPU seconds of one run, apart from loading.

Histories are strictly serializable: ten active keys chosen exponentially, one to four micro-ops,
a key retired after `WRITES_PER_KEY` writes. Elle, warmed up, needs 42 s CPU and 9,440 MiB for such
a million with a 12 GiB heap; the ratios printed are to those figures, measured apart.

    python tests/bench/bench_txn.py [transactions of the large one]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path

import numpy as np

from checkers.txn.api import check
from checkers.txn.columns import NIL, READ, WRITE, TxnColumns
from checkers.txn.ingest import load
from dstest.core.check import Budget
from dstest.history.generator.histories import Spec, events, lines

WRITES_PER_KEY = 32
BUDGET = Budget(time_s=600, memory_mb=8192)
ELLE_CPU_S = 42.0
LARGE = 10_000_000


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
    """CPU nanoseconds per transaction of the best of some checks."""
    times = []
    for _ in range(5 if columns.txns <= 2_000_000 else 1):
        started = time.process_time()
        result = check(columns, workload, opts=opts, budget=BUDGET)
        times.append(time.process_time() - started)
        assert result.valid is True, result
    per_txn_ns = min(times) / columns.txns * 1e9
    say(name, f"{min(times):.3f} s CPU, {per_txn_ns:.0f} ns/txn")
    return per_txn_ns


def peak_mb() -> float:
    """Of this program alone: ru_maxrss would start with what the parent had."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def in_child(columns: TxnColumns) -> None:
    """The same check in a process of its own, so that the generator's memory does not count."""
    with tempfile.TemporaryDirectory() as folder:
        for field in fields(columns):
            if isinstance(array := getattr(columns, field.name), np.ndarray):
                np.save(Path(folder) / f"{field.name}.npy", array)
        names = (len(columns.key_names), len(columns.value_names))
        subprocess.run(
            [sys.executable, __file__, "child", folder, *map(str, names)], check=True, timeout=600
        )


def child(folder: str, keys: str, values: str) -> None:
    before_mb = peak_mb()
    arrays = {path.stem: np.load(path) for path in Path(folder).glob("*.npy")}
    columns = TxnColumns(
        **arrays, key_names=list(range(int(keys))), value_names=list(range(int(values)))
    )
    loaded_mb = peak_mb()
    assert check(columns, "list-append", budget=BUDGET).valid is True
    whole, own = ((peak_mb() - since) * 2**20 / columns.txns for since in (before_mb, loaded_mb))
    say("peak memory per transaction", f"{whole:.0f} bytes, {own:.0f} of them beside the columns")


def from_file(txns: int) -> None:
    """From a file in the page cache to a verdict, on two cores."""
    spec = Spec(txns=txns, concurrency=10, fail_share=0, info_share=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        with path.open("wb") as file:
            file.writelines(lines(events(spec), spec, "jsonl"))
        walls = []
        for _ in range(3):
            started = time.perf_counter()
            result = check(load(path, threads=2), "list-append", budget=BUDGET)
            walls.append(time.perf_counter() - started)
            assert result.valid is True, result
    say(f"list-append, {txns:,}, JSONL to verdict, two cores", f"{min(walls):.3f} s wall")


def main(large: int = LARGE) -> None:
    small = measure(
        "list-append, 100k, strict-serializable",
        simulate(100_000, 10, lists=True),
        "list-append",
        {},
    )
    million = measure(
        "list-append, 1M, strict-serializable",
        simulate(1_000_000, 10, lists=True),
        "list-append",
        {},
    )
    say("of Elle's CPU seconds for 1M", f"1/{ELLE_CPU_S / million * 1e3:.0f}")
    columns = simulate(large, 10, lists=True)
    per_txn = measure(f"list-append, {large:,}", columns, "list-append", {})
    say("growth per transaction from 100k", f"{per_txn / small - 1:+.0%}")
    say("growth per transaction from 1M", f"{per_txn / million - 1:+.0%}")
    in_child(columns)
    del columns
    registers = simulate(1_000_000, 10, lists=False)
    measure("rw-register, 1M, strict-serializable", registers, "rw-register", {})
    for name in ("wfr-keys?", "sequential-keys?", "linearizable-keys?"):
        measure(f"rw-register, 1M, {name}", registers, "rw-register", {name: True})
    del registers
    from_file(1_000_000)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else LARGE)
