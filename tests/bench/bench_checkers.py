"""What the checkers cost, in CPU time of one run, excluding parsing unless it says so."""

from __future__ import annotations

import json
import os
import random
import resource
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from checkers.columns import (
    CAS_FALSE,
    CAS_TRUE,
    CAS_UNKNOWN,
    ILLEGAL,
    NEVER,
    OK,
    READ,
    WRITE,
    WRITE_UNKNOWN,
    Columns,
    Decision,
    Limits,
    check_registers,
    encode,
)
from checkers.linearizable import CHECKER
from dstest.core.check import Budget
from dstest.core.history import Header, History
from dstest.core.op import Op
from dstest.history.importers import load_history

CORPORA = Path(
    os.environ.get("DSTEST_CORPORA") or Path(__file__).parents[2].parent / "shared" / "corpora"
)
LIMITS = Limits(time_ns=60 * 10**9, memory_bytes=2**30, steps_max=2**60)
WORDS = {OK: "ok", ILLEGAL: "illegal"}

Row = tuple[int, int, int, int, int]
"""(kind, a, b, invoke, complete)"""


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<52} {value}\n")


def decide(columns: Columns) -> tuple[float, Decision]:
    """CPU seconds, and the decision."""
    started = time.process_time()
    decision = check_registers(
        columns.kind,
        columns.a,
        columns.b,
        columns.invoke,
        columns.complete,
        columns.offsets,
        n_values=len(columns.values),
        limits=LIMITS,
    )
    return time.process_time() - started, decision


def etcd() -> None:
    """Jepsen's etcd logs, one call per log, against Porcupine's recorded wall medians."""
    verdicts = CORPORA / "porcupine" / "verdicts.json"
    if not verdicts.exists():
        say("etcd logs", f"no corpus at {CORPORA}")
        return
    rows = [r for r in json.loads(verdicts.read_text()) if r["model"] == "etcd-cas-register"]
    started = time.process_time()
    histories = [load_history(verdicts.parent / r["file"]) for r in rows]
    parse_s = time.process_time() - started
    started = time.process_time()
    columns = [encode(h, "cas-register") for h in histories]
    encode_s = time.process_time() - started
    medians, agree = [], 0
    for row, one in zip(rows, columns, strict=True):
        runs = [decide(one) for _ in range(9)]
        medians.append(statistics.median(cpu for cpu, _ in runs))
        agree += WORDS.get(int(runs[0][1].verdict[0])) == row["expected"]
    total_ms = sum(medians) * 1e3
    porcupine_ms = sum(r["porcupine_median_ms"] for r in rows)
    say("etcd logs, verdicts that agree", f"{agree} of {len(rows)}")
    say("etcd logs, search (9-run medians, summed)", f"{total_ms:.2f} ms")
    say("etcd logs, slowest search", f"{max(medians) * 1e3:.3f} ms")
    say("etcd logs, Porcupine's recorded medians", f"{porcupine_ms:.0f} ms wall")
    say("etcd logs, ratio to Porcupine", f"{porcupine_ms / total_ms:.0f}")
    say("etcd logs, reading and parsing", f"{parse_s * 1e3:.0f} ms")
    say("etcd logs, columns", f"{encode_s * 1e3:.1f} ms")


def simulate(
    seed: int, ops: int, clients: int, values: int, crash: float, cas: float, keys: int = 1
) -> list[list[Row]]:
    """Rows per key of a real register; `values` 0 = every written value is new."""
    rng = random.Random(seed)
    free = [0] * clients
    drafts = []
    for fresh in range(1, ops + 1):
        client = min(range(clients), key=free.__getitem__)
        invoke = free[client] + rng.randint(1, 5)
        free[client] = complete = invoke + rng.randint(1, 20)
        drafts.append((rng.randint(invoke, complete), invoke, complete, fresh))
    rows: list[list[Row]] = [[] for _ in range(keys)]
    state = [0] * keys
    for _, invoke, complete, fresh in sorted(drafts):
        key, what, crashed = rng.randrange(keys), rng.random(), rng.random() < crash
        now, end = state[key], NEVER if crashed else complete
        a = rng.randrange(values) if values else fresh
        effective = not crashed or rng.random() < 0.5
        if what < 0.4:
            if not crashed:
                rows[key].append((READ, now, 0, invoke, end))
            continue
        if what >= 1 - cas:
            recent = max(1, fresh - rng.randrange(1, 2 * clients))
            wanted = now if rng.random() < 0.5 else recent
            wanted = rng.randrange(values) if values else wanted
            kind = CAS_UNKNOWN if crashed else CAS_TRUE if wanted == now else CAS_FALSE
            rows[key].append((kind, wanted, a, invoke, end))
            effective = effective and wanted == now
        else:
            rows[key].append((WRITE_UNKNOWN if crashed else WRITE, a, 0, invoke, end))
        state[key] = a if effective else now
    for one in rows:
        one.sort(key=lambda r: r[3])
    return rows


