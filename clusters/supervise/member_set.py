"""The members of a system on their nodes: `MemberSet` with their services, and how all are asked;
`MemberLogs` with the logs of those services; and the program `services`, its library and what it is
to run, as they lie on a node. All of that is on disk, so that a node that was restarted can start
its services by itself.
"""

from __future__ import annotations

import abc
import asyncio
import base64
import functools
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from clusters.remote.bundle import module_texts
from dstest.core import clock
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    Endpoint,
    EndpointKind,
    LocalFile,
    LogFiles,
    Member,
    ServerLogs,
    Service,
    Timing,
)

__all__ = [
    "GIVEN",
    "GROUPS",
    "HOME",
    "MEMBER",
    "PROGRAM",
    "exclusive",
    "given_at",
    "local_data",
    "override_of",
    "programs",
    "spec",
]

T = TypeVar("T")
POLL_S: Final = 0.2

HOME: Final = "/opt/dstest-services"
PROGRAM: Final = f"{HOME}/services"
MEMBER: Final = f"{HOME}/member.json"
GROUPS: Final = f"{HOME}/groups"
GIVEN: Final = f"{HOME}/given"
MODULES: Final = ("agent_exec", "agent_groups", "agent_services")

_PROGRAM: Final = f"""\
#!/usr/bin/env -S python3 -E -s -S
import sys
sys.path.insert(0, "{HOME}/lib")
from clusters.remote.agent_services import main
sys.exit(main(sys.argv[1:]))
"""


