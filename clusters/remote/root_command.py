"""One command as root over an SSH connection, without an agent: for machines that have none yet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

import asyncssh
import msgspec

from clusters.remote.sudo import Sudo
from dstest.core.errors import LabError, RemoteError, RemoteTimeout, reason_of
from dstest.core.node import NodeInfo

SAID_MAX: Final = 4000


class _Session(asyncssh.SSHClientSession[bytes]):
    """Collects what a command says, up to a limit."""

    def __init__(self, name: str, sudo: Sudo, bytes_max: int) -> None:
        self._name = name
        self._sudo = sudo
        self._bytes_max = bytes_max
        self.stdout = bytearray()
        self.stderr = b""
        self.status = -1
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype is not None:
            self.stderr = (self.stderr + data)[-SAID_MAX:]
            self._sudo.heard(data)
        elif len(self.stdout) + len(data) <= self._bytes_max:
            self.stdout += data
        elif not self.done.done():
            self.done.set_exception(
                LabError(f"{self._name} says more than {self._bytes_max} bytes when asked once")
            )

    def exit_status_received(self, status: int) -> None:
        self.status = status

    def connection_lost(self, exc: Exception | None) -> None:
        self._sudo.ended(self.said)
        if not self.done.done():
            self.done.set_result(None)

    @property
    def said(self) -> str:
        return self._sudo.told(self.stderr.decode(errors="replace")).strip()


async def run_as_root(
    connection: asyncssh.SSHClientConnection,
    info: NodeInfo,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout_s: float = 30.0,
    bytes_max: int = 1 << 23,
    root: bool = True,
) -> bytes:
    """What the command prints. `info` says whether sudo is needed, and its password; without `root`
    it is run as who has logged in.

    Raises LabError where sudo refuses, RemoteError where the command fails, RemoteTimeout.
    """
    sudo = Sudo(info if root else msgspec.structs.replace(info, user="root"))
    session = _Session(info.name, sudo, bytes_max)
    what = " ".join(argv)[:80]
    try:
        async with asyncio.timeout(timeout_s):
            channel, _ = await connection.create_session(
                lambda: session, sudo.command(argv), encoding=None
            )
            try:
                await sudo.passed(channel.write)
                with contextlib.suppress(OSError):  # it has ended by now, and read what it wanted
                    channel.write(stdin)
                    channel.write_eof()
                await session.done
            finally:
                channel.abort()
    except TimeoutError:
        raise RemoteTimeout(f"{info.name}: `{what}` did not end within {timeout_s:g} s") from None
    except (asyncssh.Error, OSError) as error:
        raise LabError(f"{info.name}: `{what}`: {reason_of(error)}") from None
    if session.status != 0:
        raise RemoteError(info.name, what, session.status, session.said)
    return bytes(session.stdout)
