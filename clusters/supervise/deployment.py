"""`SupervisedDeployment`: a system is what its services are, and what can be asked of it.

A system says which services a member has, and gives `healthy`. Starting, killing, pausing and
finding them again, their logs and their control groups are the same for all.
"""

from __future__ import annotations

import abc
import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.remote.agent_groups import PREPARE_S
from clusters.supervise import member_set
from clusters.supervise.member_set import MemberLogs
from dstest.core import answers, clock
from dstest.core.answers import check_health
from dstest.core.errors import ConfigError, LabError, RemoteError
from dstest.core.node import Node, Reopens
from dstest.core.protocols import (
    DataDir,
    Linked,
    LocalFile,
    Pause,
    Process,
    Supervised,
)

START_S: Final = 60.0
"""Of the services of one node, besides the commands that prepare empty data."""

STOP_S: Final = 12.0
POLL_S: Final = 0.1
LOOK_S: Final = 1.0
"""Between two looks whether servers that start have ended."""

_EMPTY: Final = """\
set -e
for path in "$0" "$@"; do
    [ ! -L "$path" ] || { echo "$path is a link, and its data is elsewhere" >&2; exit 1; }
    mkdir -p "$path"
    find "$path" -xdev -mindepth 1 -delete
done
"""
"""Empties the directories of data that it is given, and makes those that are missing."""


