"""Logging in over SSH: one machine, or one behind others; every host key pinned.

Where somebody else than root has logged in, sudo makes them root, with a password or without. It
goes over the channel's standard input when sudo asks for it, and never into a command line, an
environment, a log or a message.

`run_as_root` needs no agent, for machines that have none yet; `ssh_argv` is OpenSSH as people call
it, with the keys, host keys and jump hosts that a run has.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import asyncssh
import msgspec

from dstest.core.errors import LabError, RemoteError, RemoteTimeout, reason_of
from dstest.core.node import Login, NodeInfo

KEEPALIVE_S = 10.0
KEEPALIVES_LOST_MAX = 6
"""A node that a fault has frozen for less than a minute keeps its connection."""

STATUS_HELPS = "`dstest lab status` tells whether the node runs"


class KeyRefused(LabError):
    """A key does not open: another one may."""


class _Behind(asyncssh.SSHClient):
    """A connection through another one, which ends with it."""

    def __init__(self, jump: asyncssh.SSHClientConnection | None) -> None:
        self._jump = jump

    def connection_lost(self, exc: Exception | None) -> None:
        if self._jump is not None:
            self._jump.close()


async def log_in(
    name: str, login: Login, jumps: Sequence[Login] = (), *, deadline_s: float
) -> asyncssh.SSHClientConnection:
    """A connection to the machine that `name` stands for in messages, through the `jumps`.

    Raises LabError where a host key is not the pinned one, a login is refused or nobody answers.
    The caller keeps the deadline of all of it; `deadline_s` is that of each login.
    """
    connection: asyncssh.SSHClientConnection | None = None
    try:
        for jump in jumps:
            connection = await open_login(f"{name}: jump host", jump, connection, deadline_s)
        return await open_login(name, login, connection, deadline_s)
    except BaseException:
        if connection is not None:
            connection.abort()
        raise


async def open_login(
    name: str,
    login: Login,
    through: asyncssh.SSHClientConnection | None,
    deadline_s: float,
    *,
    host_key: asyncssh.SSHKey | None = None,
) -> asyncssh.SSHClientConnection:
    """One login, through a connection that stands; `host_key` is the pinned one where no file has
    it yet. Raises KeyRefused and LabError."""
    where = f"{name} ({login.user}@{login.host}:{login.port})"
    if not login.known_hosts_path:
        raise LabError(
            f"{where} has no pinned host key, so nobody can tell whose machine answers",
            remedy="name a known_hosts file with the machine's key",
        )
    options: dict[str, Any] = {
        "username": login.user,
        "client_keys": [login.key_path] if login.key_path else [],
        "known_hosts": ([host_key], [], []) if host_key else login.known_hosts_path,
        "config": None,
        "agent_path": login.agent_path or None,
        "preferred_auth": "publickey",
        "encryption_algs": "^aes256-gcm@openssh.com,aes128-gcm@openssh.com",
        "compression_algs": None,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": KEEPALIVES_LOST_MAX,
        "login_timeout": deadline_s,
        "client_factory": lambda: _Behind(through),
        "tunnel": through or (),
    }
    try:
        return await asyncssh.connect(login.host, login.port, **options)
    except asyncssh.HostKeyNotVerifiable as error:
        raise LabError(
            f"{where} shows another host key than the pinned one: {error.reason}",
            remedy="this is not the machine that the lab was made with: make the lab anew; a"
            " machine of yours that was set up anew: `dstest lab release`, then adopt it again",
        ) from None
    except asyncssh.PermissionDenied as error:
        raise KeyRefused(
            f"{where} refuses the login: {error.reason}",
            remedy=f"it must accept {login.key_path or 'a key of the agent'} for {login.user}",
        ) from None
    except asyncssh.KeyEncryptionError:
        raise KeyRefused(
            f"{where}: the key {login.key_path} is encrypted", remedy="load it into an ssh-agent"
        ) from None
    except (asyncssh.KeyImportError, FileNotFoundError, PermissionError) as error:
        raise KeyRefused(f"{where}: key {login.key_path}: {reason_of(error)}") from None
    except (asyncssh.Error, OSError) as error:
        raise LabError(
            f"{where} cannot be reached: {reason_of(error)}", remedy=STATUS_HELPS
        ) from None


def ssh_argv(node: NodeInfo, command: Sequence[str] = ()) -> list[str]:
    """Log in to the node, or run a command there, whose words its shell will read."""
    argv = _ssh(node.login)
    if node.jumps:
        argv += ["-o", f"ProxyCommand={_through(node.jumps, node.login)}"]
    return [*argv, *_destination(node.login), *command]


def _through(jumps: Sequence[Login], to: Login) -> str:
    """The command that brings a connection to this machine, through the jump hosts; a shell of ours
    and ssh's own replacements read it."""
    *before, last = jumps
    argv = [*_ssh(last), "-W", f"[{to.host}]:{to.port}"]
    if before:
        argv += ["-o", f"ProxyCommand={_through(before, last)}"]
    return shlex.join([*argv, *_destination(last)]).replace("%", "%%")


