"""The clock of a whole node, where it has one of its own: read, stepped, steered, set right again.

The program for it lies in a directory on memory, with what the clock was before anything was done
to it. A restart of the node ends both, and its clock begins with the right time.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.residue import Residue

FOLDER: Final = "/run/dstest-clock"
KEPT: Final = f"{FOLDER}/true.json"
TOOL: Final = f"{FOLDER}/node_clock.py"
ASK_S: Final = 10.0
TICK: Final = 10_000
"""adjtimex's, of a clock that nobody steers."""

_PROGRAM: Final = Path(__file__).parent / "agent_node_clock.py"

BACK: Final = ("python3", "-I", "-S", TOOL, KEPT, "back")
"""Sets the clock right, where something was done to it."""

RESIDUE: Final = Residue(
    name="clock of the node",
    mark=f"what it was lies in {FOLDER}",
    look=f'[ ! -e {KEPT} ] || echo "ours wrong clock"; [ ! -e {FOLDER} ] || echo "ours {FOLDER}"',
    remove=f"[ ! -e {KEPT} ] || {' '.join(BACK)} >/dev/null && rm -rf {FOLDER}",
    rank=10,
)


class Reading(msgspec.Struct, frozen=True):
    """`boot` of the kernel; both clocks at one instant; `true_ns` is how far the wall clock was
    ahead of the raw one before anything was done to it, None where nothing was."""

    boot: str
    real_ns: int
    raw_ns: int
    tick: int
    freq: int
    true_ns: int | None = None

    @property
    def distance_ns(self) -> int:
        """How far the wall clock is ahead of the raw one."""
        return self.real_ns - self.raw_ns

    @property
    def ahead_s(self) -> float | None:
        """By how much what was done has put it wrong."""
        return None if self.true_ns is None else (self.distance_ns - self.true_ns) / 1e9


def control_boot_id() -> str:
    """Of the kernel that we run on."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


async def install(node: Node) -> None:
    """Put the program there."""
    await node.put(TOOL, _PROGRAM.read_bytes())


async def ask(node: Node, verb: str, *words: int) -> Reading:
    """Ask it. Raises LabError where it cannot be done."""
    argv = ["python3", "-I", "-S", TOOL, KEPT, verb, *map(str, words)]
    done = await node.run(argv, timeout_s=ASK_S, check=False)
    if done.status != 0:
        why = (done.stderr.strip().splitlines() or [f"status {done.status}"])[-1]
        raise LabError(f"{node.name}: its clock: {why}")
    return msgspec.convert(json.loads(done.stdout), Reading)


async def remove(node: Node) -> None:
    """The right time, and nothing of ours."""
    await node.run(["sh", "-c", RESIDUE.remove], timeout_s=ASK_S, check=False)
