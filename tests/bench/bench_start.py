"""From a cached image to a healthy cluster, by system: five nodes up, then every member serves.

    .venv/bin/python tests/bench/bench_start.py [SYSTEM ..]

What takes longest is the system's own: making its data directory, joining one by one, a vote. The
figure stands beside what etcd takes in the same run.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from clusters.labs import image
from clusters.labs.image import packages_for
from clusters.labs.lxc import LAB
from clusters.remote import connect_all
from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.node import LabInfo
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import Plugins, resolve

__all__ = ["main"]

LAB_ID = "bench"
FIRST = "etcd"


def planned(system: str) -> Plugins:
    """As for a run, of the first workload that its clients can do."""
    for workload in registry.names("workloads"):
        with suppress(ConfigError):
            return resolve(RunSpec(system=system, workload=workload, nemesis="none"), [])
    raise ConfigError(f"{system} can do no workload")


async def healthy_s(plugins: Plugins, lab: LabInfo) -> float:
    """Seconds until each member serves, connections to the nodes included."""
    began = time.perf_counter()
    nodes = await connect_all(lab)
    try:
        members = [nodes[name] for name in plugins.members]
        deployment = plugins.system.deploy(members, plugins.spec.options)
        await deployment.install()
        await deployment.start()
        took_s = time.perf_counter() - began
        await deployment.stop()
    finally:
        for node in nodes.values():
            await node.close()
    return took_s


def measure(system: str) -> tuple[float, float]:
    """Seconds until the nodes are up, and from then on until the cluster is healthy."""
    plugins = planned(system)
    packages = packages_for([plugins.system])
    image.ensure(packages, lambda _: None)
    LAB.down(LAB_ID)
    try:
        began = time.perf_counter()
        lab = LAB.up(LAB_ID, 5, packages=packages)
        up_s = time.perf_counter() - began
        return up_s, asyncio.run(healthy_s(plugins, lab))
    finally:
        LAB.down(LAB_ID)


def main(systems: Sequence[str] = ()) -> None:
    """Print the figures; needs root and the LXC lab."""
    reference: float | None = None
    for system in dict.fromkeys([FIRST, *(systems or registry.names("systems"))]):
        up_s, serving_s = measure(system)
        reference = reference or serving_s
        sys.stdout.write(
            f"  {system:20} nodes up {up_s:5.1f} s, healthy {serving_s:5.1f} s later"
            f" ({serving_s / reference:.1f} of {FIRST})\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
