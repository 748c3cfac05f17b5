"""The run's own costs, as ratios within one run: load against a bare client, faults, agent.

A bare client is the same gRPC calls in the same number of processes and tasks, without generator,
recorder, counters or time stamps. Both load the same cluster in turn, several times.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clusters.labs.lxc import LAB
from clusters.labs.packages import shared_packages
from clusters.remote import connect_all
from clusters.systems.etcd.clients.stub import Stub
from clusters.systems.etcd.wire import message
from dstest.core.clock import RunClock
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import Endpoint, FaultPlan, NemesisContext
from dstest.core.spec import RunSpec
from dstest.runner.load import Load
from dstest.runner.plugins import Plugins, resolve
from dstest.store.layout import RunDir

__all__ = ["main"]

ROUNDS = 3
LOAD_S = 8.0
PARTITIONS = 10
KILLS = 5
LAB_ID = "bench"


async def _bare_process(addresses: list[str], tasks: int, seconds: float) -> int:
    """Closed loop of reads and writes over gRPC; returns how many ended well."""
    stubs = [Stub(addresses[i % len(addresses)]) for i in range(tasks)]
    for stub in stubs:
        await asyncio.wait_for(stub.channel.channel_ready(), 10)
    end, done = time.monotonic() + seconds, 0

    async def loop(i: int) -> None:
        nonlocal done
        draw, n = random.Random(i), 0
        while time.monotonic() < end:
            key = f"/bare/{i}-{n // 120}".encode()
            n += 1
            if draw.random() < 0.5:
                await stubs[i].put(message("PutRequest")(key=key, value=b"%d" % n), timeout=5)
            else:
                await stubs[i].range(message("RangeRequest")(key=key), timeout=5)
            done += 1

    await asyncio.gather(*map(loop, range(tasks)))
    for stub in stubs:
        await stub.close()
    return done


def bare(lab: LabInfo, processes: int, concurrency: int) -> float:
    """Operations per second of the bare client."""
    addresses = json.dumps([n.address for n in lab.nodes])
    argv = [sys.executable, __file__, "bare", addresses, str(concurrency // processes), str(LOAD_S)]
    children = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(processes)]
    return sum(int(c.communicate(timeout=60)[0]) for c in children) / LOAD_S


async def ours(plugins: Plugins, lab: LabInfo, folder: Path) -> tuple[float, dict[str, int]]:
    """Operations per second of the load plane, and its own figures."""
    endpoints = [Endpoint(node=n.name, address=n.address, port=2379) for n in lab.nodes]
    load = Load(plugins, endpoints, RunDir.create(folder, "bench", 1))
    await load.start()
    clock = load.begin()
    await clock.until(int(LOAD_S * 1e9))
    done = load.traffic.total()["ok"]
    await load.stop()
    figures = load.figures()
    load.close()
    return done / LOAD_S, figures


class _Epochs:
    """No workers to tell."""

    def __init__(self, clock: RunClock) -> None:
        self._clock = clock

    opened: LandingRecord | None = None

    async def open(self, record: LandingRecord) -> LandingRecord:
        import msgspec

        return msgspec.structs.replace(record, injected_at=self._clock.now_ns())

    async def close(self, record: LandingRecord) -> LandingRecord:
        import msgspec

        return msgspec.structs.replace(record, healed_at=self._clock.now_ns())


class _Traffic:
    def by_node(self) -> dict[str, dict[str, int]]:
        return {}


async def partitions(
    plugins: Plugins, lab: LabInfo, nodes: dict[str, Any], etcd: Any
) -> list[float]:
    """Milliseconds from the request to the last rule on five nodes, per partition."""
    clock = RunClock(time.monotonic_ns())
    context = NemesisContext(
        nodes=nodes,
        lab=lab,
        deployment=etcd,
        clock=clock,
        traffic=_Traffic(),
        epochs=_Epochs(clock),
    )
    nemesis = plugins.nemesis
    await nemesis.setup(context)
    taken = []
    for index in range(PARTITIONS):
        facts = {
            "shape": "majorities-ring",
            "direction": "both",
            "action": "drop",
            "clients": False,
            "targets": [],
            "seed": index,
        }
        plan = FaultPlan(
            fault_id=f"b{index}", nemesis="partition", start_ns=0, duration_ns=0, facts=facts
        )
        record = await nemesis.inject(context, plan)
        taken.append(record.facts["requested_to_applied_ms"])
        await nemesis.heal(context, record)
    await nemesis.teardown(context)
    return taken


async def _signalled(etcd: Any, names: list[str]) -> dict[str, list[float]]:
    """Milliseconds from the request until all servers are gone, and until all are stopped."""
    taken: dict[str, list[float]] = {"kill": [], "pause": []}
    for _ in range(KILLS):
        started = time.perf_counter()
        await etcd.pause(names)
        taken["pause"].append((time.perf_counter() - started) * 1e3)
        await etcd.resume(names)
        started = time.perf_counter()
        await etcd.kill(names)
        taken["kill"].append((time.perf_counter() - started) * 1e3)
        await etcd.restart(names)
    return taken


async def _all(lab: LabInfo, say: Callable[[str], None]) -> None:
    plugins = resolve(RunSpec(concurrency=50, time_limit_s=60.0, seed=1), [])
    nodes = await connect_all(lab)
    etcd = plugins.system.deploy(list(nodes.values()), plugins.spec.options)
    await etcd.start()
    taken = await partitions(plugins, lab, nodes, etcd)
    say(
        f"partition requested -> last rule on five nodes: median {statistics.median(taken):.1f} ms,"
        f" worst {max(taken):.1f} ms of {len(taken)} (target 100 ms)"
    )
    for name, times_ms in (await _signalled(etcd, list(nodes))).items():
        done = "gone" if name == "kill" else "stopped"
        say(
            f"{name} requested -> five servers {done}: median {statistics.median(times_ms):.1f} ms,"
            f" worst {max(times_ms):.1f} ms of {len(times_ms)} (target 50 ms)"
        )
    with tempfile.TemporaryDirectory() as folder:
        rates, bares, cpu = [], [], []
        for _ in range(ROUNDS):
            rate, figures = await ours(plugins, lab, Path(folder))
            rates.append(rate)
            cpu.append(figures["cpu_ms"] / 1000 / LOAD_S)
            bares.append(await asyncio.to_thread(bare, lab, 2, 50))
    ratio = statistics.median(rates) / statistics.median(bares)
    say(
        f"operations: {statistics.median(rates):.0f}/s with everything recorded,"
        f" {statistics.median(bares):.0f}/s bare client, ratio {ratio:.2f} (target 0.90)"
    )
    say(f"harness CPU: {statistics.median(cpu):.2f} cores of load workers")
    await etcd.stop()
    for node in nodes.values():
        await node.close()


def main() -> None:
    """Print the figures; needs root and the LXC lab."""

    def say(text: str) -> None:
        sys.stdout.write(f"  {text}\n")
        sys.stdout.flush()

    lab = LAB.up(LAB_ID, 5, packages=shared_packages())
    try:
        asyncio.run(_all(lab, say))
    finally:
        LAB.down(LAB_ID)


if __name__ == "__main__":
    if sys.argv[1:2] == ["bare"]:
        addresses, tasks, seconds = json.loads(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
        sys.stdout.write(str(asyncio.run(_bare_process(addresses, tasks, seconds))))
    else:
        main()
