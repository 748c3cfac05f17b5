"""ZooKeeper that runs already: a Java program, found by the port that answers `srvr`; its nodes are
below one of the run's own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from clusters.supervise.attached import BEFORE_A_RUN, AttachedDeployment
from clusters.systems.zookeeper.asked import Session, ZookeeperAsked
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import Probe

T = TypeVar("T")
SESSION_S: Final = 8.0
CONFIG: Final = "/zookeeper/config"
"""Where an ensemble keeps who its members are (ZooKeeper, Dynamic Reconfiguration)."""

_ELECTION: Final = re.compile(r":\d+:(\d+)(?=[:;|]|$)")
"""The second port of each address of a member, `HOST:2888:3888` and more."""


class AttachedZookeeper(ZookeeperAsked, AttachedDeployment):
    """ZooKeeper that somebody else has started, on all members of its ensemble."""

    program = "java"
    service = "zookeeper"
    unwell = "is part of no quorum"

    def port_at(self, node: Node) -> int:
        return self._servers[node.name].port

    def probe_at(self, port: int) -> Probe:
        # Few allow other commands than this one. Without a quorum it answers in other words.
        return Probe(port, b"srvr")

    async def serves(self, node: Node, port: int) -> bool:
        try:
            async with asyncio.timeout(self.timing.answer_s):
                said = await self.text(node, port, b"srvr")
        except (OSError, TimeoutError):
            return False
        return said.startswith("Zookeeper version")

    async def version_at(self, name: str) -> str:
        row = await self.answer(name, self._told) or {}
        return row.get("Zookeeper version", "").split("-")[0]

    async def _session(self, node: Node, do: Callable[[Any], T]) -> T:
        """What is done in a session with a member. LabError where that does not end well."""

        def whole() -> T:
            session = Session(node.info.address, self.port_at(node), SESSION_S)
            try:
                return do(session.client)
            finally:
                session.close()

        try:
            return await asyncio.to_thread(whole)
        except Exception as error:  # whatever the library says
            raise LabError(
                f"{node.name}: {type(error).__name__}: {error}", remedy=BEFORE_A_RUN
            ) from None

    async def check(self) -> None:
        """One ensemble, whose members are those of the lab."""

        def members(client: Any) -> frozenset[str]:
            lines = client.get(CONFIG)[0].decode().splitlines()
            return frozenset(line for line in lines if line.startswith("server."))

        said = await self.each(list(self.nodes), lambda node: self._session(node, members))
        if len({*said.values()}) > 1:
            raise LabError(
                f"{', '.join(said)} are not of one ensemble",
                remedy="-o client_port= or another lab, for the members of one of them",
            )
        known = max(1, len(next(iter(said.values()))))
        if known != len(self.nodes):
            raise LabError(
                f"the ensemble has {known} members, and the lab {len(self.nodes)} nodes",
                remedy="adopt the machines of all members, and --nodes for as many",
            )
        lines = [line.partition("=")[2] for one in said.values() for line in one]
        ports = {int(port) for line in lines for port in _ELECTION.findall(line)}
        for name in self.nodes if ports else ():
            self.require_peer_port(name, ports)

    async def start(self) -> None:
        """Besides: the node below which all of the run is."""
        await super().start()
        node = next(iter(self.nodes.values()))
        await self._session(node, lambda client: client.ensure_path(self.prefix))

    async def take_away(self) -> None:
        """By the first member that does it."""
        why = ""
        for node in self.nodes.values():
            try:
                await self._session(node, lambda client: client.delete(self.prefix, recursive=True))
            except LabError as error:
                if error.message.startswith(f"{node.name}: NoNodeError"):
                    return
                why = error.message
            else:
                return
        raise LabError(
            f"{self.prefix} is left in the ensemble: {why}", remedy=f"deleteall {self.prefix}"
        )
