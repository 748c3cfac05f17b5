"""What a node says of server processes: which are there, thread states, freezer, ticks, listeners.

Read from /proc and from the socket table of the node itself, independent of what the deployment
believes it has done. A server is all processes of its services: what a fault does has to show on
each of them, and on those that they have forked since.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from dstest.core.evidence import LandingRecord, ProcessDetails
from dstest.core.node import Node
from dstest.core.protocols import NemesisContext, Probe, Process, Processes
from dstest.core.residue import MAY_TOUCH, Residue
from nemeses.observe.servers import services_of

SAMPLE_GAP_S: Final = 0.15
"""Between two samples of a stopped process; a busy one uses several ticks of CPU meanwhile."""

_EACH_STOPPED: Final = f"""\
{MAY_TOUCH}grep -ls '^State:.T' /proc/[0-9]*/status | cut -d / -f 3 | while read -r pid; do
    may_touch "$pid" || continue
"""

STOPPED: Final = Residue(
    name="stopped processes",
    mark="a process is in state T",
    look=f'{_EACH_STOPPED}    echo "ours stopped process $pid ($(cat /proc/$pid/comm))"\ndone\n',
    remove=f"{_EACH_STOPPED}    kill -CONT $pid\ndone\n:\n",
    rank=10,
)

_PID: Final = re.compile(r"pid=(\d+)")

_SIGNAL: Final = (
    "while [ $# -gt 2 ]; do "
    '[ "$(sed "s/.*) //" /proc/$2/stat 2>/dev/null | cut -d" " -f20)" = "$3" ] && kill -$1 $2; '
    "number=$1; shift 3; set -- $number $@; done; :"
)


def signal_command(processes: Sequence[Process], name: str) -> list[str]:
    """Sends processes a signal, those that are still the ones that started at their time."""
    rows = [str(word) for p in processes for word in (p.pid, p.start_time)]
    return ["sh", "-c", _SIGNAL, "sh", name, *rows]


_DYING: Final = """\
for pid; do
    while [ -e /proc/$pid ] && ! grep -Eqs '^State:.[ZX]|^S.+Pnd:.*[13579bdf]..$' /proc/$pid/status
    do sleep 0.01; done
done
"""


async def dying(node: Node, processes: Sequence[Process]) -> None:
    """Returns when these have been given SIGKILL, or are gone: one whose thread waits for a disk is
    not gone yet, but runs no more. LabError where that does not come."""
    pids = [str(process.pid) for process in processes]
    await node.run(["sh", "-c", _DYING, "sh", *pids], timeout_s=5.0)


class ProcessSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of a member as they are at one time.

    `left` are pids of those asked for that are still there, `lost` main ones that are not, `more`
    what there is besides. `stopped`: all threads of all of them are in state T. `frozen`: the
    control groups in which all of them stand still, empty where one does not. `standing` are pids
    of which all threads are stopped, or that are frozen, be it one of many. `listening` are pids
    that listen at the ports of their services.
    """

    left: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    more: tuple[int, ...] = ()
    stopped: bool = False
    frozen: str = ""
    standing: tuple[int, ...] = ()
    ticks: int = 0
    listening: frozenset[int] = frozenset()

    @property
    def alive(self) -> bool:
        """Is any of the processes asked for still there?"""
        return bool(self.left)

    @property
    def whole(self) -> bool:
        """Do they run, all main ones, and none stands still?"""
        return self.alive and not (self.lost or self.standing)

    @property
    def listener(self) -> int | None:
        """Who listens; one of those asked for where there is one."""
        own = self.listening & {*self.left}
        return min(own or self.listening, default=None)

    @property
    def serves(self) -> bool:
        """Do they listen, and nobody else?"""
        return bool(self.listening) and self.listening <= {*self.left, *self.more}


def processes_before(record: LandingRecord, name: str) -> list[Process]:
    """The processes of a member when its fault began, of the services that it is about."""
    return [Process(*row) for row in ProcessDetails.of(record).processes.get(name, ())]


def mains(processes: Mapping[str, Sequence[Process]]) -> dict[str, list[int]]:
    """Pid and start time of each member's first main process."""
    found = {}
    for name, rows in processes.items():
        first = next((p for p in rows if p.main), None)
        if first is not None:
            found[name] = [first.pid, first.start_time]
    return found


