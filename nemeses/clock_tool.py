"""`clockshift` on the nodes: compiled here, copied there, asked for one line at a time."""

from __future__ import annotations

import asyncio
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import FaultRefused, LabError
from dstest.core.node import Node

__all__ = ["TOOL", "Patch", "build", "command", "shift"]

TOOL: Final = "/opt/dstest/clockshift"
SOURCE: Final = Path(__file__).parent / "csrc" / "clockshift.c"
COMPILE_TIMEOUT_S: Final = 60.0
TOOL_TIMEOUT_S: Final = 5.0
GONE: Final = 3

_FLAGS: Final = (
    *("-O2", "-std=gnu11", "-Wall", "-Wextra", "-static", "-s"),
    # The code that is copied must stand on its own.
    *("-fno-stack-protector", "-fcf-protection=none", "-fno-pic"),
)


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
    if platform.machine() != "x86_64":
        raise FaultRefused(f"clock: processes can be patched on x86-64, not {platform.machine()}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "clockshift"
        try:
            compiler = await asyncio.create_subprocess_exec(
                *("cc", *_FLAGS, "-o", str(out), str(SOURCE)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError:
            raise FaultRefused("clock: no C compiler", remedy="apt-get install gcc") from None
        try:
            async with asyncio.timeout(COMPILE_TIMEOUT_S):
                said, _ = await compiler.communicate()
        except TimeoutError:
            compiler.kill()
            raise LabError("clock: the compiler did not end") from None
        if compiler.returncode != 0:
            text = said.decode("utf-8", "replace").strip()[-300:]
            raise FaultRefused(
                f"clock: {SOURCE.name} does not compile: {text}",
                remedy="apt-get install gcc libc6-dev",
            )
        return out.read_bytes()


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