class MemberSet(abc.ABC):
    """`nodes` and `options` are what the run has given. A subclass implements `services`."""

    timing: Timing = Timing()
    endpoint_kind: ClassVar[EndpointKind] = "any"
    endpoint_service: ClassVar[str] = ""
    """The service that clients connect to, at its port `client` or where it is probed; the first
    one without a name."""

    def __init__(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.options = dict(options)
        self.last_errors: dict[str, str] = {}
        """Of members that did not answer when last asked: why not."""

    @abc.abstractmethod
    def services(self, node: Node) -> Sequence[Service]:
        """What runs on this node."""

    @functools.cached_property
    def members(self) -> dict[str, Member]:
        return {n: Member(n, tuple(self.services(node))) for n, node in self.nodes.items()}

    def endpoints(self) -> list[Endpoint]:
        """Each member that has the service that clients connect to."""
        found = []
        for name in self.members_with(self.endpoint_service):
            to = self.service_of(name, self.endpoint_service)
            port = to.ports.get("client", to.probe.port)
            address = self.nodes[name].info.address
            found.append(Endpoint(node=name, address=address, port=port, kind=self.endpoint_kind))
        return found

    def service_of(self, name: str, service: str = "") -> Service:
        """The service of that name on a member, the first one without. ConfigError where the member
        has none of that name."""
        there = self.members[name].services
        for one in there:
            if service in ("", one.name):
                return one
        raise ConfigError(
            f"{name} has no service {service!r}",
            remedy=f"one of {', '.join(one.name for one in there)}",
        )

    def members_with(self, service: str) -> list[str]:
        """Members with a service of that name, all without one. ConfigError where none has it."""
        rows = {name: [s.name for s in member.services] for name, member in self.members.items()}
        found = [name for name, there in rows.items() if there and service in ("", *there)]
        if service and not found:
            known = sorted({one for there in rows.values() for one in there})
            raise ConfigError(
                f"no member has a service {service!r}", remedy=f"one of {', '.join(known)}"
            )
        return found

    async def line(self, node: Node, port: int, request: bytes) -> bytes:
        """The first line of what a server answers to this. Raises OSError."""
        reader, writer = await asyncio.open_connection(node.info.address, port)
        try:
            writer.write(request)
            return await reader.readline()
        finally:
            writer.close()

    async def text(self, node: Node, port: int, request: bytes) -> str:
        """All that a server answers to this before it ends the connection. Raises OSError."""
        reader, writer = await asyncio.open_connection(node.info.address, port)
        try:
            writer.write(request)
            return (await reader.read()).decode("utf-8", "replace")
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

    async def answer(self, name: str, ask: Callable[[Node], Awaitable[T]]) -> T | None:
        """What `ask` gives for a member; None of one that is late, refuses or is not there."""
        try:
            async with asyncio.timeout(self.timing.answer_s):
                answer = await ask(self.nodes[name])
        except Exception as error:  # whatever a library makes of it
            self.last_errors[name] = repr(error)
            return None
        self.last_errors.pop(name, None)
        return answer

    async def answers(self, ask: Callable[[Node], Awaitable[T]]) -> dict[str, T | None]:
        """As `answer`, of each member: what is to be known of one is asked of that one alone."""
        return await self.each(list(self.members), lambda node: self.answer(node.name, ask))

    async def until(
        self,
        node: Node,
        ask: Callable[[Node], Awaitable[T]],
        limit_s: float | None = None,
        every_s: float = POLL_S,
    ) -> T:
        """What a member answers, asked again until it is something. LabError, with what it said
        last, where the time of a start is over before. One that is asked while it starts may never
        answer: it has `limit_s`, the time of an answer without."""
        deadline_ns = clock.monotonic_ns() + int(self.timing.start_s * 1e9)
        while True:
            try:
                async with asyncio.timeout(limit_s or self.timing.answer_s):
                    answer = await ask(node)
                why = f"{answer!r}"
                if answer:
                    return answer
            except Exception as error:  # whatever a library says of a server that starts
                why = repr(error)
            self.last_errors[node.name] = why
            if clock.monotonic_ns() > deadline_ns:
                raise LabError(
                    f"{node.name} is not ready after {self.timing.start_s:g} s: {why}",
                    remedy="see the logs in nodes/ of the run directory",
                )
            await asyncio.sleep(every_s)


LOG_BYTES_MAX: Final = 1 << 20


class MemberLogs(MemberSet, ServerLogs, LogFiles):
    """Each service writes one log."""

    async def log_sizes(self, service: str = "") -> dict[str, int]:
        """Bytes of a service's log on each member that has it; of the first service without a
        name."""
        rows = await self.each(
            self.members_with(service),
            lambda node: node.call("stat", path=self.service_of(node.name, service).log),
        )
        return {name: int(row.get("size", 0)) for name, row in rows.items()}

    async def log_since(self, name: str, offset: int, service: str = "") -> str:
        """What a service has logged since, up to a mebibyte."""
        path = self.service_of(name, service).log
        try:
            grown = await self.nodes[name].call(
                "read", path=path, offset=offset, bytes_max=LOG_BYTES_MAX
            )
        except LabError:
            return ""
        return base64.b64decode(grown["data"]).decode("utf-8", "replace")

    def log_files(self) -> dict[str, list[str]]:
        """Per member the logs of its services."""
        return {
            name: list(dict.fromkeys(service.log for service in member.services))
            for name, member in self.members.items()
        }

    async def log_tail(self, name: str, log: str) -> str:
        """The end of a log."""
        return (await self.nodes[name].get(log, bytes_max=600)).decode("utf-8", "replace")


def programs() -> dict[str, bytes]:
    """Path -> content of the library; `PROGRAM` is to be executable."""
    found = {f"{HOME}/lib/{path}": text.encode() for path, text in module_texts(MODULES).items()}
    return {**found, PROGRAM: _PROGRAM.encode()}


_OURS: Final = (
    *("given", "groups", "homes", "homes.owned", "lib", "lock", "member.json", "run", "services"),
)
"""What lies in `HOME` beside a directory for each service."""


def spec(services: Sequence[Service]) -> bytes:
    """The text of `MEMBER`: services in the order in which they start. ConfigError where one has
    the name of a file of ours."""
    if taken := [service.name for service in services if service.name in _OURS]:
        raise ConfigError(
            f"no service can be called {' or '.join(taken)}: its place on a node is taken",
            remedy="another name for the service",
        )
    rows: list[dict[str, Any]] = []
    for service in _in_order(services):
        row = msgspec.to_builtins(msgspec.structs.replace(service, files={}))
        for path, what in service.files.items():
            if isinstance(what, LocalFile):
                row.setdefault("given", {})[path] = [given_at(path), what.mode]
            else:
                row["files"][path] = base64.b64encode(what).decode()
        row["probe"] = None
        rows.append(row)
    return msgspec.json.encode({"services": rows})


def given_at(path: str) -> str:
    """Where a `LocalFile` waits on the node until it is laid at its path."""
    return f"{GIVEN}/{hashlib.sha256(path.encode()).hexdigest()[:16]}"


def local_data(node: str, path: str, file: LocalFile) -> bytes:
    """What is to lie at `path`. Raises ConfigError where it cannot be read here."""
    try:
        return Path(file.path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{file.path}, which is to be {path} on {node}, cannot be read: {error.strerror}",
            remedy="build it first; its path is best told from that of the system's file:"
            ' LocalFile(Path(__file__).with_name("NAME"))',
        ) from None


def _in_order(services: Sequence[Service]) -> list[Service]:
    """Each after those that it names. ValueError where they wait for one another."""
    ordered: list[Service] = []
    left = list(services)
    while left:
        ready = [s for s in left if {*s.after} <= {f.name for f in ordered}]
        if not ready:
            raise ValueError(f"services wait for one another: {', '.join(s.name for s in left)}")
        ordered += ready
        left = [s for s in left if s not in ready]
    return ordered


def override_of(service: str) -> str:
    """The file that lets a service start otherwise."""
    return f"{HOME}/{service}/override.json"


def exclusive(*argv: str) -> list[str]:
    """The command, while nobody else starts or stops the services of the node."""
    return [PROGRAM, "hold", *argv]