def replacements(
    record: LandingRecord, now: Mapping[str, Sequence[Process]], names: Collection[str]
) -> list[str]:
    """Those of these members of which a service's main process is not the one before the fault."""

    def main_ones(rows: Sequence[Process], among: Collection[str]) -> set[tuple[str, int, int]]:
        return {(p.service, p.pid, p.start_time) for p in rows if p.main and p.service in among}

    found = []
    for name in names:
        before = processes_before(record, name)
        about = {p.service for p in before}
        if main_ones(before, about) != main_ones(now.get(name, ()), about):
            found.append(name)
    return found


async def running(ctx: NemesisContext, service: str = "") -> dict[str, list[Process]]:
    """The processes of each member right now, of one service where that is given."""
    found = await ctx.need(Processes).processes()
    chosen = {
        name: [p for p in rows if not service or p.service == service]
        for name, rows in found.items()
        if name in ctx.nodes
    }
    return {name: rows for name, rows in chosen.items() if rows}


def probes_of(ctx: NemesisContext, name: str, service: str = "") -> tuple[Probe, ...]:
    """How the services of a member are probed."""
    return tuple(s.probe for s in services_of(ctx, name, service))


async def listeners(node: Node, probes: Collection[Probe]) -> frozenset[int]:
    """Pids that listen where any of these asks."""
    wanted = " or ".join(f"sport = :{port}" for port in sorted({p.port for p in probes}))
    found = await node.run(["ss", "-Hltnp", f"( {wanted} )"], timeout_s=5.0)
    return frozenset(
        int(pid)
        for line in found.stdout.splitlines()
        if any(probe.asks_at(line.split()[3]) for probe in probes)
        for pid in _PID.findall(line)
    )


async def take_snapshot(
    node: Node, was: Sequence[Process], now: Sequence[Process], probes: Collection[Probe]
) -> ProcessSnapshot:
    """The processes `was`, those that there are besides by now, and who listens."""
    known = {(p.pid, p.start_time) for p in was}
    more = [p for p in now if (p.pid, p.start_time) not in known]
    idents = [[p.pid, p.start_time] for p in (*was, *more)]
    rows, heard = await asyncio.gather(
        node.call("processes", idents=idents), listeners(node, probes)
    )
    there = [(p, row) for p, row in zip((*was, *more), rows, strict=True) if row["alive"]]
    left = tuple(p.pid for p, _ in there if (p.pid, p.start_time) in known)
    groups = {row["frozen"] for _, row in there}
    return ProcessSnapshot(
        left=left,
        lost=tuple(p.pid for p in was if p.main and p.pid not in left),
        more=tuple(p.pid for p, _ in there if p.pid not in left),
        stopped=bool(there) and not any(row["running"] for _, row in there),
        frozen="" if "" in groups else ", ".join(sorted(groups)),
        standing=tuple(p.pid for p, row in there if row["frozen"] or not row["running"]),
        ticks=sum(row["ticks"] for _, row in there),
        listening=heard,
    )


async def take_snapshots(
    ctx: NemesisContext,
    was: Mapping[str, Sequence[Process]],
    now: Mapping[str, Sequence[Process]],
    service: str = "",
) -> dict[str, ProcessSnapshot]:
    """A snapshot of each member that `was` names."""
    found = await asyncio.gather(
        *(
            take_snapshot(ctx.node(n), was[n], now.get(n, ()), probes_of(ctx, n, service))
            for n in was
        )
    )
    return dict(zip(was, found, strict=True))


async def take_two_snapshots(
    ctx: NemesisContext, was: Mapping[str, Sequence[Process]], service: str = ""
) -> dict[str, tuple[ProcessSnapshot, ProcessSnapshot]]:
    """Two snapshots of each member, a moment apart."""
    first = await take_snapshots(ctx, was, await running(ctx, service), service)
    await asyncio.sleep(SAMPLE_GAP_S)
    second = await take_snapshots(ctx, was, await running(ctx, service), service)
    return {name: (first[name], second[name]) for name in was}
