"""Facts of a run that are neither operations nor faults: host, versions, clocks."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, NamedTuple

import dstest
from dstest.core import clock
from dstest.core.history import ClockSource
from dstest.core.run_record import Host

PING_TIMEOUT_S: Final = 5.0
PINGS: Final = 5
"""The one that was answered soonest tells the time best."""

_LIBRARIES: Final = ("asyncssh", "msgspec", "numpy")


def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.is_file() else ""


def clock_source() -> ClockSource:
    """The clock that stamps the history."""
    return ClockSource(
        name="CLOCK_MONOTONIC", resolution_ns=1, boot_id=_boot_id(), host=platform.node()
    )


def wall_minus_mono_ns() -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC; constant unless somebody sets the clock."""
    return clock.wall_ns() - clock.monotonic_ns()


def cpu_s() -> dict[str, float]:
    """CPU seconds of this process and of its ended children (the load workers)."""
    ours = resource.getrusage(resource.RUSAGE_SELF)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "control": round(ours.ru_utime + ours.ru_stime, 3),
        "children": round(workers.ru_utime + workers.ru_stime, 3),
    }


def host_of(packages: Sequence[str]) -> Host:
    """Versions and the host, for `run.json`; `packages` are those of the system's clients."""
    libraries = {}
    for name in sorted({*_LIBRARIES, *packages}):
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            libraries[name] = "missing"
    return Host(
        dstest=dstest.__version__,
        python=platform.python_version(),
        kernel=platform.release(),
        cpus=os.cpu_count(),
        libraries=libraries,
    )


class NodeClock(NamedTuple):
    """A node's wall clock minus its own monotonic clock, and minus ours; `boot` is that of its
    kernel. `doubt_ns` is how far off the second may be: half of the way there and back."""

    boot: str
    own_ns: int
    ours_ns: int
    doubt_ns: int = 0


async def node_clocks(nodes: Mapping[str, Any]) -> dict[str, NodeClock]:
    """The clocks of each node that answers."""

    async def ask(node: Any) -> NodeClock:
        boot = (await node.call("marker", timeout_s=PING_TIMEOUT_S))["boot_id"]
        rows = []
        for _ in range(PINGS):
            asked_ns = clock.monotonic_ns()
            found = await node.call("ping", timeout_s=PING_TIMEOUT_S)
            took_ns = clock.monotonic_ns() - asked_ns
            wall_ns = int(found["wall_ns"])
            own_ns = wall_ns - int(found["monotonic_ns"])
            ours_ns = wall_ns - asked_ns - took_ns // 2
            rows.append((took_ns, NodeClock(boot, own_ns, ours_ns, took_ns // 2)))
        return min(rows)[1]

    found = await asyncio.gather(*map(ask, nodes.values()), return_exceptions=True)
    return {name: one for name, one in zip(nodes, found, strict=True) if isinstance(one, NodeClock)}


def offsets(clocks: Mapping[str, NodeClock]) -> dict[str, tuple[int, int]]:
    """A node's wall clock minus our monotonic one, with the doubt of it."""
    return {name: (one.ours_ns, one.doubt_ns) for name, one in clocks.items()}


def compared(
    start: Mapping[str, NodeClock], end: Mapping[str, NodeClock]
) -> dict[str, tuple[int, int]]:
    """A node's wall clock against a monotonic one, at the start and at the end of a run.

    Its own one is the better measure, but begins anew with its kernel, and goes wrong where
    somebody steers the clock of that kernel. A clock that was set moves against both.
    """
    found = {}
    for name, after in end.items():
        before = start.get(name)
        if before is None:
            continue
        own, ours = (before.own_ns, after.own_ns), (before.ours_ns, after.ours_ns)
        nearer = abs(own[1] - own[0]) <= abs(ours[1] - ours[0])
        found[name] = own if before.boot == after.boot and nearer else ours
    return found
