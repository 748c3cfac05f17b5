"""Does what nobody synced survive when a node goes down? Seen, not taken from what a lab is.

Two files beside the data, one synced and one not, are written right before. A machine whose power
was cut has the first and not the second; where the kernel lived on, both are there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Final

from dstest.core.errors import LabError
from dstest.core.evidence import PageCache
from dstest.core.node import Node
from dstest.core.protocols import LogFiles, NemesisContext

FOLDER: Final = "/opt/dstest/unsynced"
"""On the disk that the data is on, where that is below /opt; `lay` looks."""

_LAY: Final = (
    'mkdir -p "$0" && [ "$(stat -c %d "$0")" = "$(stat -c %d "$2")" ] || exit 1; '
    'printf %s "$1" >"$0/synced" && sync "$0/synced" "$0" && printf %s "$1" >"$0/unsynced"'
)
_LEFT: Final = (
    'for f in synced unsynced; do echo "$f=$(cat "$0/$f" 2>/dev/null)"; done; rm -rf "$0"'
)
_KEEP: Final = 'for f in "$@"; do [ ! -f "$f" ] || sync "$f" || exit 1; done'


async def keep_logs(ctx: NemesisContext, names: Sequence[str]) -> None:
    """Sync the logs, and nothing else that a server writes: what they said is evidence."""
    logs = ctx.offered(LogFiles)
    paths = {} if logs is None else logs.log_files()

    async def one(name: str) -> None:
        with contextlib.suppress(LabError):
            argv = ["sh", "-c", _KEEP, "sh", *paths.get(name, ())]
            await ctx.node(name).run(argv, timeout_s=5.0, check=False)

    await asyncio.gather(*map(one, names))


async def lay(node: Node, token: str, data: str) -> bool:
    """Write both; False where that fails, or where the data directory is on another disk."""
    try:
        argv = ["sh", "-c", _LAY, FOLDER, token, data]
        return (await node.run(argv, timeout_s=5.0, check=False)).status == 0
    except LabError:
        return False


async def left(node: Node, token: str) -> dict[str, bool]:
    """Which of the two are there, whole; both are removed."""
    found = await node.run(["sh", "-c", _LEFT, FOLDER], timeout_s=5.0)
    rows = dict(line.partition("=")[::2] for line in found.stdout.splitlines())
    return {name: rows.get(name) == token for name in ("synced", "unsynced")}


def what_became(rows: Mapping[str, Mapping[str, bool]]) -> PageCache:
    """Of unsynced writes on these nodes: `lost` where it was on all of them, and the synced ones
    were not; empty where nobody can tell."""
    if not rows or not all(row["synced"] for row in rows.values()):
        return ""
    return "kept" if any(row["unsynced"] for row in rows.values()) else "lost"
