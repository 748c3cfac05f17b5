"""Connecting: per node one asyncssh connection and one agent; host key pinned, marker checked."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from typing import Any

import asyncssh

from clusters.remote import bundle
from clusters.remote.agent_client import AgentClient
from clusters.remote.node import RemoteNode
from dstest.core import limits
from dstest.core.errors import LabError, NotALabNode, RemoteLost, RemoteTimeout
from dstest.core.node import LabInfo, NodeInfo

__all__ = ["connect", "connect_all", "refuse_control_host"]

KEEPALIVE_S = 10.0
KEEPALIVES_LOST_MAX = 6
"""A node that a fault has frozen for less than a minute keeps its connection."""

STDERR_BYTES_MAX = 2000


class _AgentSession(asyncssh.SSHClientSession[bytes]):
    """The channel that an agent runs in."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._stderr = b""
        self.client: AgentClient

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self.client = AgentClient(self._node, chan.write)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype is None:
            self.client.feed(data)
        else:
            self._stderr = (self._stderr + data)[-STDERR_BYTES_MAX:]

    def connection_lost(self, exc: Exception | None) -> None:
        said = self._stderr.decode(errors="replace").strip()
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
            connection = await _open(info, deadline_s)
            try:
                return await _start_agent(info, connection)
            except BaseException:
                connection.abort()
                raise
    except TimeoutError:
        raise RemoteTimeout(
            f"{info.name} ({info.address}) is not usable: no agent within {deadline_s:g} s",
            remedy="`dstest lab status` tells whether the node runs",
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
        raise LabError(f"{info.name}: address {info.address}: {error}") from None
    for family, _, _, _, address in addresses:
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
            continue
        with socket.socket(family, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            probe.bind((address[0], 0))
            raise NotALabNode(
                f"{info.name} ({info.address}) is this machine itself; faults are never made here",
                remedy="name other machines as nodes",
            )


async def _open(info: NodeInfo, deadline_s: float) -> asyncssh.SSHClientConnection:
    if not info.known_hosts_path:
        raise LabError(
            f"{info.name} has no pinned host key, so nobody can tell whose machine answers",
            remedy="name a known_hosts file with the node's key",
        )
    options: dict[str, Any] = {
        "username": info.user,
        "client_keys": [info.key_path],
        "known_hosts": info.known_hosts_path,
        "config": None,
        "agent_path": None,
        "preferred_auth": "publickey",
        "encryption_algs": "^aes256-gcm@openssh.com,aes128-gcm@openssh.com",
        "compression_algs": None,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVES_LOST_MAX,
        "login_timeout": deadline_s,
    }
    where = f"{info.name} ({info.user}@{info.address}:{info.port})"
    try:
        return await asyncssh.connect(info.address, info.port, **options)
    except asyncssh.HostKeyNotVerifiable as error:
        raise LabError(
            f"{where} shows another host key than the pinned one: {error.reason}",
            remedy="this is not the machine that the lab was made with; make the lab anew",
        ) from None
    except asyncssh.PermissionDenied as error:
        raise LabError(f"{where} refuses the login: {error.reason}") from None
    except (asyncssh.Error, OSError) as error:
        raise LabError(
            f"{where} cannot be reached: {error}",
            remedy="`dstest lab status` tells whether the node runs",
        ) from None


async def _start_agent(info: NodeInfo, connection: asyncssh.SSHClientConnection) -> RemoteNode:
    try:
        session = _AgentSession(info.name)
        await connection.create_session(
            lambda: session, bundle.start_command(info.user), encoding=None
        )
    except asyncssh.Error as error:
        raise RemoteLost(f"{info.name}: the agent's channel does not open: {error}") from None
    hello = await session.client.start(info.lab_id, slowness=info.slowness)
    return RemoteNode(info, connection, session.client, hello, lambda: connect(info))
