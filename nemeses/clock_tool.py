"""`clockshift` on the nodes: compiled here, copied there, asked for one line at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.node import Node
from nemeses.compiled import compiled

__all__ = ["TOOL", "Patch", "build", "command", "shift"]

TOOL: Final = "/opt/dstest/clockshift"
TOOL_TIMEOUT_S: Final = 5.0
GONE: Final = 3

# The code that is copied must stand on its own.
_FLAGS: Final = ("-fno-stack-protector", "-fcf-protection=none", "-fno-pic")


class Patch(msgspec.Struct, frozen=True):
    """What is in force in a process: `hits` counts its readings of a shifted clock."""

    patched: int
    offset_ns: int
    rate_ppm: int
    mono: int
    strobe_ns: int
    hits: int


async def build() -> bytes:
    """The program. Raises FaultRefused where this host cannot make it."""
    return await compiled("clock", ["clockshift.c"], flags=_FLAGS)


def command(pid: int, start_time: int, words: Sequence[str | int]) -> list[str]:
    """The program's argument vector."""
    return [TOOL, str(pid), str(start_time), *map(str, words)]


async def shift(node: Node, pid: int, start_time: int, words: Sequence[str | int]) -> Patch | None:
    """Ask the program; None where that process is gone. Raises LabError where it cannot be done."""
    done = await node.run(command(pid, start_time, words), timeout_s=TOOL_TIMEOUT_S, check=False)
    if done.status == GONE:
        return None
    if done.status != 0:
        raise LabError(f"{node.name}: {done.stderr.strip() or f'status {done.status}'}")
    pairs = (part.split("=", 1) for part in done.stdout.split())
    return msgspec.convert({key: int(value) for key, value in pairs}, Patch)
