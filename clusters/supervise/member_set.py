"""`MemberSet`: the members of a system on their nodes, their services, and how all are asked."""

from __future__ import annotations

import abc
import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from dstest.core import clock
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Node
from dstest.core.protocols import Endpoint, EndpointKind, Member, Service, Timing

T = TypeVar("T")
POLL_S: Final = 0.2


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