def _ssh(login: Login) -> list[str]:
    argv = ["ssh", "-F", "/dev/null", "-p", str(login.port)]
    argv += ["-i", login.key_path] if login.key_path else []
    options = {
        "UserKnownHostsFile": login.known_hosts_path,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "IdentitiesOnly": "no" if login.agent_path else "yes",
        "IdentityAgent": login.agent_path or "none",
        "ConnectTimeout": "10",
    }
    for name, value in options.items():
        argv += ["-o", f"{name}={value}"]
    return argv


def _destination(login: Login) -> list[str]:
    return ["-l", login.user, "--", login.host]


HEARD_MAX: Final = 8000
"""Of what comes before sudo lets us pass; a lecture is shorter."""


def password_of(path: str) -> bytes:
    """The first line of the file. Raises LabError where it cannot be read, or others can."""
    file = Path(path)
    try:
        mode = file.stat().st_mode
        text = file.read_bytes()
    except OSError as error:
        raise LabError(f"the sudo password cannot be read: {error}") from None
    if mode & 0o077:
        raise LabError(
            f"{path} holds a password and others may read it", remedy=f"chmod 600 {path}"
        )
    line = text.partition(b"\n")[0].rstrip(b"\r")
    if not line or b"\0" in line:
        raise LabError(f"{path} holds no password", remedy="its first line is the password")
    return line


class Sudo:
    """One command on one node, run as root.

    sudo = Sudo(info)
    ... start sudo.command(argv); give what it says on stderr to heard(), its end to ended()
    await sudo.passed(write)    # from here on standard input is the command's own
    """

    def __init__(self, info: NodeInfo) -> None:
        self._name = info.name
        self._needed = info.user != "root"
        self._password = (
            password_of(info.sudo_password_path)
            if self._needed and info.sudo_password_path
            else None
        )
        token = secrets.token_hex(8)
        self._asks = f"dstest-asks-{token}:"
        self._ready = f"dstest-ready-{token}"
        self._heard = b""
        self._news = asyncio.Event()
        self._end: str | None = None
        self._answered = 0

    def command(self, argv: Sequence[str]) -> str:
        """For the login shell of the node."""
        words = list(argv)
        if self._password is not None:
            # Whatever a session before has left must not decide whether sudo asks.
            ready = f"echo {self._ready} >&2; exec {shlex.join(words)}"
            words = ["sudo", "-k", "-S", "-p", self._asks, "sh", "-c", ready]
        elif self._needed:
            words = ["sudo", "-n", *words]
        return "exec " + shlex.join(words)

    def heard(self, data: bytes) -> None:
        """What the command has said on standard error."""
        if self._password is not None:
            self._heard = (self._heard + data)[-HEARD_MAX:]
            self._news.set()

    def ended(self, said: str) -> None:
        """The command's channel is gone; `said` were its last words."""
        self._end = said
        self._news.set()

    def told(self, text: str) -> str:
        """What was said, without our own words in it."""
        return text.replace(self._asks, "").replace(self._ready, "")

    @property
    def said(self) -> str:
        """All that was heard, without our own words in it."""
        return self.told(self._heard.decode(errors="replace")).strip()

    @property
    def through(self) -> bool:
        """Does the command run, so that standard input is its own?"""
        return self._password is None or self._ready.encode() in self._heard

    @property
    def rest(self) -> bytes:
        """What the command itself has said on standard error by now, where it runs."""
        return self._heard.partition(self._ready.encode() + b"\n")[2]

    def due(self) -> bytes | None:
        """What is to be written next, if anything is. Raises LabError where sudo refuses."""
        if self.through or self._password is None:
            return None
        times = self._heard.count(self._asks.encode())
        if times > 1 or self._end is not None:
            why = "refuses the password" if times > 1 else f"ends: {self._end}"
            raise LabError(
                f"{self._name}: sudo {why}",
                remedy="`sudo -k; sudo -v` on the node tells more; `dstest lab adopt` takes another"
                " password",
            )
        if times == self._answered:
            return None
        self._answered = times
        return self._password + b"\n"

    async def passed(self, write: Callable[[bytes], None]) -> None:
        """Returns once the command runs. Raises LabError where sudo refuses it."""
        while not self.through:
            if (data := self.due()) is not None:
                write(data)
            self._news.clear()
            await self._news.wait()


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
