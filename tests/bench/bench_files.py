"""From a file to the verdict: `dstest check` as a whole, its process started for it.

Files hold a million operations, made here and read from the page cache. Wall time, best of three;
CPU time is that of the same run.
"""

from __future__ import annotations

import heapq
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dstest.history.generator.histories import Spec, events, lines

COUNT = int(os.environ.get("DSTEST_BENCH_FILE_OPS", "1000000"))
CLIENTS = 10
Step = Callable[[random.Random], tuple[str, Any, Any]]


def say(name: str, value: str) -> None:
    sys.stdout.write(f"  {name:<56} {value}\n")
    sys.stdout.flush()


def queue(take: str, put: str, *, last: bool) -> Step:
    held: deque[int] = deque()
    fresh = iter(range(1, sys.maxsize))

    def step(dice: random.Random) -> tuple[str, Any, Any]:
        if dice.random() < 0.5:
            held.append(next(fresh))
            return put, held[-1], None
        return take, None, (held.pop() if last else held.popleft()) if held else None

    return step


def elements() -> Step:
    newest = 0

    def step(dice: random.Random) -> tuple[str, Any, Any]:
        nonlocal newest
        if dice.random() < 0.5:
            newest += 1
            return "add", newest, None
        asked = dice.randint(1, newest + 50)
        return "contains", asked, asked <= newest

    return step


def log() -> Step:
    offsets = iter(range(sys.maxsize))

    def step(dice: random.Random) -> tuple[str, Any, Any]:
        offset = next(offsets)
        return "append", offset + 1, offset

    return step


def register() -> Step:
    held: int | None = None
    fresh = iter(range(1, sys.maxsize))

    def step(dice: random.Random) -> tuple[str, Any, Any]:
        nonlocal held
        if dice.random() < 0.5:
            held = next(fresh)
            return "write", held, None
        return "read", None, held

    return step


OBJECTS = {
    "register": register,
    "fifo-queue": lambda: queue("dequeue", "enqueue", last=False),
    "stack": lambda: queue("pop", "push", last=True),
    "set": elements,
    "log": log,
}


def records(step: Step) -> Iterator[str]:
    """Records of clients that take turns at random, in order of invocation."""
    dice, free = random.Random(1), [(0, client) for client in range(CLIENTS)]
    drafts = []
    for number in range(COUNT):
        since, client = heapq.heappop(free)
        invoke = since + dice.randint(1, 5) * 1000
        complete = invoke + dice.randint(1, 20) * 1000
        heapq.heappush(free, (complete, client))
        drafts.append((dice.randint(invoke, complete), number, invoke, complete, client))
    rows = [(invoke, n, complete, client, step(dice)) for _, n, invoke, complete, client
            in sorted(drafts)]  # fmt: skip
    word = {None: "null", True: "true", False: "false"}
    yield '{"schema":"dstest.history/1"}\n'
    for number, (invoke, _, complete, client, (op_type, asked, told)) in enumerate(sorted(rows)):
        output = word[told] if told is None or isinstance(told, bool) else told
        yield (
            f'{{"op_id":{number},"process_id":{client},"invoke_ts":{invoke},'
            f'"complete_ts":{complete},"op_type":"{op_type}","key":null,'
            f'"input":{"null" if asked is None else asked},"output":{output},"error":null,'
            f'"timeout_marker":false,"node_seen":"n{client % 5 + 1}","fault_epoch":null}}\n'
        )


def measure(name: str, path: Path, *asked: str) -> None:
    walls, cpus = [], []
    for _ in range(3):
        before, started = os.times(), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "dstest", "check", str(path), *asked],
            check=False, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        walls.append(time.perf_counter() - started)
        now = os.times()
        cpus.append(
            now.children_user + now.children_system - before.children_user - before.children_system
        )
        assert done.returncode == 0, done.stdout + done.stderr
    best = walls.index(min(walls))
    size_mb = path.stat().st_size / 1e6
    say(name, f"{walls[best]:.2f} s wall, {cpus[best]:.2f} s CPU, {size_mb:,.0f} MB")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.jsonl"
        for model, make in OBJECTS.items():
            path.write_text("".join(records(make())))
            asked = ("--model", model) if model != "register" else ("--workload", "register")
            measure(f"{model}, {COUNT:,}", path, *asked)
        path.unlink()
        spec = Spec(txns=COUNT, concurrency=CLIENTS, fail_share=0, info_share=0)
        for form in ("jsonl", "edn"):
            path = Path(folder) / f"lists.{form}"
            with path.open("wb") as file:
                file.writelines(lines(events(spec), spec, form))
            measure(f"list-append, {COUNT:,}, {form}", path, "--workload", "list-append")
            path.unlink()


if __name__ == "__main__":
    main()
