"""Connecting: per node one asyncssh connection and one agent; host key pinned, marker checked."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket

import asyncssh

from clusters.remote import bundle
from clusters.remote.agent_client import AgentClient
from clusters.remote.login import STATUS_HELPS, log_in
from clusters.remote.node import RemoteNode
from clusters.remote.sudo import Sudo
from dstest.core import limits
from dstest.core.errors import LabError, NotALabNode, RemoteLost, RemoteTimeout, reason_of
from dstest.core.node import LabInfo, NodeInfo

STDERR_BYTES_MAX = 2000


class _AgentSession(asyncssh.SSHClientSession[bytes]):
    """The channel that an agent runs in."""

    def __init__(self, node: str, sudo: Sudo) -> None:
        self._node = node
        self._sudo = sudo
        self._stderr = b""
        self.client: AgentClient

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self.client = AgentClient(self._node, chan.write)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype is None:
            self.client.feed(data)
        else:
            self._stderr = (self._stderr + data)[-STDERR_BYTES_MAX:]
            self._sudo.heard(data)

    def connection_lost(self, exc: Exception | None) -> None:
        said = self._sudo.told(self._stderr.decode(errors="replace")).strip()
        self._sudo.ended(said)
        self.client.lost(" ".join(filter(None, [str(exc or "the agent ended"), said])))


async def connect(
    info: NodeInfo, *, deadline_s: float = limits.SSH_CONNECT_TIMEOUT_S
) -> RemoteNode:
    """A connected node with its agent running.

    Raises NotALabNode for this machine and for a host without the lab's marker, RemoteTimeout,
    LabError where the host key is not the pinned one, the login is refused or nobody answers. A
    node that is slow has as much more time.
    """
    deadline_s *= info.slowness
    try:
        async with asyncio.timeout(deadline_s):
            await refuse_control_host(info)
            connection = await log_in(info.name, info.login, info.jumps, deadline_s=deadline_s)
            try:
                return await _start_agent(info, connection)
            except BaseException:
                connection.abort()
                raise
    except TimeoutError:
        raise RemoteTimeout(
            f"{info.name} ({info.address}) is not usable: no agent within {deadline_s:g} s",
            remedy=STATUS_HELPS,
        ) from None


async def connect_all(
    lab: LabInfo, *, deadline_s: float = limits.SSH_CONNECT_TIMEOUT_S
) -> dict[str, RemoteNode]:
    """All nodes of a lab at once, by name. Where one fails all are closed and its error raised."""
    outcomes = await asyncio.gather(
        *(connect(info, deadline_s=deadline_s) for info in lab.nodes), return_exceptions=True
    )
    nodes = [outcome for outcome in outcomes if isinstance(outcome, RemoteNode)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        await asyncio.gather(*(node.close() for node in nodes))
        raise failures[0]
    return {node.name: node for node in nodes}


async def refuse_control_host(info: NodeInfo) -> None:
    """Raise NotALabNode where the address is this machine's own, other than loopback.

    Loopback stays possible for tests; the marker is checked there as everywhere.
    """
    loop = asyncio.get_running_loop()
    try:
        addresses = await loop.getaddrinfo(info.address, info.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LabError(f"{info.name}: address {info.address}: {reason_of(error)}") from None
    for family, _, _, _, address in addresses:
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
            continue
        with socket.socket(family, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            probe.bind((address[0], 0))
            raise NotALabNode(
                f"{info.name} ({info.address}) is this machine itself; faults are never made here",
                remedy="name other machines as nodes",
            )


async def _start_agent(info: NodeInfo, connection: asyncssh.SSHClientConnection) -> RemoteNode:
    sudo = Sudo(info)
    try:
        session = _AgentSession(info.name, sudo)
        channel, _ = await connection.create_session(
            lambda: session, sudo.command(bundle.start_argv()), encoding=None
        )
    except asyncssh.Error as error:
        raise RemoteLost(
            f"{info.name}: the agent's channel does not open: {reason_of(error)}"
        ) from None
    await sudo.passed(channel.write)
    hello = await session.client.start(info.lab_id, slowness=info.slowness)
    return RemoteNode(info, connection, session.client, hello, lambda: connect(info))
