"""What faults cost: from the request to the last rule on five nodes, to the last server gone."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from clusters.labs.image import shared_packages
from clusters.labs.lxc import LAB
from clusters.remote import connect_all
from dstest.core.clock import RunClock
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import FaultPlan, NemesisContext
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import Plugins, resolve

__all__ = ["main"]

PARTITIONS = 10
KILLS = 20
LAB_ID = "bench"


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
    main()
