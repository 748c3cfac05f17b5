"""Fabric's corner: people's chores on the nodes of a lab. Never part of a run.

dstest lab exec -- uptime
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from clusters.remote.chores import OUTPUT_BYTES_MAX, Said, Stop, on_each, run_on
from dstest.core.node import NodeInfo
from dstest.core.printable import printable

LOG_BYTES: Final = 64 << 10
COMMAND: Final = "DSTEST_COMMAND"
MEMBER: Final = "/opt/dstest-services/member.json"
MEMBER_BYTES_MAX: Final = 1 << 20


def run_everywhere(
    nodes: Sequence[NodeInfo],
    command: str,
    *,
    timeout_s: float = 60.0,
    bytes_max: int = OUTPUT_BYTES_MAX,
    root: bool = True,
) -> dict[str, Said]:
    """Run a shell command on all nodes at once: node name -> how it went.

    Host keys must be the pinned ones. A command that has not ended after `timeout_s` is killed,
    with all that it has started there, detached or not.
    """

    def one(info: NodeInfo, stop: Stop) -> Said:
        # Not among its words: a `pkill -f` would find and end the shell that runs it.
        argv = ["sh", "-c", f'c=${COMMAND}; unset {COMMAND}; eval "$c"']
        return run_on(
            info,
            argv,
            stop,
            env={COMMAND: command},
            timeout_s=timeout_s,
            bytes_max=bytes_max,
            root=root,
            watched=True,
        )

    return on_each(nodes, one)


def services(nodes: Sequence[NodeInfo], *, timeout_s: float = 20.0) -> dict[str, dict[str, str]]:
    """Node name -> service -> path of its log: what a system that we start has put there.

    Nodes without one, and those that do not answer, have none.
    """

    def one(info: NodeInfo, stop: Stop) -> dict[str, str]:
        argv = ["cat", MEMBER]
        said = run_on(info, argv, stop, timeout_s=timeout_s, bytes_max=MEMBER_BYTES_MAX)
        return _logs_in(said.stdout) if said.ok else {}

    return on_each(nodes, one)


def _logs_in(text: str) -> dict[str, str]:
    try:
        rows = json.loads(text)["services"]
        return {str(row["name"]): str(row["log"]) for row in rows}
    except (ValueError, KeyError, TypeError):
        return {}


def logs(
    nodes: Sequence[NodeInfo],
    paths: Mapping[str, Sequence[str]],
    *,
    bytes_max: int = LOG_BYTES,
    timeout_s: float = 60.0,
) -> dict[str, Said]:
    """The last bytes of these files (node name -> paths), each below its name, node by node."""

    def one(info: NodeInfo, stop: Stop) -> Said:
        wanted = paths.get(info.name, ())
        if not wanted:
            return Said(status=0)
        argv = ["tail", "-v", "-c", str(bytes_max), "--", *wanted]
        room = (bytes_max + 4096) * len(wanted)
        return run_on(info, argv, stop, timeout_s=timeout_s, bytes_max=room)

    return on_each(nodes, one)


def render(results: Mapping[str, Said]) -> str:
    """What each node said, under its name; what would steer a terminal is replaced."""
    parts = []
    for name, said in results.items():
        parts.append(f"== {name}: {_plain(said.error or f'status {said.status}')}\n")
        parts += [
            _plain(text) if text.endswith("\n") else f"{_plain(text)}\n"
            for text in (said.stdout, said.stderr)
            if text
        ]
        if said.cut_bytes:
            parts.append(f"== {name}: {said.cut_bytes} more bytes were left out\n")
    return "".join(parts)


def _plain(text: str) -> str:
    return printable(text.expandtabs())
