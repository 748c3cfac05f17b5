"""A machine that answers SSH on loopback and whose agent lies: what it says is given per test."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh

from clusters.remote import bundle
from dstest.core.node import NodeInfo

__all__ = ["HELLO", "Lies", "frame", "hostile", "silent_port"]

HELLO = {
    "version": bundle.version(),
    "lab_id": "lab",
    "hostname": "n1",
    "boot_id": "0",
    "pid": 7,
}

Forwards = bool | Callable[[], Awaitable[Any]]
Lies = Callable[[asyncssh.SSHServerProcess[bytes]], Awaitable[None]]


def frame(message: Any) -> bytes:
    """One frame: of an object, or of bytes as they are."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(data)) + data


class _Anybody(asyncssh.SSHServer):
    def __init__(
        self, known: list[asyncssh.SSHServerConnection], accepts: str | None, forwards: Forwards
    ) -> None:
        self._known = known
        self._accepts, self._forwards = accepts, forwards

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._known.append(conn)

    def begin_auth(self, username: str) -> bool:
        return self._accepts is not None

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Any:
        return self._forwards() if callable(self._forwards) else self._forwards


@contextlib.asynccontextmanager
async def hostile(
    folder: Path, lies: Lies, *, accepts: str | None = None, forwards: Forwards = False
) -> AsyncIterator[NodeInfo]:
    """The node that is reached there; what `lies` does stands for its agent.

    It takes every login, or those with the key whose public part `accepts` is, and may be a jump
    host: then it `forwards`, or does what is given in place of that.
    """
    key = asyncssh.generate_private_key("ssh-ed25519")
    mine = asyncssh.generate_private_key("ssh-ed25519")
    mine.write_private_key(str(folder / "key"))

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        with contextlib.suppress(asyncssh.Error, OSError):
            await lies(process)
        process.exit(0)

    connections: list[asyncssh.SSHServerConnection] = []
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_factory=lambda: _Anybody(connections, accepts, forwards),
        authorized_client_keys=asyncssh.import_authorized_keys(accepts) if accepts else None,
        server_host_keys=[key],
        process_factory=serve,
        encoding=None,
    )
    port = server.get_port()
    known = folder / "known_hosts"
    known.write_bytes(f"[127.0.0.1]:{port} ".encode() + key.export_public_key("openssh"))
    try:
        yield NodeInfo(
            name="n1",
            address="127.0.0.1",
            port=port,
            key_path=str(folder / "key"),
            known_hosts_path=str(known),
            lab_id="lab",
        )
    finally:
        server.close()
        for connection in connections:
            connection.abort()
        await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def silent_port(
    folder: Path, says: Callable[[asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[NodeInfo]:
    """A node at whose port something else than sshd is."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(OSError):
            await says(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(folder / "key"))
    (folder / "known_hosts").write_text("")
    try:
        yield NodeInfo(
            name="n1",
            address="127.0.0.1",
            port=server.sockets[0].getsockname()[1],
            key_path=str(folder / "key"),
            known_hosts_path=str(folder / "known_hosts"),
            lab_id="lab",
        )
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)
