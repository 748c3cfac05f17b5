"""`clockshift` on the nodes: compiled here, copied there, asked for one line at a time."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.residue import MAY_TOUCH, Residue
from nemeses.tools.compiled import compile_tool

TOOL: Final = "/opt/dstest/clockshift"
TOOL_TIMEOUT_S: Final = 5.0
GONE: Final = 3

# The code that is copied must stand on its own.
_FLAGS: Final = ("-fno-stack-protector", "-fcf-protection=none", "-fno-pic")

_SHIFTED: Final = """\
import glob, os, re
def vdso(pid):
    with open(f"/proc/{pid}/maps") as maps:
        found = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\\[vdso\\]$", maps.read(), re.M)
    if found is None:
        return b""
    start, end = int(found[1], 16), int(found[2], 16)
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(start)
        return memory.read(end - start)
mine = vdso("self")
for path in glob.glob("/proc/[0-9]*"):
    pid = path[6:]
    try:
        other = vdso(pid)
        with open(f"/proc/{pid}/stat") as stat:
            began = stat.read().rpartition(")")[2].split()[19]
    except OSError:
        continue
    if len(other) == len(mine) and other != mine:
        print(pid, began)
"""
"""Prints pid and start time of each process whose vDSO is not that of a fresh one."""

_EACH_SHIFTED: Final = (
    f"{MAY_TOUCH}python3 -I -S -c {shlex.quote(_SHIFTED)} | while read -r pid start; do"
    ' may_touch "$pid" || continue;'
)

RESIDUE: Final = Residue(
    name="clock",
    mark="the vDSO of a process is not what the kernel gives to each",
    look=f'{_EACH_SHIFTED} echo "ours shifted clock of process $pid"; done',
    remove=f'{_EACH_SHIFTED} {TOOL} "$pid" "$start" off; done; :',
    rank=10,
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
    return await compile_tool("clock", ["clockshift.c"], flags=_FLAGS)


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
