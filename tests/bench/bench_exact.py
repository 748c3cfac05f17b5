"""What it costs to decide isolation of registers, in CPU seconds of one run, columns in memory.

A store executes transactions of ten operations of many sessions: at once (`serial`), or on a
snapshot of up to 50 transactions ago with the first committer winning (`snapshot`). Completions are
out of order by as many transactions as there are sessions.

    python tests/bench/bench_exact.py [transactions]
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

from checkers.txn import order_search, weak_models
from checkers.txn.columns import NIL, TxnColumns
from dstest.core.check import Budget

BUDGET = Budget(time_s=600, memory_mb=8192)
OPERATIONS = 10
LAG = 50


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")


class _Store:
    """Values of each key by the transaction that wrote them."""

    def __init__(self, keys: int) -> None:
        self.when: list[list[int]] = [[-1] for _ in range(keys)]
        self.what: list[list[int]] = [[NIL] for _ in range(keys)]

    def read(self, key: int, upto: int) -> int:
        when = self.when[key]
        at = len(when) - 1
        while when[at] > upto:
            at -= 1
        return self.what[key][at]

    def changed(self, key: int, since: int) -> bool:
        return self.when[key][-1] > since

    def write(self, key: int, now: int, value: int) -> None:
        self.when[key].append(now)
        self.what[key].append(value)


def simulate(txns: int, sessions: int, keys: int, *, snapshot: bool, skewed: bool) -> TxnColumns:
    """Such a history."""
    rng = np.random.default_rng(txns + sessions + keys)
    m = txns * OPERATIONS
    chosen = rng.zipf(1.3, m) - 1 if skewed else rng.integers(0, keys, m)
    key = (chosen % keys).astype(np.int32)
    writes = rng.random(m) < 0.5
    session = rng.integers(0, sessions, txns)
    lag = rng.integers(0, LAG + 1, txns) if snapshot else np.zeros(txns, np.int64)
    store, last, value, fresh = _Store(keys), [-1] * sessions, [NIL] * m, 0
    rows = key.reshape(txns, OPERATIONS).tolist()
    asked = writes.reshape(txns, OPERATIONS).tolist()
    kinds = np.zeros(m, np.uint8)
    for now in range(txns):
        seen = max(now - 1 - int(lag[now]), last[session[now]])
        if snapshot and any(
            w and store.changed(k, seen) for k, w in zip(rows[now], asked[now], strict=True)
        ):
            seen = now - 1
        own: dict[int, int] = {}
        for i, (k, w) in enumerate(zip(rows[now], asked[now], strict=True)):
            at = now * OPERATIONS + i
            if w:
                own[k], kinds[at] = fresh, 1
                fresh += 1
            value[at] = own[k] if k in own else store.read(k, seen)
        for k, v in own.items():
            store.write(k, now, v)
        last[session[now]] = now
    return _columns(session, sessions, kinds, key, np.array(value, np.int32), fresh, keys, rng)


def _columns(
    session: np.ndarray, sessions: int, kind: np.ndarray, key: np.ndarray, value: np.ndarray,
    values: int, keys: int, rng: np.random.Generator,
) -> TxnColumns:  # fmt: skip
    """A transaction takes effect between its invocation and its completion, and the next one of its
    session begins after that."""
    n = len(session)
    begun = np.arange(n) - rng.random(n) * sessions / 2
    ended = np.arange(n) + 0.1 + rng.random(n) * sessions / 2
    for s in range(sessions):
        mine = np.flatnonzero(session == s)
        between = (mine[:-1] + mine[1:]) / 2
        ended[mine[:-1]] = np.minimum(ended[mine[:-1]], between)
        begun[mine[1:]] = np.maximum(begun[mine[1:]], between + 1e-6)
    order = np.argsort(begun, kind="stable")
    position = np.empty(2 * n, np.int64)
    position[np.argsort(np.concatenate([begun, ended]), kind="stable")] = np.arange(2 * n)
    mops = (order[:, None] * OPERATIONS + np.arange(OPERATIONS)).ravel()
    read_nil = (kind[mops] == 0) & (value[mops] == NIL)
    return TxnColumns(
        outcome=np.zeros(n, np.uint8),
        process=session[order].astype(np.int64),
        invoke_pos=position[:n][order],
        complete_pos=position[n:][order],
        op_index=np.arange(n, dtype=np.int64),
        mop_start=np.arange(n + 1, dtype=np.int64) * OPERATIONS,
        mop_kind=kind[mops],
        mop_key=key[mops],
        mop_value=value[mops],
        mop_known=np.where(read_nil, 2, 1).astype(np.uint8),
        elem_start=np.zeros(n * OPERATIONS + 1, np.int64),
        elem=np.empty(0, np.int32),
        key_names=list(range(keys)),
        value_names=list(range(values)),
    )


def measure(name: str, columns: TxnColumns, model: str) -> float:
    """CPU seconds of the best of three."""
    module = order_search if model in order_search.MODELS else weak_models
    times = []
    for _ in range(3):
        started = time.process_time()
        found = module.decide(columns, [model], BUDGET)
        times.append(time.process_time() - started)
    say(f"{name}, {model}", f"{min(times):.3f} s CPU, {found.decisions[model]}")
    return min(times)


def main(txns: int = 100_000) -> None:
    times: dict[str, list[float]] = {}
    for sessions in (20, 50, 500):
        for kind, skewed in (("serial", False), ("serial", True), ("snapshot", False)):
            name = f"{txns:,}, {sessions} sessions, {kind}{', skewed' if skewed else ''}"
            columns = simulate(
                txns, sessions, txns // 10, snapshot=kind == "snapshot", skewed=skewed
            )
            models = [*weak_models.MODELS[:3], *order_search.MODELS]
            for model in models:
                if kind == "snapshot" and "serializable" in model:
                    continue
                times.setdefault(model, []).append(measure(name, columns, model))
    for model, some in times.items():
        say(f"median, {model}", f"{statistics.median(some):.3f} s CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