class SupervisedDeployment(MemberLogs, Supervised, Pause):
    """Base of deployments.

    A subclass implements `services` and `healthy`, and may implement `arrange`, what makes a
    cluster of members that run. What else it can do are further capabilities among its bases.
    """

    @abc.abstractmethod
    async def healthy(self) -> dict[str, bool]:
        """Per member: does it do, right now, what its role promises?"""

    @abc.abstractmethod
    async def version(self) -> str:
        """The version that the members report."""

    async def arrange(self) -> None:
        """After the services of all members have been started: make a cluster of them."""

    async def install(self) -> None:
        """Check that the nodes have the programs, and members the service that clients ask for."""
        self.members_with(self.endpoint_service)

        async def check(node: Node) -> None:
            for service in self.members[node.name].services:
                if service.user != "root":
                    known = await node.run(["id", "-u", service.user], check=False)
                    if known.status != 0:
                        raise LabError(
                            f"{node.name} has no user {service.user}, as whom {service.name} is to"
                            " run",
                            remedy="one of the system's `packages` makes it, or another `user` of"
                            " that Service, as nobody",
                        )
                program = service.argv[0]
                if program in service.files:
                    _require_executable(program, service.files[program])
                    continue
                argv = ["sh", "-c", 'command -v "$0"', program]
                if (await node.run(argv, check=False)).status != 0:
                    raise LabError(
                        f"{node.name} has no {program}",
                        remedy="one of the system's `packages` brings it (`dstest lab down`, then"
                        f' up again with --system), or its `files`, as {{"{program}":'
                        ' LocalFile(Path(__file__).with_name("NAME"))}',
                    )

        await self.each(list(self.nodes), check)

    async def start(self) -> None:
        """Start all members on empty data and wait until each of them serves."""
        await self.each(list(self.nodes), self._lay)
        await self.stop()
        await self.wipe()
        await self.boot()
        arrange_s = 3 * answers.ask_s(self.timing)
        await answers.in_time(self, "arrange", self.arrange(), arrange_s)
        await self.wait_healthy(list(self.members), first=True)

    async def boot(self) -> None:
        """Start the services of all members, all at once."""
        await self.each(list(self.members), self._start)

    async def _lay(self, node: Node) -> None:
        """Put the program and what it is to run on a node, which lets it find what runs there."""
        for path, data in member_set.programs().items():
            await node.put(path, data, mode=0o755 if path == member_set.PROGRAM else 0o644)
        given = {
            path: what
            for service in self.members[node.name].services
            for path, what in service.files.items()
            if isinstance(what, LocalFile)
        }
        if given:
            await node.run(["rm", "-rf", member_set.GIVEN])
        for path, what in given.items():
            data = member_set.local_data(node.name, path, what)
            await node.put(member_set.given_at(path), data, mode=0o600)
        await node.put(
            member_set.MEMBER, member_set.spec(self.members[node.name].services), mode=0o600
        )

    async def _start(self, node: Node) -> None:
        # A command that hangs is to be named by the node, whose patience must end before ours.
        commands = sum(len(service.prepare) for service in self.members[node.name].services)
        timeout_s = START_S + commands * PREPARE_S
        try:
            await node.run(self.restart_command(node.name), timeout_s=timeout_s)
        except RemoteError as error:
            error.remedy = error.remedy or (
                "user, cwd, prepare, files and argv of that Service, as this node has them"
            )
            raise

    async def wait_healthy(self, names: Sequence[str], *, first: bool = False) -> None:
        """Returns when all of these serve. LabError, with the end of a log, where one does not; at
        their `first` start as soon as one has ended, and where `healthy` never comes back."""
        deadline_ns = clock.monotonic_ns() + int(self.timing.start_s * 1e9)
        look_ns = clock.monotonic_ns() + int(LOOK_S * 1e9)
        while True:
            answer = answers.in_time(self, "healthy", self.healthy(), answers.ask_s(self.timing))
            healthy = check_health(self, await answer)
            waiting = [name for name in names if not healthy.get(name)]
            if not waiting:
                return
            if first and clock.monotonic_ns() > look_ns:
                await self._none_ended(waiting)
                look_ns = clock.monotonic_ns() + int(LOOK_S * 1e9)
            if clock.monotonic_ns() > deadline_ns:
                raise await self._late(waiting)
            await asyncio.sleep(POLL_S)

    async def _late(self, names: Sequence[str]) -> LabError:
        """What is known of members that do not serve in time."""
        first = names[0]
        why = self.last_errors.get(first)
        asked = f"; {first}, asked last: {why}" if why else ""
        logs = [service.log for service in self.members[first].services][:1]
        tails = [f"; end of {log} on {first}: {await self.log_tail(first, log)}" for log in logs]
        return LabError(
            f"{', '.join(names)} serve nobody after {self.timing.start_s:.0f} s"
            f"{asked}{''.join(tails) or f'; {first} has no service'}",
            remedy="see the logs in nodes/ of the run directory",
        )

    async def _none_ended(self, names: Sequence[str]) -> None:
        """Raises LabError where all processes of a service of these members are gone."""
        for name, said in (await self._rows()).items():
            for service, row in said.items():
                if name in names and row["exit"] and not row["processes"]:
                    log = self.service_of(name, service).log
                    raise LabError(
                        f"{service} on {name} ended with status {row['exit']['status']}; end of"
                        f" {log}: {await self.log_tail(name, log)}",
                        remedy=f"does `{' '.join(self.service_of(name, service).argv)}` stay in the"
                        " foreground, with files that are there?",
                    )

    async def stop(self) -> None:
        """Kill whatever runs; data stays. A node that is lost keeps no other from being stopped."""

        async def end(node: Node) -> None:
            argv = ["sh", "-c", f"[ ! -x {member_set.PROGRAM} ] || {member_set.PROGRAM} stop"]
            await node.run(argv, timeout_s=STOP_S)

        ended = await asyncio.gather(*map(end, self.nodes.values()), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def wipe(self) -> None:
        """Remove data, logs and files. Of what may be mounted only the content goes, and nothing of
        what is mounted below it or that a link leads to: RemoteError."""

        async def clean(node: Node) -> None:
            for service in self.members[node.name].services:
                if service.data:
                    await node.run(["sh", "-c", _EMPTY, *service.data])
                mine = [service.log, *service.files, f"{member_set.HOME}/{service.name}"]
                await node.run(["rm", "-rf", *mine])

        await self.each(list(self.nodes), clean)

    async def _strike(self, names: Sequence[str], act: str, service: str) -> None:
        """By the agent itself: a program on the node takes a tenth of a second to start."""
        given = _given(service)
        await self.each(
            names, lambda node: node.call("strike", act=act, services=given, timeout_s=STOP_S)
        )

    async def _signal(self, names: Sequence[str], number: int, service: str) -> None:
        given = {"number": int(number), "services": _given(service)}
        await self.each(names, lambda node: node.call("signal_services", timeout_s=STOP_S, **given))

    async def kill(self, names: Sequence[str], service: str = "") -> None:
        """SIGKILL to all processes, and wait until they are gone."""
        await self._strike(names, "kill", service)

    async def terminate(self, names: Sequence[str], service: str = "") -> None:
        """The signal of its `ending` to each main process; does not wait."""
        await self._strike(names, "terminate", service)

    async def pause(self, names: Sequence[str], service: str = "") -> None:
        """SIGSTOP to all processes."""
        await self._signal(names, signal.SIGSTOP, service)

    async def resume(self, names: Sequence[str], service: str = "") -> None:
        """SIGCONT to all processes."""
        await self._signal(names, signal.SIGCONT, service)

    async def freeze(self, names: Sequence[str], service: str = "") -> None:
        """Freeze the control groups; returns when they stand still."""
        await self._strike(names, "freeze", service)

    def thaw_command(self, service: str = "") -> list[str]:
        """Lets the control groups of a node go on."""
        return [member_set.PROGRAM, "thaw", *_given(service)]

    async def thaw(self, names: Sequence[str], service: str = "") -> None:
        """As `thaw_command`, on these nodes."""
        await self._strike(names, "thaw", service)

    def restart_command(self, name: str) -> list[str]:
        """Starts the services of a node that do not run; harmless where they all do."""
        return [member_set.PROGRAM, "start"]

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
            await self.each(list(self.nodes), lambda n: n.put(member_set.GROUPS, group.encode()))
        else:
            await self.each(list(self.nodes), lambda n: n.run(["rm", "-f", member_set.GROUPS]))

    async def override(
        self, name: str, service: str, argv: Sequence[str] = (), program: str = ""
    ) -> None:
        """From its next start on a service has these words more, or runs as another program."""
        row = {"argv": list(argv), "program": program}
        await self.nodes[name].put(member_set.override_of(service), json.dumps(row).encode())

    async def clear_override(self, name: str, service: str) -> None:
        """From its next start on a service runs as it was deployed."""
        await self.nodes[name].run(["rm", "-f", member_set.override_of(service)])

    async def overridden(self) -> list[str]:
        """Nodes with a service that runs otherwise, or will after its next start."""
        argv = ["sh", "-c", f"ls {member_set.HOME}/*/override.json 2>/dev/null"]
        found = await self.each(list(self.nodes), lambda node: node.run(argv, check=False))
        return [name for name, done in found.items() if done.stdout.strip()]


class FullMesh(SupervisedDeployment, Linked):
    """Base of those whose members all talk to each other."""

    def links(self) -> list[tuple[str, str]] | None:
        return None


class Durable(SupervisedDeployment, DataDir):
    """Base of those whose members keep what must survive a restart on a disk: the data of all of a
    member's services is below one directory, which has nothing else."""

    def data_dir(self) -> str:
        """It, the same on every node."""
        members = self.members.values()
        paths = [path for m in members for s in m.services for path in s.data]
        if not paths:
            raise ConfigError(
                f"{type(self).__name__} is Durable, and none of its services names any data",
                remedy='Service(data=("/opt/mydb/data",))',
            )
        return os.path.commonpath(paths)


def _require_executable(program: str, what: bytes | LocalFile) -> None:
    """Raises ConfigError for a file that is laid as a program and cannot be one."""
    if not isinstance(what, LocalFile) or not what.mode & 0o111:
        raise ConfigError(
            f"{program} is a file of the service that nobody may execute",
            remedy=f'files={{"{program}": LocalFile(Path(__file__).with_name("NAME"), mode=0o755)}}'
            " from dstest.core.protocols; a script as bytes needs its interpreter in argv",
        )


def _given(service: str) -> list[str]:
    return [service] if service else []


def _processes(row: Mapping[str, Any]) -> list[Process]:
    rows = []
    for service, found in row.items():
        main = found["main"] and tuple(found["main"])
        for pid, start in found["processes"]:
            rows.append(Process(service, pid, start, (pid, start) == main))
    return rows
