"""Logging in by fabric as `login.log_in` does by asyncssh: through jump hosts, every key pinned."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

from fabric import Config, Connection
from paramiko import (  # type: ignore[import-untyped]
    ChannelException,
    RejectPolicy,
    ServiceRequestingTransport,
)
from paramiko.agent import AgentSSH  # type: ignore[import-untyped]
from paramiko.auth_strategy import (  # type: ignore[import-untyped]
    AuthFailure,
    AuthStrategy,
    InMemoryPrivateKey,
)
from paramiko.config import SSHConfig  # type: ignore[import-untyped]

from dstest.core.errors import LabError
from dstest.core.node import Login, NodeInfo

# Its tracebacks would come between the lines that people read; what matters is raised.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class _Agent(AgentSSH):  # type: ignore[misc]
    """The keys of the agent at a socket; paramiko itself asks the one of the environment alone."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__()
        self._peer = socket.socket(socket.AF_UNIX)
        try:
            self._peer.settimeout(timeout_s)
            self._peer.connect(path)
            self._connect(self._peer)
        except BaseException:
            self._peer.close()
            raise

    def close(self) -> None:
        self._close()


class _AnyOf(AuthStrategy):  # type: ignore[misc]
    """Tries one key of an agent after the other."""

    def __init__(self, user: str, agent: _Agent) -> None:
        super().__init__(SSHConfig())
        self._user, self._agent = user, agent

    def get_sources(self) -> Iterator[Any]:
        for key in self._agent.get_keys():
            yield InMemoryPrivateKey(self._user, key)


@contextlib.contextmanager
def logged_in(info: NodeInfo, *, timeout_s: float) -> Iterator[Any]:
    """A fabric connection to the node, of which each login may take `timeout_s`.

    LabError says why there is none: nobody there, another host key than the pinned one, a refusal.
    """
    with contextlib.ExitStack() as stack:
        connection = None
        for login in (*info.jumps, info.login):
            connection = _open(login, connection, timeout_s, stack)
        yield connection


def _open(login: Login, gateway: Any, timeout_s: float, stack: contextlib.ExitStack) -> Any:
    where = f"{login.user}@{login.host}:{login.port}"
    if not login.known_hosts_path:
        raise LabError(f"{where} has no pinned host key")
    kwargs: dict[str, Any] = {"banner_timeout": timeout_s, "auth_timeout": timeout_s}
    try:
        if login.agent_path and not login.key_path:
            agent = _Agent(login.agent_path, timeout_s)
            stack.callback(agent.close)
            kwargs["auth_strategy"] = _AnyOf(login.user, agent)
            # The usual one begins from the start with each key, which not every server suffers.
            kwargs["transport_factory"] = ServiceRequestingTransport
        else:
            kwargs |= {"key_filename": login.key_path, "look_for_keys": False, "allow_agent": False}
        connection = Connection(
            login.host,
            user=login.user,
            port=login.port,
            gateway=gateway,
            config=Config(lazy=True, overrides={"load_ssh_configs": False}),
            connect_timeout=timeout_s,
            connect_kwargs=kwargs,
        )
        # Not `close` of fabric: it closes nothing of a login that did not come to its end.
        stack.callback(connection.client.close)
        # Fabric trusts any host by default.
        connection.client.set_missing_host_key_policy(RejectPolicy())
        connection.client.load_host_keys(login.known_hosts_path)
        connection.open()
    except AuthFailure:
        raise LabError(f"{where}: it accepts no key of the agent {login.agent_path}") from None
    except ChannelException as error:
        raise LabError(f"{where}: its jump host cannot reach it: {error.text}") from None
    # Also what paramiko stumbles over in the answers of a strange server.
    except Exception as error:
        raise LabError(f"{where}: {str(error) or type(error).__name__}") from None
    # Of the way to the next one: paramiko would wait for an hour.
    connection.transport.channel_timeout = timeout_s
    return connection
