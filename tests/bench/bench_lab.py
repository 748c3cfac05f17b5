"""How long a lab takes and what a command on a node costs.

    .venv/bin/python tests/bench/bench_lab.py

Brings a lab called `b-bench` up and down three times (needs root) and prints one row per figure.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from clusters.labs import image
from clusters.labs.image import shared_packages
from clusters.labs.lxc import LAB
from clusters.remote import connect_all
from dstest.core.node import LabInfo

LAB_ID = "b-bench"
ROUNDS = 3
PINGS = 2000
EXECS = 300


def _row(name: str, value: float, unit: str) -> None:
    sys.stdout.write(f"{name:44} {value:10.2f} {unit}\n")


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def _remote(lab: LabInfo) -> None:
    started = time.perf_counter()
    nodes = await connect_all(lab)
    _row("connect to five nodes", (time.perf_counter() - started) * 1e3, "ms")
    node = nodes["n1"]
    verbs: tuple[tuple[str, str, dict[str, Any], int], ...] = (
        ("agent round trip", "ping", {}, PINGS),
        ("exec through the agent", "exec", {"argv": ["true"]}, EXECS),
    )
    for name, verb, args, count in verbs:
        times_us = []
        for _ in range(count):
            started = time.perf_counter()
            await node.call(verb, **args)
            times_us.append((time.perf_counter() - started) * 1e6)
        _row(f"{name}, median", statistics.median(times_us), "us")
        _row(f"{name}, p99", _quantile(times_us, 0.99), "us")
    times_us = []
    for _ in range(50):
        started = time.perf_counter()
        await asyncio.gather(*(n.run(["true"]) for n in nodes.values()))
        times_us.append((time.perf_counter() - started) * 1e6)
    _row("exec on five nodes at once, median", statistics.median(times_us), "us")
    times_us = []
    for turn in range(20):
        started = time.perf_counter()
        await node.arm_lease(f"bench-{turn}", [["true"]], ttl_s=30)
        times_us.append((time.perf_counter() - started) * 1e6)
        await node.release_lease(f"bench-{turn}")
    _row("arm a lease, confirmed, median", statistics.median(times_us), "us")
    times_us = []
    for _ in range(20):
        started = time.perf_counter()
        await node.exec_channel("true")
        times_us.append((time.perf_counter() - started) * 1e6)
    _row("exec over a channel of its own, median", statistics.median(times_us), "us")
    await asyncio.gather(*(n.close() for n in nodes.values()))


def main() -> None:
    """Measure and print; nothing of the lab is left."""
    packages = shared_packages()
    image.ensure(packages, lambda text: _row(text, 0, ""))
    LAB.down(LAB_ID)
    ups_s, downs_s = [], []
    for turn in range(ROUNDS):
        started = time.perf_counter()
        lab = LAB.up(LAB_ID, 5, packages=packages)
        ups_s.append(time.perf_counter() - started)
        if turn == 0:
            asyncio.run(_remote(lab))
        started = time.perf_counter()
        LAB.down(LAB_ID)
        downs_s.append(time.perf_counter() - started)
    _row("lab up, five nodes, cached image, median", statistics.median(ups_s), "s")
    _row("lab down, five nodes, median", statistics.median(downs_s), "s")


if __name__ == "__main__":
    main()
