"""Fetch the system's logs, settings and core files from the nodes, and write down what was kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dstest.core.errors import DstestError
from dstest.core.log_names import kept_as
from dstest.core.protocols import Deployment, LogFiles
from dstest.core.run_meta import KeptLog, Logs
from dstest.store.layout import RunDir

__all__ = ["CORE_BYTES_MAX", "LOG_BYTES_MAX", "fetch_logs", "fetch_settings_and_cores"]

LOG_BYTES_MAX: Final = 32 << 20
"""Of each log, half of it its beginning and half its end: what a server says first is what all
else follows from. That one was longer is recorded and counts as missing evidence."""

SETTINGS_BYTES_MAX: Final = 1 << 20

CORE_BYTES_MAX: Final = 64 << 20
"""A part of a core file is of no use: one that is larger stays on its node, with the node."""

CORES_MAX: Final = 1
"""Of each node, the first by name; the others are likely to be of the same crash."""


async def fetch_logs(
    run: RunDir, nodes: Mapping[str, Any], deployment: Deployment | None
) -> Logs | None:
    """Copy each member's logs to `nodes/NODE/NAME`; what became of them, None of a system without
    logs."""
    if not isinstance(deployment, LogFiles):
        return None
    wanted = [
        (member, path, f"{member}/{name}")
        for member, paths in deployment.log_files().items()
        for path, name in kept_as(paths).items()
    ]
    return await _fetch(run, nodes, wanted, LOG_BYTES_MAX, whole=False)


async def fetch_settings_and_cores(
    run: RunDir,
    nodes: Mapping[str, Any],
    deployment: Deployment,
    cores: Mapping[str, Iterable[str]],
) -> Logs:
    """Copy the files that servers were started with to `nodes/NODE/config.d/`, and core files to
    `nodes/NODE/core.d/`; what became of them."""
    settings = {
        name: [path for service in member.services for path in service.files]
        for name, member in deployment.members.items()
    }
    found = await _fetch(run, nodes, _below("config.d", settings), SETTINGS_BYTES_MAX, whole=True)
    wanted = {name: sorted(paths)[:CORES_MAX] for name, paths in cores.items()}
    dumped = await _fetch(run, nodes, _below("core.d", wanted), CORE_BYTES_MAX, whole=True)
    return Logs(files={**found.files, **dumped.files}, lost={**found.lost, **dumped.lost})


def _below(folder: str, paths_of: Mapping[str, Iterable[str]]) -> list[tuple[str, str, str]]:
    return [
        (node, path, f"{node}/{folder}/{name}")
        for node, paths in paths_of.items()
        for path, name in kept_as(paths).items()
    ]


async def _fetch(
    run: RunDir,
    nodes: Mapping[str, Any],
    wanted: Iterable[tuple[str, str, str]],
    bytes_max: int,
    *,
    whole: bool,
) -> Logs:
    """Copy files, given as (node, path, name); of one that is longer its beginning and its end, or
    nothing where only the `whole` of it is of use."""
    kept = Logs()

    async def fetch(node: Any, path: str, name: str) -> None:
        try:
            size = int((await node.call("stat", path=path)).get("size", 0))
            if whole and size > bytes_max:
                kept.lost[name] = f"{path} has {size:,} bytes; at most {bytes_max:,} are fetched"
                return
            if size > bytes_max:
                data, hole_at = await _ends(node, path, bytes_max)
                run.write(f"nodes/{name}", data)
                kept.files[name] = KeptLog(bytes=size, kept=len(data), hole_at=hole_at)
                return
            data = await node.get(path, bytes_max=bytes_max + whole)
            if whole and len(data) > bytes_max:
                kept.lost[name] = f"{path} grew while it was fetched"
                return
        except DstestError as error:
            kept.lost[name] = error.message
            return
        run.write(f"nodes/{name}", data)
        kept.files[name] = KeptLog(bytes=max(size, len(data)), kept=len(data))

    await asyncio.gather(*(fetch(nodes[node], path, name) for node, path, name in wanted))
    return kept


async def _ends(node: Any, path: str, bytes_max: int) -> tuple[bytes, int]:
    """Whole lines of the beginning and of the end of a file, and how many bytes the first are."""
    half = bytes_max // 2
    head = await node.get(path, bytes_max=half, from_start=True)
    head = head[: head.rfind(b"\n") + 1]
    tail = await node.get(path, bytes_max=half)
    return head + tail[tail.find(b"\n") + 1 :], len(head)
