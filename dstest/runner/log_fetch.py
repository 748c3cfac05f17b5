"""Fetch the system's logs from the nodes, and write down how much of each was kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.errors import DstestError
from dstest.core.log_names import kept_as
from dstest.core.protocols import Deployment, LogFiles
from dstest.core.run_meta import KeptLog, Logs
from dstest.store.layout import RunDir

__all__ = ["LOG_BYTES_MAX", "fetch_logs"]

LOG_BYTES_MAX: Final = 32 << 20
"""Of each log, its end; that one was longer is recorded and counts as missing evidence."""


async def fetch_logs(
    run: RunDir, nodes: Mapping[str, Any], deployment: Deployment | None
) -> Logs | None:
    """Copy each member's logs to `nodes/NODE/NAME`; what became of them, None of a system without
    logs."""
    if not isinstance(deployment, LogFiles):
        return None
    logs = Logs()

    async def fetch(node: Any, path: str, name: str) -> None:
        try:
            stat = await node.call("stat", path=path)
            data = await node.get(path, bytes_max=LOG_BYTES_MAX)
        except DstestError as error:
            logs.lost[name] = error.message
            return
        run.write(f"nodes/{name}", data)
        size = max(int(stat.get("size", 0)), len(data))
        logs.files[name] = KeptLog(bytes=size, kept=len(data))

    wanted = [
        fetch(nodes[member], path, f"{member}/{name}")
        for member, paths in deployment.log_files().items()
        for path, name in kept_as(paths).items()
    ]
    await asyncio.gather(*wanted)
    return logs
