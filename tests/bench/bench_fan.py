"""Offline checks spread over workers: the same matrix of histories on 1, 2 and 4 local processes.

Wall time from the first task to the last answer, workers already up and warm, best of three
rounds that take turns. The ratio is that
to one worker; more workers than cores can only show what they cost.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from dstest.campaign.workers.pool import WorkerPool, worker_pool
from dstest.campaign.workers.task import Task
from dstest.cli.check_batch import judge_lines
from dstest.core.check import Budget
from dstest.history.generator.histories import Spec, events, lines

COUNT = int(os.environ.get("DSTEST_BENCH_FAN_OPS", "10000"))
SEEDS = 12
ROUNDS = 3
WORKERS = (1, 2, 4)


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")
    sys.stdout.flush()


def matrix() -> list[bytes]:
    """Lines of `--batch`: two workloads with two models each, and so many seeds."""
    found = []
    for workload in ("list-append", "rw-register"):
        for seed in range(SEEDS):
            spec = Spec(workload=workload, txns=COUNT, seed=seed)
            _, *records = lines(events(spec), spec, "jsonl")
            asked = {"workload": workload, "models": ["serializable", "snapshot-isolation"]}
            rows = [msgspec.Raw(record.rstrip()) for record in records]
            found.append(msgspec.json.encode({"name": seed, **asked, "history": rows}))
    return found


async def _once(pool: WorkerPool, rows: list[bytes], tag: str) -> float:
    budget = Budget()
    tasks = [
        Task(id=f"{tag}-{at}", work=judge_lines, args=([line], budget), lab=False)
        for at, line in enumerate(rows)
    ]
    begun = time.perf_counter()
    async for done in pool.run(tasks, ahead=1):
        answers, _ = done.value
        assert b'"valid":true' in answers[0], answers[0][:300]
    return time.perf_counter() - begun


async def _with(workers: int, rows: list[bytes]) -> float:
    """Seconds of the work."""
    with tempfile.TemporaryDirectory() as folder:
        async with worker_pool("local", workers=workers, into=Path(folder)) as pool:
            await _once(pool, rows[: 2 * workers], "warm")
            return await _once(pool, rows, "timed")


def main() -> None:
    rows = matrix()
    size = sum(map(len, rows)) / 1e6
    say("histories", f"{len(rows)} of {COUNT:,} transactions, {size:.0f} MB")
    best = dict.fromkeys(WORKERS, float("inf"))
    for _ in range(ROUNDS):
        for workers in WORKERS:
            best[workers] = min(best[workers], asyncio.run(_with(workers, rows)))
    for workers, took_s in best.items():
        ratio = f", {best[1] / took_s:.2f} times one worker" if workers > 1 else ""
        say(f"{workers} workers", f"{took_s:.2f} s{ratio}")


if __name__ == "__main__":
    main()
