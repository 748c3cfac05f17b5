"""What a node says of its server process: pid, start time, thread states, freezer, ticks, listener.

Read from /proc and from the socket table of the node itself, independent of what the deployment
believes it has done.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dstest.core.node import Node
from dstest.core.protocols import NemesisContext
from dstest.core.residue import Residue

__all__ = [
    "STOPPED",
    "Sight",
    "frozen_in",
    "listeners",
    "look",
    "look_twice",
    "signal_command",
]

SAMPLE_GAP_S: Final = 0.15
"""Between two samples of a stopped process; a busy one uses several ticks of CPU meanwhile."""

_EACH_STOPPED: Final = """\
grep -ls '^State:.T' /proc/[0-9]*/status | cut -d / -f 3 | while read -r pid; do
"""

STOPPED: Final = Residue(
    name="stopped processes",
    mark="a process is in state T",
    look=f'{_EACH_STOPPED}    echo "ours stopped process $pid ($(cat /proc/$pid/comm))"\ndone\n',
    remove=f"{_EACH_STOPPED}    kill -CONT $pid\ndone\n:\n",
    rank=10,
)

_THREADS_END: Final = "--"

_PID: Final = re.compile(r"pid=(\d+)")
_STATES: Final = """\
cat /proc/$0/task/*/stat 2>/dev/null
echo --
while read -r _ mount type flags _; do
  case $type,$flags, in
    cgroup,*,freezer,*)
      group=$(sed -n 's/^[0-9]*:freezer://p' /proc/$0/cgroup)
      state=$(cat "$mount$group/freezer.state") ;;
    cgroup2,*)
      group=$(sed -n 's/^0:://p' /proc/$0/cgroup)
      grep -q '^frozen 1' "$mount$group/cgroup.events" && state=FROZEN || state=THAWED ;;
    *) continue ;;
  esac
  echo "$state $group"
done </proc/mounts 2>/dev/null
:
"""
"""A line per thread, then one per freezer hierarchy: state and group of process $0."""


_SIGNAL: Final = (
    '[ "$(sed "s/.*) //" /proc/$0/stat 2>/dev/null | cut -d" " -f20)" = "$1" ] || exit 0; '
    "kill -$2 $0"
)


def signal_command(pid: int, start_time: int, name: str) -> list[str]:
    """Sends a process a signal, unless another one, with another start time, has its number."""
    return ["sh", "-c", _SIGNAL, str(pid), str(start_time), name]


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """One look at one process. `stopped`: all its threads are in state T. `frozen`: the control
    group in which it is frozen; empty where it is in none, or is still freezing.
    """

    alive: bool
    stopped: bool = False
    frozen: str = ""
    ticks: int = 0
    listener: int | None = None


def frozen_in(freezers: str) -> str:
    """The first group that reads FROZEN, of lines `STATE GROUP`; empty where none does."""
    for line in freezers.splitlines():
        state, _, group = line.partition(" ")
        if state == "FROZEN":
            return group
    return ""


async def listeners(node: Node, port: int) -> set[int]:
    """Pids that listen at a TCP port."""
    argv = ["ss", "-Hltnp", f"sport = :{port}"]
    found = await node.run(argv, timeout_s=5.0)
    return {int(pid) for pid in _PID.findall(found.stdout)}


async def look(node: Node, pid: int, start_time: int, port: int) -> Sight:
    """The process `pid` that started at `start_time`, and who listens at `port`, right now."""
    info, heard = await asyncio.gather(node.call("procinfo", pid=pid), listeners(node, port))
    listener = pid if pid in heard else min(heard, default=None)
    if not info["alive"] or info["start_time"] != start_time:
        return Sight(alive=False, listener=listener)
    rows = await node.run(["sh", "-c", _STATES, str(pid)], timeout_s=5.0)
    threads, _, freezers = rows.stdout.rpartition(f"{_THREADS_END}\n")
    if not threads:  # it ended between the two questions
        return Sight(alive=False, listener=None if listener == pid else listener)
    states = [line.rpartition(")")[2].split()[0] for line in threads.splitlines()]
    return Sight(
        alive=True,
        stopped=all(state in "Tt" for state in states),
        frozen=frozen_in(freezers),
        ticks=info["utime"] + info["stime"],
        listener=listener,
    )


async def look_twice(
    ctx: NemesisContext, pids: Mapping[str, Any], port: int
) -> dict[str, tuple[Sight, Sight]]:
    """Two looks at each process of `pids` (node -> [pid, start time]), a moment apart."""

    async def both(name: str) -> tuple[Sight, Sight]:
        pid, start_time = pids[name]
        first = await look(ctx.node(name), pid, start_time, port)
        await asyncio.sleep(SAMPLE_GAP_S)
        return first, await look(ctx.node(name), pid, start_time, port)

    found = await asyncio.gather(*map(both, pids))
    return dict(zip(pids, found, strict=True))
