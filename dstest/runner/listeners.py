"""Who listens at the ports of a system's services? Asked before its start, and before the load.

Before the start that is nobody: whoever else holds a port would answer in place of the services.
Before the load it is the processes of the service whose port it is, and nobody else: what clients
see of any other process says nothing of a fault that hits the service. What binds no TCP port is
let alone, and who is late is waited for.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

import msgspec

from dstest.core import clock
from dstest.core.answers import check_processes
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.patience import ask_s, in_time
from dstest.core.protocols import Deployment, Endpoint, Process, Processes, Service
from dstest.runner.answers import ports_of

POLL_S: Final = 0.2
_PID: Final = re.compile(r"pid=(\d+)")
_COMMAND: Final = """\
[ -d /proc/$0 ] || exit 0
line=$(tr '\\0' ' ' 2>/dev/null </proc/$0/cmdline)
echo "${line:-$(cat /proc/$0/comm 2>/dev/null)}"
"""
_SHOWN: Final = 80


class Listener(msgspec.Struct, frozen=True):
    """Who listens at a port; no pid where the node does not say."""

    port: int
    kind: str
    pids: frozenset[int]


class Held(msgspec.Struct, frozen=True):
    """A port that is held by whom it does not belong to; pid 0 where nobody can see by whom."""

    name: str
    port: int
    pid: int
    command: str = ""

    @property
    def what(self) -> str:
        """Without the node's name."""
        who = f"process {self.pid} ({self.command})" if self.pid else "whom the node does not see"
        return f"port {self.port} is held by {who}"


def read_listeners(text: str) -> list[Listener]:
    """What `ss -Hlntup` has printed."""
    found = []
    for line in text.splitlines():
        kind, _, _, _, local, *rest = line.split()
        pids = frozenset(map(int, _PID.findall(" ".join(rest))))
        found.append(Listener(int(local.rpartition(":")[2]), kind, pids))
    return found


async def held_by_others(deployment: Deployment, nodes: Mapping[str, Node]) -> list[Held]:
    """Ports of services at which a process listens that is of no service, whether they run or not;
    nothing where the system cannot tell its processes."""

    async def look(name: str, services: Sequence[Service]) -> list[Held]:
        ports = {port for service in services for port in ports_of(service)}
        heard = await _heard(nodes[name], ports)
        own = {p.pid for p in await _processes(deployment, name)} if heard else set[int]()
        return await _strangers(nodes[name], heard, dict.fromkeys(ports, own))

    return await _of_all(deployment, look)


async def check_free(deployment: Deployment, nodes: Mapping[str, Node]) -> None:
    """Raises LabError where somebody listens at a port of a service that was not started yet."""
    if found := await held_by_others(deployment, nodes):
        rows = "; ".join(f"{one.name}: {one.what}" for one in found)
        raise LabError(
            f"the nodes are not clean: {rows} (not ours); nothing was started",
            remedy="end it there (`dstest lab ssh NODE`; a server of the machine's own by "
            "`systemctl disable --now`), or, unless they are machines of yours, make the nodes "
            "anew: `dstest lab down`, then `dstest lab up`",
        )


async def check_listeners(
    deployment: Deployment, nodes: Mapping[str, Node], endpoints: Sequence[Endpoint]
) -> None:
    """Raises LabError where a port of a service is held by a process that is none of the service.

    Waits as long as members may take to start: until nobody else listens, and somebody where
    clients connect.
    """

    async def look(name: str, services: Sequence[Service]) -> list[Held]:
        heard = await _heard(nodes[name], {port for one in services for port in ports_of(one)})
        silent = {end.port for end in endpoints if end.node == name} - {row.port for row in heard}
        late.extend(sorted(silent))
        # Asked for after the listeners: whoever was forked in between does not listen yet.
        processes = await _processes(deployment, name)
        own: dict[int, set[int]] = {}
        for service in services:
            pids = {process.pid for process in processes if process.service == service.name}
            for port in ports_of(service):
                own.setdefault(port, set()).update(pids)
        return await _strangers(nodes[name], heard, own)

    late: list[int] = []
    deadline_ns = clock.monotonic_ns() + int(deployment.timing.start_s * 1e9)
    while True:
        late.clear()
        found = await _of_all(deployment, look)
        if not (found or late) or clock.monotonic_ns() > deadline_ns:
            break
        await asyncio.sleep(POLL_S)
    if found:
        raise _refused(deployment, found)


def _refused(deployment: Deployment, found: Sequence[Held]) -> LabError:
    first, more = found[0], f"; {len(found) - 1} more" if len(found) > 1 else ""
    there = deployment.members[first.name].services
    names = " or ".join(service.name for service in there if first.port in ports_of(service))
    return LabError(
        f"{first.name}: {first.what}, which is not of service {names}{more}",
        remedy="a service is all that its main process forks and keeps in its control group;"
        " what serves clients besides is a service of its own",
    )


async def _of_all(
    deployment: Deployment, look: Callable[[str, Sequence[Service]], Awaitable[list[Held]]]
) -> list[Held]:
    """What is found on each member that has services, where the system can tell processes."""
    if not isinstance(deployment, Processes):
        return []
    rows = [(name, member.services) for name, member in deployment.members.items()]
    found = await asyncio.gather(*(look(*row) for row in rows if row[1]))
    return [held for row in found for held in row]


async def _processes(deployment: Deployment, name: str) -> list[Process]:
    limit_s = ask_s(deployment.timing)
    assert isinstance(deployment, Processes)
    answer = await in_time(deployment, "processes", deployment.processes([name]), limit_s)
    return check_processes(deployment, answer).get(name, [])


async def _heard(node: Node, ports: Collection[int]) -> list[Listener]:
    wanted = " or ".join(f"sport = :{port}" for port in sorted(ports))
    done = await node.run(["ss", "-Hlntup", f"( {wanted} )"], timeout_s=5.0)
    return read_listeners(done.stdout)


async def _strangers(
    node: Node, heard: Sequence[Listener], own: Mapping[int, Collection[int]]
) -> list[Held]:
    """Who listens at a TCP port without being one of its `own`, and is still there."""
    found = []
    for row in heard:
        for pid in sorted((row.pids or {0}) - {*own[row.port]}) if row.kind == "tcp" else ():
            command = ""
            if pid:
                done = await node.run(["sh", "-c", _COMMAND, str(pid)], timeout_s=5.0)
                command = done.stdout.strip()[:_SHOWN]
            if command or not pid:
                found.append(Held(node.name, row.port, pid, command))
    return list(dict.fromkeys(found))