def columns_of(rows: list[list[Row]]) -> Columns:
    table = np.array([row for one in rows for row in one], np.int64).reshape(-1, 5)
    return Columns(
        kind=table[:, 0].astype(np.uint8),
        a=table[:, 1].astype(np.int32),
        b=table[:, 2].astype(np.int32),
        invoke=np.ascontiguousarray(table[:, 3]),
        complete=np.ascontiguousarray(table[:, 4]),
        position=np.arange(len(table), dtype=np.int64),
        offsets=np.cumsum([0] + [len(one) for one in rows], dtype=np.int64),
        keys=list(range(len(rows))),
        values=list(range(int(table[:, 1:3].max()) + 1)),
        excluded={},
        blocked={},
    )


def synthetic() -> None:
    shapes = [
        ("100k ops, 1,000 keys, 10 clients, unique writes", (1, 100_000, 10, 0, 0.01, 0.0, 1000)),
        ("100k ops, 1,000 keys, 10 clients, cas of 5 values", (2, 100_000, 10, 5, 0.01, 0.2, 1000)),
        ("100k ops, 1 key, 5 clients, cas of 5 values", (3, 100_000, 5, 5, 0.0, 0.2, 1)),
        ("20k ops, 1 key, 50 clients, 30 % of writes unknown", (4, 20_000, 50, 5, 0.3, 0.0, 1)),
        ("20k ops, 1 key, 10 clients, unknown writes and cas", (5, 20_000, 10, 5, 0.3, 0.2, 1)),
        ("5k ops, 1 key, 20 clients, half unknown, 20 values", (6, 5_000, 20, 20, 0.5, 0.3, 1)),
    ]  # fmt: skip
    for name, shape in shapes:
        columns = columns_of(simulate(*shape))
        cpu, decision = decide(columns)
        undecided = int((decision.verdict > ILLEGAL).sum())
        wrong = int((decision.verdict == ILLEGAL).sum())
        unknown = int((columns.complete == NEVER).sum())
        say(
            name,
            f"{cpu * 1e9 / len(columns.kind):,.0f} ns/op, {cpu * 1e3:,.1f} ms, {unknown} unknown, "
            f"{undecided} undecided, {wrong} wrongly illegal",
        )


def whole() -> None:
    """The whole checker in Python, columns included."""
    ops, position = [], 0
    for key, rows in enumerate(simulate(1, 100_000, 10, 0, 0.01, 0.0, 1000)):
        for kind, a, _, invoke, complete in rows:
            unknown = complete == NEVER
            ops.append(
                Op(
                    op_id=position,
                    process_id=position,
                    invoke_ts=invoke,
                    complete_ts=None if unknown else complete,
                    op_type="read" if kind == READ else "write",
                    key=str(key),
                    input=None if kind == READ else a,
                    output=(a or None) if kind == READ else None,
                    timeout_marker=unknown,
                )
            )
            position += 1
    ops.sort(key=lambda op: op.invoke_ts)
    started = time.process_time()
    result = CHECKER.check(History(header=Header(), ops=ops), "register", Budget())
    cpu = time.process_time() - started
    say(
        f"whole checker, {len(ops)} ops, 1,000 keys, valid {result.valid}",
        f"{cpu * 1e9 / len(ops):,.0f} ns/op, {cpu * 1e3:,.0f} ms",
    )


def main() -> None:
    etcd()
    synthetic()
    whole()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say("peak RSS of this process", f"{peak:.0f} MB")


if __name__ == "__main__":
    main()
