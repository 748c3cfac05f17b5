"""Facts of a run that are neither operations nor faults: host, versions, clocks."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import dstest
from dstest.core import clock
from dstest.core.history import ClockSource
from dstest.core.run_meta import Host

__all__ = ["clock_source", "cpu_s", "host_of", "node_clocks", "wall_minus_mono_ns"]

PING_TIMEOUT_S: Final = 5.0

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


async def node_clocks(nodes: Mapping[str, Any]) -> dict[str, int]:
    """Wall minus monotonic clock of each node that answers, in nanoseconds."""

    async def ask(node: Any) -> int:
        message = await node.call("ping", timeout_s=PING_TIMEOUT_S)
        return int(message["wall_ns"]) - int(message["monotonic_ns"])

    offsets = await asyncio.gather(*map(ask, nodes.values()), return_exceptions=True)
    return {
        name: offset for name, offset in zip(nodes, offsets, strict=True) if isinstance(offset, int)
    }
