"""Fetch the system's logs from the nodes, and write down how much of each was kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from dstest.core.errors import DstestError
from dstest.core.protocols import Deployment, LogFiles
from dstest.store.layout import RunDir

__all__ = ["LOG_BYTES_MAX", "fetch_logs"]

LOG_BYTES_MAX: Final = 32 << 20
"""Of each log, its end; that one was longer is recorded and counts as missing evidence."""


async def fetch_logs(
    run: RunDir, nodes: Mapping[str, Any], deployment: Deployment | None, facts: dict[str, Any]
) -> None:
    """Copy all logs to `nodes/NODE/NAME`; what became of each goes into `facts["logs"]`.

    `{"files": {"n1/etcd.log": {"bytes": 120, "kept": 120}}, "lost": {"n2/etcd.log": why}}`
    """
    if not isinstance(deployment, LogFiles):
        return
    files: dict[str, dict[str, int]] = {}
    lost: dict[str, str] = {}
    facts["logs"] = {"files": files, "lost": lost}

    async def fetch(node: Any, path: str) -> None:
        name = f"{node.name}/{path.rsplit('/', 1)[-1]}"
        try:
            found = await node.call("stat", path=path)
            data = await node.get(path, bytes_max=LOG_BYTES_MAX)
        except DstestError as error:
            lost[name] = error.message
            return
        run.write(f"nodes/{name}", data)
        files[name] = {"bytes": max(int(found.get("size", 0)), len(data)), "kept": len(data)}

    await asyncio.gather(*(fetch(n, p) for p in deployment.log_files() for n in nodes.values()))
