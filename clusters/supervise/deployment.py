"""`SupervisedDeployment`: a system is what its services are, and what can be asked of it.

A system says which services a member has, and gives `healthy`. Starting, killing, pausing and
finding them again, their logs and their control groups are the same for all.
"""

from __future__ import annotations

import abc
import asyncio
import base64
import functools
import json
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from clusters.supervise import on_node
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import Node, Reopens
from dstest.core.protocols import (
    ControlGroups,
    DataDir,
    Endpoint,
    EndpointKind,
    Freezes,
    Linked,
    LogFiles,
    Member,
    Pause,
    Process,
    ServerLogs,
    Service,
    Supervised,
    Terminate,
    Timing,
)

__all__ = ["Durable", "FullMesh", "SupervisedDeployment"]

LOG_BYTES_MAX: Final = 1 << 20
START_S: Final = 60.0
"""Of the services of one node, with the commands that prepare empty data."""

STOP_S: Final = 12.0
POLL_S: Final = 0.1
LOOK_S: Final = 1.0
"""Between two looks whether servers that start have ended."""


T = TypeVar("T")


class SupervisedDeployment(
    Supervised, Pause, Freezes, Terminate, ControlGroups, ServerLogs, LogFiles
):
    """Base of deployments. `nodes` and `options` are what the run has given.

    A subclass implements `services` and `healthy`, and may implement `arrange`, what makes a
    cluster of members that run. What else it can do are further capabilities among its bases.
    """

    timing: Timing = Timing()
    endpoint_kind: ClassVar[EndpointKind] = "any"
    endpoint_service: ClassVar[str] = ""
    """The service that clients connect to, at its port `client` or where it is probed; the first
    one without a name."""

    def __init__(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.options = dict(options)
        self.last_errors: dict[str, str] = {}
        """Of members that did not answer when last asked by `answers`: why not."""

    @abc.abstractmethod
    def services(self, node: Node) -> Sequence[Service]:
        """What runs on this node."""

    @abc.abstractmethod
    async def healthy(self) -> dict[str, bool]:
        """Per member: does it do, right now, what its role promises?"""

    @abc.abstractmethod
    async def version(self) -> str:
        """The version that the members report."""

    async def arrange(self) -> None:
        """After the services of all members have been started: make a cluster of them."""

    @functools.cached_property
    def members(self) -> dict[str, Member]:
        return {n: Member(n, tuple(self.services(node))) for n, node in self.nodes.items()}

    def endpoints(self) -> list[Endpoint]:
        """Each member."""
        found = []
        for name, member in self.members.items():
            to = self._service(member, self.endpoint_service)
            port = to.ports.get("client", to.probe.port)
            address = self.nodes[name].info.address
            found.append(Endpoint(node=name, address=address, port=port, kind=self.endpoint_kind))
        return found

    @staticmethod
    def _service(member: Member, name: str) -> Service:
        """The service of that name, the first one without."""
        return next((s for s in member.services if s.name == name), member.services[0])

    async def line(self, node: Node, port: int, request: bytes) -> bytes:
        """The first line of what a server answers to this. Raises OSError."""
        reader, writer = await asyncio.open_connection(node.info.address, port)
        try:
            writer.write(request)
            return await reader.readline()
        finally:
            writer.close()

    async def lines(self, port: int, request: bytes) -> dict[str, str]:
        """As `line`, of each member, without the end of the line; empty where none came."""
        said = await self.answers(lambda node: self.line(node, port, request))
        return {
            name: (line or b"").decode("utf-8", "replace").strip() for name, line in said.items()
        }

    async def each(
        self, names: Sequence[str], action: Callable[[Node], Awaitable[T]]
    ) -> dict[str, T]:
        """What `action` gives for each of these nodes, all at once."""
        nodes = [self.nodes[name] for name in names]
        return dict(zip(names, await asyncio.gather(*map(action, nodes)), strict=True))

    async def answers(self, ask: Callable[[Node], Awaitable[T]]) -> dict[str, T | None]:
        """What `ask` gives for each member; None of one that is late, refuses or is not there."""

        async def one(node: Node) -> T | None:
            try:
                async with asyncio.timeout(self.timing.answer_s):
                    answer = await ask(node)
            except Exception as error:  # whatever a library makes of it
                self.last_errors[node.name] = repr(error)
                return None
            self.last_errors.pop(node.name, None)
            return answer

        return await self.each(list(self.members), one)

    async def install(self) -> None:
        """Check that the nodes have the programs."""

        async def check(node: Node) -> None:
            for service in self.members[node.name].services:
                argv = ["sh", "-c", 'command -v "$0"', service.argv[0]]
                if (await node.run(argv, check=False)).status != 0:
                    raise LabError(
                        f"{node.name} has no {service.argv[0]}",
                        remedy="`dstest lab down`, then up again: its image lacks the package",
                    )

        await self.each(list(self.nodes), check)

    async def start(self) -> None:
        """Start all members on empty data and wait until each of them serves."""
        await self.each(list(self.nodes), self._lay)
        await self.stop()
        await self.wipe()
        await self.boot()
        await self.arrange()
        await self.wait_healthy(list(self.members), first=True)

    async def boot(self) -> None:
        """Start the services of all members, all at once."""
        await self.each(list(self.members), self._start)

    async def _lay(self, node: Node) -> None:
        """Put the program and what it is to run on a node, which lets it find what runs there."""
        for path, data in on_node.programs().items():
            await node.put(path, data, mode=0o755 if path == on_node.PROGRAM else 0o644)
        await node.put(on_node.MEMBER, on_node.spec(self.members[node.name].services), mode=0o600)

    async def _start(self, node: Node) -> None:
        await node.run(self.restart_command(node.name), timeout_s=START_S)

    async def wait_healthy(self, names: Sequence[str], *, first: bool = False) -> None:
        """Returns when all of these serve. LabError, with the end of a log, where one does not; at
        their `first` start as soon as one has ended."""
        deadline_ns = clock.monotonic_ns() + int(self.timing.start_s * 1e9)
        look_ns = clock.monotonic_ns() + int(LOOK_S * 1e9)
        while True:
            healthy = await self.healthy()
            waiting = [name for name in names if not healthy.get(name)]
            if not waiting:
                return
            if first and clock.monotonic_ns() > look_ns:
                await self._none_ended(waiting)
                look_ns = clock.monotonic_ns() + int(LOOK_S * 1e9)
            if clock.monotonic_ns() > deadline_ns:
                log = self.members[waiting[0]].services[0].log
                tail = await self._tail(waiting[0], log)
                why = self.last_errors.get(waiting[0])
                asked = f"{waiting[0]}, asked last: {why}; " if why else ""
                raise LabError(
                    f"{', '.join(waiting)} serve nobody after {self.timing.start_s:.0f} s; {asked}"
                    f"end of {log} on {waiting[0]}: {tail}",
                    remedy="see the logs in nodes/ of the run directory",
                )
            await asyncio.sleep(POLL_S)

    async def _tail(self, name: str, log: str) -> str:
        return (await self.nodes[name].get(log, bytes_max=600)).decode("utf-8", "replace")

    async def _none_ended(self, names: Sequence[str]) -> None:
        """Raises LabError where all processes of a service of these members are gone."""
        for name, said in (await self._rows()).items():
            for service, row in said.items():
                if name in names and row["exit"] and not row["processes"]:
                    log = self._log(name, service)
                    raise LabError(
                        f"{service} on {name} ended with status {row['exit']['status']}; end of"
                        f" {log}: {await self._tail(name, log)}",
                        remedy=f"does `{' '.join(self._argv(name, service))}` stay in the"
                        " foreground, with files that are there?",
                    )

    def _argv(self, name: str, service: str) -> Sequence[str]:
        return self._service(self.members[name], service).argv

    async def stop(self) -> None:
        """Kill whatever runs; data stays. A node that is lost keeps no other from being stopped."""

        async def end(node: Node) -> None:
            argv = ["sh", "-c", f"[ ! -x {on_node.PROGRAM} ] || {on_node.PROGRAM} stop"]
            await node.run(argv, timeout_s=STOP_S)

        ended = await asyncio.gather(*map(end, self.nodes.values()), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def wipe(self) -> None:
        """Remove data, logs and files. Of what may be mounted only the content goes."""

        async def clean(node: Node) -> None:
            for service in self.members[node.name].services:
                for path in service.data:
                    await node.run(["mkdir", "-p", path])
                    await node.run(["find", path, "-mindepth", "1", "-delete"])
                mine = [service.log, *service.files, f"{on_node.HOME}/{service.name}"]
                await node.run(["rm", "-rf", *mine])

        await self.each(list(self.nodes), clean)

    async def _do(self, names: Sequence[str], *words: str | int, timeout_s: float = STOP_S) -> None:
        argv = [on_node.PROGRAM, *map(str, words)]
        await self.each(names, lambda node: node.run(argv, timeout_s=timeout_s))

    async def kill(self, names: Sequence[str], service: str = "") -> None:
        """SIGKILL to all processes, and wait until they are gone."""
        await self._do(names, "signal", int(signal.SIGKILL), *_given(service))

    async def terminate(self, names: Sequence[str], service: str = "") -> None:
        """SIGTERM to the main processes; does not wait."""
        await self._do(names, "signal", int(signal.SIGTERM), *_given(service))

    async def pause(self, names: Sequence[str], service: str = "") -> None:
        """SIGSTOP to all processes."""
        await self._do(names, "signal", int(signal.SIGSTOP), *_given(service))

    async def resume(self, names: Sequence[str], service: str = "") -> None:
        """SIGCONT to all processes."""
        await self._do(names, "signal", int(signal.SIGCONT), *_given(service))

    async def freeze(self, names: Sequence[str], service: str = "") -> None:
        """Freeze the control groups; returns when they stand still."""
        await self._do(names, "freeze", *_given(service))

    def thaw_command(self, service: str = "") -> list[str]:
        """Lets the control groups of a node go on."""
        return [on_node.PROGRAM, "thaw", *_given(service)]

    async def thaw(self, names: Sequence[str], service: str = "") -> None:
        """As `thaw_command`, on these nodes."""
        await self._do(names, "thaw", *_given(service))

    def restart_command(self, name: str) -> list[str]:
        """Starts the services of a node that do not run; harmless where they all do."""
        return [on_node.PROGRAM, "start"]

    async def restart(self, names: Sequence[str]) -> None:
        """Start members that do not run on the data they have; returns when they serve."""
        await self.each(names, self._start)
        await self.wait_healthy(names)

    async def processes(self, names: Sequence[str] = ()) -> dict[str, list[Process]]:
        """All processes of each member that has any, by service, the main ones first; of these
        members, of all without names."""
        found = await self._rows(names)
        return {name: rows for name, said in found.items() if (rows := _processes(said))}

    async def _rows(self, names: Sequence[str] = ()) -> dict[str, Any]:
        """What each node says of its services; nothing of one that is down on purpose."""

        async def ask(node: Node) -> Any:
            return {} if isinstance(node, Reopens) and node.away else await node.call("services")

        return await self.each(list(names or self.nodes), ask)

    async def freezer_groups(self) -> dict[str, list[str]]:
        """The control group of each service, where the node has any."""
        found = await self._rows()
        return {
            name: [row["group"]["path"] for row in said.values() if row["group"]]
            for name, said in found.items()
        }

    async def exits(self) -> dict[str, dict[str, int | None]]:
        """How the last main process of each service ended, None while it runs or nobody knows."""
        found = await self._rows()
        return {
            name: {s: row["exit"]["status"] if row["exit"] else None for s, row in said.items()}
            for name, said in found.items()
        }

    async def start_in(self, group: str) -> None:
        """Services that are started from now on join this control group; an empty path for none."""
        if group:
            await self.each(list(self.nodes), lambda n: n.put(on_node.GROUPS, group.encode()))
        else:
            await self.each(list(self.nodes), lambda n: n.run(["rm", "-f", on_node.GROUPS]))

    async def override(
        self, name: str, service: str, argv: Sequence[str] = (), program: str = ""
    ) -> None:
        """From its next start on a service has these words more, or runs as another program."""
        row = {"argv": list(argv), "program": program}
        await self.nodes[name].put(on_node.override_of(service), json.dumps(row).encode())

    async def clear_override(self, name: str, service: str) -> None:
        """From its next start on a service runs as it was deployed."""
        await self.nodes[name].run(["rm", "-f", on_node.override_of(service)])

    async def overridden(self) -> list[str]:
        """Nodes with a service that runs otherwise, or will after its next start."""
        argv = ["sh", "-c", f"ls {on_node.HOME}/*/override.json 2>/dev/null"]
        found = await self.each(list(self.nodes), lambda node: node.run(argv, check=False))
        return [name for name, done in found.items() if done.stdout.strip()]

    def _log(self, name: str, service: str) -> str:
        return self._service(self.members[name], service).log

    async def log_sizes(self, service: str = "") -> dict[str, int]:
        """Bytes of a service's log on each node; of the first service without a name."""
        rows = await self.each(
            list(self.nodes), lambda n: n.call("stat", path=self._log(n.name, service))
        )
        return {name: int(row.get("size", 0)) for name, row in rows.items()}

    async def log_since(self, name: str, offset: int, service: str = "") -> str:
        """What a service has logged since, up to a mebibyte."""
        path = self._log(name, service)
        try:
            grown = await self.nodes[name].call(
                "read", path=path, offset=offset, bytes_max=LOG_BYTES_MAX
            )
        except LabError:
            return ""
        return base64.b64decode(grown["data"]).decode("utf-8", "replace")

    def log_files(self) -> list[str]:
        """Logs of all services, wherever they run."""
        rows = (service.log for member in self.members.values() for service in member.services)
        return list(dict.fromkeys(rows))


class FullMesh(SupervisedDeployment, Linked):
    """Base of those whose members all talk to each other."""

    def links(self) -> list[tuple[str, str]] | None:
        return None


class Durable(SupervisedDeployment, DataDir):
    """Base of those whose members keep what must survive a restart on a disk."""

    def data_dir(self) -> str:
        """The first directory of data that a service names, the same on every node."""
        members = self.members.values()
        return next(path for m in members for s in m.services for path in s.data)


def _given(service: str) -> list[str]:
    return [service] if service else []


def _processes(row: Mapping[str, Any]) -> list[Process]:
    rows = []
    for service, found in row.items():
        main = found["main"] and tuple(found["main"])
        for pid, start in found["processes"]:
            rows.append(Process(service, pid, start, (pid, start) == main))
    return rows
