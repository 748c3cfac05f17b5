"""The load with everything recorded against a bare client, as a ratio within one run.

A bare client is the same calls of the same library in as many processes and tasks, with a timeout
as the library offers one, and without generator, recorder, counters or time stamps. Its event loop
is Python's own, as users have it; a load worker's is that of uvloop. Both load one cluster in turn,
in pairs whose order alternates, and each pair gives a ratio: what changes on the host from minute
to minute is in both.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clusters.labs.image import packages_for
from clusters.labs.lxc import LAB
from clusters.remote import connect_all
from clusters.supervise.resp import connection
from clusters.systems.etcd.clients.connection import Stub
from clusters.systems.etcd.wire import message
from dstest.core import registry
from dstest.core.protocols import Endpoint
from dstest.core.run_record import RunSpec
from dstest.history.layout import RunDir
from dstest.runner.load import Load
from dstest.runner.plugins import Plugins, resolve

__all__ = ["main"]

PAIRS = 7
LOAD_S = 5.0
CONCURRENCY = 50
LAB_ID = "bench"
WAIT_S = 5.0


def _key(task: int, n: int) -> str:
    return f"bare-{task}-{n // 120}"


async def _etcd(task: int, address: str, barrier: Any) -> int:
    stub = Stub(address)
    await asyncio.wait_for(stub.channel.channel_ready(), WAIT_S)
    draw, n = random.Random(task), 0
    end = await barrier() + LOAD_S
    while time.monotonic() < end:
        key = _key(task, n).encode()
        n += 1
        if draw.random() < 0.5:
            await stub.put(message("PutRequest")(key=key, value=b"%d" % n), timeout=WAIT_S)
        else:
            await stub.range(message("RangeRequest")(key=key), timeout=WAIT_S)
    await stub.close()
    return n


async def _redis(task: int, address: str, barrier: Any) -> int:
    link = connection(address, 6379, WAIT_S, answer_s=WAIT_S)
    await link.ping()
    draw, n = random.Random(task), 0
    end = await barrier() + LOAD_S
    while time.monotonic() < end:
        key = _key(task, n)
        n += 1
        if draw.random() < 0.5:
            await link.execute_command("SET", key, str(n))
        else:
            await link.execute_command("GET", key)
    await link.aclose()
    return n


async def _memcached(task: int, address: str, barrier: Any) -> int:
    reader, writer = await asyncio.open_connection(address, 11211)
    draw, n = random.Random(task), 0
    end = await barrier() + LOAD_S
    while time.monotonic() < end:
        key = _key(task, n).encode()
        n += 1
        async with asyncio.timeout(WAIT_S):
            if draw.random() < 0.5:
                writer.write(b"set %b 0 0 1\r\n1\r\n" % key)
                await reader.readuntil(b"STORED\r\n")
            else:
                writer.write(b"gets %b\r\n" % key)
                await reader.readuntil(b"END\r\n")
    writer.close()
    return n


async def _tasks(act: Callable[..., Any], addresses: list[str], tasks: int) -> int:
    """All tasks connect, then all begin."""
    waiting, begun = [tasks], asyncio.Event()

    async def barrier() -> float:
        waiting[0] -= 1
        if not waiting[0]:
            await asyncio.to_thread(_told_to_begin)
            begun.set()
        await begun.wait()
        return time.monotonic()

    each = [act(i, addresses[i % len(addresses)], barrier) for i in range(tasks)]
    return sum(await asyncio.gather(*each))


def _told_to_begin() -> None:
    """All connections stand; wait for the word, so that all processes begin at one time."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()


SYSTEMS: dict[str, Callable[..., Any]] = {
    "etcd": _etcd,
    "redis-sentinel": _redis,
    "memcached": _memcached,
}
PRIMARY_ALONE = ("redis-sentinel",)
"""Their first node takes all writes."""


def bare(system: str, addresses: Sequence[str], processes: int) -> float:
    """Operations per second of the bare client."""
    words = [system, json.dumps(addresses), str(CONCURRENCY // processes)]
    argv = [sys.executable, __file__, "bare", *words]
    both = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(argv, **both) for _ in range(processes)]  # type: ignore[call-overload]
    for child in children:
        child.stdout.readline()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    return sum(int(c.communicate(timeout=60)[0]) for c in children) / LOAD_S


async def ours(plugins: Plugins, endpoints: Sequence[Endpoint], folder: Path) -> tuple[float, int]:
    """Operations per second of the load plane, and how many processes it had."""
    load = Load(plugins, endpoints, RunDir.create(folder, "bench", 1))
    await load.start()
    clock = load.begin()
    await clock.until(int(LOAD_S * 1e9))
    done = load.traffic.total()["ok"]
    await load.stop()
    load.close()
    return done / LOAD_S, load.workers


async def _measure(system: str, say: Callable[[str], None]) -> None:
    wanted = RunSpec(
        system=system, workload="register", concurrency=CONCURRENCY, time_limit_s=60.0, seed=1
    )
    plugins = resolve(wanted, [], nemesis=registry.load("nemeses", "none"))
    lab = LAB.up(LAB_ID, 5, packages=packages_for([plugins.system]))
    nodes = await connect_all(lab)
    deployment = plugins.system.deploy(list(nodes.values()), plugins.spec.options)
    await deployment.start()
    addresses = [node.address for node in lab.nodes]
    if system in PRIMARY_ALONE:
        addresses = addresses[:1]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        _, processes = await ours(plugins, deployment.endpoints(), Path(folder))
        for turn in range(PAIRS):
            pair = {}
            for which in ("ours", "bare") if turn % 2 else ("bare", "ours"):
                if which == "bare":
                    pair[which] = await asyncio.to_thread(bare, system, addresses, processes)
                else:
                    found = await ours(plugins, deployment.endpoints(), Path(folder))
                    pair[which] = found[0]
            rows.append(pair)
    ratios = sorted(row["ours"] / row["bare"] for row in rows)
    say(
        f"{system}: {statistics.median(r['ours'] for r in rows):,.0f}/s with everything recorded,"
        f" {statistics.median(r['bare'] for r in rows):,.0f}/s bare client, ratio"
        f" {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}; target 0.90)"
    )
    await deployment.stop()
    for node in nodes.values():
        await node.close()


def main() -> None:
    """Print the figures; needs root and the LXC lab."""

    def say(text: str) -> None:
        sys.stdout.write(f"  {text}\n")
        sys.stdout.flush()

    for system in SYSTEMS:
        try:
            asyncio.run(_measure(system, say))
        finally:
            LAB.down(LAB_ID)


def _bare_process(system: str, addresses: str, tasks: str) -> int:
    return asyncio.run(_tasks(SYSTEMS[system], json.loads(addresses), int(tasks)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["bare"]:
        sys.stdout.write(str(_bare_process(*sys.argv[2:])))
    else:
        main()
