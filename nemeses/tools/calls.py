"""Which system calls on files the threads of a server are inside, sampled on its node.

For servers that do not measure their own calls. A call that uses no descriptor of a file below the
folder (io_uring, msync) is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import RemoteTimeout
from dstest.core.node import Node

SYNCS: Final = (74, 75, 277)
"""fsync, fdatasync, sync_file_range on x86-64."""

WRITES: Final = (1, 18, 20, 77, 285, 296, 328)
"""write, pwrite64, writev, ftruncate, fallocate, pwritev, pwritev2 on x86-64."""

GAP_S: Final = 0.01
SLACK_S: Final = 5.0
_PROGRAM: Final = Path(__file__).parent / "agent_calls.py"


class Samples(msgspec.Struct, frozen=True):
    """`taken` samples in `ns`; in `busy` of them a thread was inside, `threads` in all. `syncs`:
    what the file system counted meanwhile."""

    taken: int = 0
    busy: int = 0
    threads: int = 0
    ns: int = 0
    syncs: int = 0

    @property
    def share(self) -> float:
        """Of the samples, those with a thread inside."""
        return self.busy / self.taken if self.taken else 0.0

    @property
    def inside_s(self) -> float:
        """For how long threads were inside, summed over them."""
        return self.threads / self.taken * self.ns / 1e9 if self.taken else 0.0


async def sample(
    node: Node,
    pids: Sequence[int],
    folder: str,
    calls: Sequence[int],
    seconds: float,
    *,
    synced: Sequence[int] = (),
    control_socket: str = "",
) -> Samples:
    """Look for `seconds`; none are taken where the node cannot, or is too busy to. The calls in
    `synced` count on files that are open with O_SYNC or O_DSYNC.

    With the control socket of a file system of ours, its syncs are counted by the same program: a
    busy machine may start that much later than it is asked to.
    """
    argv = ["python3", "-I", "-S", "-", str(seconds), str(GAP_S), folder]
    argv += [",".join(map(str, calls)), ",".join(map(str, synced)), control_socket]
    argv += map(str, pids)
    program = _PROGRAM.read_text(encoding="utf-8")
    try:
        done = await node.run(argv, timeout_s=seconds + SLACK_S, stdin=program, check=False)
    except RemoteTimeout:
        return Samples()
    if done.status != 0:
        return Samples()
    pairs = (part.split("=") for part in done.stdout.split())
    return Samples(**{name: int(value) for name, value in pairs})
