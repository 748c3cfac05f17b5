"""Logging in over SSH: one machine, or one behind others; every host key pinned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncssh

from dstest.core.errors import LabError, reason_of
from dstest.core.node import Login

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
