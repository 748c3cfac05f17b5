"""Chores of people on the nodes of a lab, by fabric and paramiko; never part of a run.

    dstest lab exec -- uptime

Commands have limits of time and output, and a node is answered for whatever it does: it may be
gone, hang, or say more than anybody reads. Logins go through jump hosts with every key pinned, as
in `login.log_in`. Paramiko shares no code with the engine of a run: where both fail the node or the
network is at fault; where only one fails that library is (`second_opinion`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

import msgspec
from fabric import Config, Connection
from paramiko import (  # type: ignore[import-untyped]
    AuthenticationException,
    ChannelException,
    ConfigParseError,
    Message,
    RejectPolicy,
    ServiceRequestingTransport,
    SSHException,
)
from paramiko.agent import AgentSSH  # type: ignore[import-untyped]
from paramiko.auth_handler import AuthOnlyHandler  # type: ignore[import-untyped]
from paramiko.auth_strategy import AuthFailure, AuthStrategy, InMemoryPrivateKey  # type: ignore[import-untyped]
from paramiko.common import cMSG_SERVICE_REQUEST, cMSG_USERAUTH_REQUEST  # type: ignore[import-untyped]
from paramiko.config import SSHConfig  # type: ignore[import-untyped]

from clusters.remote import agent_chore
from clusters.remote.bundle import MARKER_PATH, pipe_text, piped_argv
from clusters.remote.login import Sudo
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import Login, NodeInfo
from dstest.core.words import printable

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


class _Requests(AuthOnlyHandler):  # type: ignore[misc]
    """Waits for an answer from before it asks. Paramiko does so from after it has asked: an answer
    that is there sooner is lost to it, and the login ends by its time."""

    def send_auth_request(self, username: str, method: str, finish_message: Any = None) -> Any:
        self.auth_method, self.username = method, username
        message = Message()
        message.add_byte(cMSG_USERAUTH_REQUEST)
        for text in (username, "ssh-connection", method):
            message.add_string(text)
        finish_message(message)
        self.auth_event = threading.Event()
        with self.transport.lock:
            self.transport._send_message(message)
        return self.wait_for_response(self.auth_event)


class _OneSession(ServiceRequestingTransport):  # type: ignore[misc]
    """Asks once for the service of logging in and then tries each key: paramiko's usual transport
    begins from the start with each, which not every server suffers."""

    def get_auth_handler(self) -> _Requests:
        return _Requests(self)

    def ensure_session(self) -> None:
        """Paramiko's own waits for ever for a server that does not answer."""
        if not self.active or not self.initial_kex_done:
            raise SSHException("No existing session")
        if self._service_userauth_accepted:
            return
        message = Message()
        message.add_byte(cMSG_SERVICE_REQUEST)
        message.add_string("ssh-userauth")
        self._send_message(message)
        by_ns = clock.monotonic_ns() + int(self.auth_timeout * 1e9)
        while not self._service_userauth_accepted:
            if not self.active:
                raise self.get_exception() or SSHException("it closed the connection")
            if clock.monotonic_ns() > by_ns:
                self.close()
                raise AuthenticationException("Authentication timeout.")
            time.sleep(0.02)
        self.auth_handler = self.get_auth_handler()


@contextlib.contextmanager
def fabric_login(info: NodeInfo, *, timeout_s: float) -> Iterator[Any]:
    """A fabric connection to the node, of which each login may take `timeout_s`.

    LabError says why there is none: nobody there, another host key than the pinned one, a refusal.
    """
    with contextlib.ExitStack() as stack:
        connection = None
        for login in (*info.jumps, info.login):
            connection = _open(login, connection, timeout_s, stack)
        yield connection


def _refusal(error: AuthFailure, agent: str, timeout_s: float) -> str:
    """What came of the keys of an agent: an answer that did not come in time is no refusal."""
    if any("timeout" in str(one.result).lower() for one in error.result):
        return f"no answer to a key of the agent {agent} within {timeout_s:g} s"
    return f"it accepts no key of the agent {agent}"


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
            kwargs["transport_factory"] = _OneSession
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
    except AuthFailure as error:
        raise LabError(f"{where}: {_refusal(error, login.agent_path, timeout_s)}") from None
    except ChannelException as error:
        raise LabError(f"{where}: its jump host cannot reach it: {error.text}") from None
    # Also what paramiko stumbles over in the answers of a strange server.
    except Exception as error:
        raise LabError(f"{where}: {str(error) or type(error).__name__}") from None
    # Of the way to the next one: paramiko would wait for an hour.
    connection.transport.channel_timeout = timeout_s
    return connection


PARALLEL: Final = 16
CONNECT_S: Final = 10.0
OUTPUT_BYTES_MAX: Final = 1 << 20
"""Of what one node says on standard output, and again on standard error."""

GRACE_S: Final = 3.0
"""The node itself ends a command in time; this much later we stop waiting for its word."""

LATE_S: Final = 0.3
"""After the end of a command, for the last of its output: what it left running may hold that."""

CHORE_ARGV: Final = ("timeout", "--kill-after=1")
"""What each command of a chore begins with, its seconds and its own words after that."""

POLL_S: Final = 0.1
PART_BYTES: Final = 1 << 16
TIMED_OUT: Final = (agent_chore.TIMED_OUT, agent_chore.LEFT, 137)
"""Statuses where the command did not end: of `agent_chore` and `timeout`, and of one that had to be
killed."""

WATCH_S: Final = 3.0
"""After its time a command is ended by `agent_chore` with all that it has started; this much later
`timeout` ends that."""

LOST: Final = "the connection was lost before the command's end"

T = TypeVar("T")


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command went on one node. `status` is None where it did not end, and `error` says why.

    Bytes that are no UTF-8 are replaced; `cut_bytes` of output were left out, from its end.
    """

    status: int | None
    stdout: str = ""
    stderr: str = ""
    cut_bytes: int = 0
    error: str | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == 0 and self.error is None


class Result(Protocol):
    """What a chore makes of one node."""

    @property
    def ok(self) -> bool: ...


Stop = threading.Event
Chore = Callable[[NodeInfo, Stop], T]


class _Output:
    """Output up to a limit; the rest is counted."""

    def __init__(self, bytes_max: int) -> None:
        self._left = bytes_max
        self._parts: list[bytes] = []
        self.cut = 0

    def add(self, data: bytes) -> None:
        kept = data[: self._left]
        if kept:
            self._parts.append(kept)
        self._left -= len(kept)
        self.cut += len(data) - len(kept)

    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")


def on_each(nodes: Sequence[NodeInfo], chore: Chore[T]) -> dict[str, T]:
    """Do the chore on all nodes at once: node name -> what it came to. Ctrl-C ends all of them."""
    stop = Stop()
    with ThreadPoolExecutor(PARALLEL) as pool:
        waiting = {info.name: pool.submit(chore, info, stop) for info in nodes}
        try:
            return {name: future.result() for name, future in waiting.items()}
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_on(
    info: NodeInfo,
    argv: Sequence[str],
    stop: Stop,
    *,
    timeout_s: float,
    bytes_max: int = OUTPUT_BYTES_MAX,
    root: bool = True,
    watched: bool = False,
    env: Mapping[str, str] = {},
    stdin: Iterable[bytes] = (),
    take: Callable[[Iterable[bytes]], None] | None = None,
) -> CommandResult:
    """Run a program on a node, as `root` or who we log in as. Nothing a node does is raised.

    Each login on the way may take as long as the program may, and 10 s at most. Of a `watched`
    program what it has started is ended as well after the time; where some of it still runs the
    error says so, and its standard error what. It gets `env` besides; nothing of all that stands in
    the list of processes there.

    `take` is given the standard output as it comes, in place of keeping it; what it raises as
    LabError ends the program and is the error.
    """
    started_ns = clock.monotonic_ns()
    out, err = _Output(bytes_max), _Output(bytes_max)
    status, error = None, None
    try:
        with (
            fabric_login(info, timeout_s=min(CONNECT_S, timeout_s)) as connection,
            _session_of(connection) as channel,
        ):
            sudo = Sudo(info if root else msgspec.structs.replace(info, user="root"))
            later_s = WATCH_S if watched else 0.0
            stream = _Stream(channel, err, stop, timeout_s, later_s + GRACE_S)
            limited = [*CHORE_ARGV, f"{timeout_s + later_s:g}"]
            if watched:
                words = [f"{timeout_s:g}", *argv]
                stdin = chain([pipe_text(agent_chore, words, env)], stdin)
            limited += piped_argv() if watched else argv
            channel.exec_command(sudo.command(limited))
            stream.passed(sudo)
            if all(map(stream.send, stdin)):
                channel.shutdown_write()
            if take is not None:
                take(stream)
            for part in stream:
                out.add(part)
            status = stream.status()
        if status in TIMED_OUT and _seconds(started_ns) >= timeout_s:
            error = f"no end within {timeout_s:g} s"
            if watched and status == agent_chore.LEFT:
                error += ", and what it has started may still run there"
    except LabError as failure:
        error = failure.message
    except EOFError:
        error = LOST
    except (SSHException, OSError) as failure:
        error = f"{info.login.host}: {str(failure) or type(failure).__name__}"
    return CommandResult(
        status=None if error else status,
        stdout=out.text(),
        stderr=err.text(),
        cut_bytes=out.cut + err.cut,
        error=error,
        seconds=round(_seconds(started_ns), 3),
    )


@contextlib.contextmanager
def _session_of(connection: Any) -> Iterator[Any]:
    """A channel of its own. That it cannot be closed any more says nothing new."""
    channel = connection.transport.open_session(timeout=CONNECT_S)
    try:
        yield channel
    finally:
        with contextlib.suppress(SSHException, OSError, EOFError):
            channel.close()


def _seconds(since_ns: int) -> float:
    return (clock.monotonic_ns() - since_ns) / 1e9


class _Stream:
    """Standard output of a command, part by part, until it ends. LabError at the deadline."""

    def __init__(
        self, channel: Any, err: _Output, stop: Stop, within_s: float, grace_s: float = GRACE_S
    ) -> None:
        self._channel, self._err, self._stop = channel, err, stop
        self._within_s = within_s
        self._late_ns: int | None = None
        self._deadline_ns = clock.monotonic_ns() + int((within_s + grace_s) * 1e9)

    def _left_s(self) -> float:
        if self._stop.is_set():
            raise LabError("stopped")
        left_s = (self._deadline_ns - clock.monotonic_ns()) / 1e9
        if left_s <= 0:
            raise LabError(f"no end within {self._within_s:g} s, and no word since")
        return left_s

    def send(self, data: bytes) -> bool:
        """False where the program reads no more: what it says, and its status, tell why."""
        self._channel.settimeout(self._left_s())
        try:
            self._channel.sendall(data)
        except TimeoutError:
            self._left_s()
            raise
        except OSError:
            return False
        return True

    def passed(self, sudo: Sudo) -> None:
        """Returns once sudo lets the command run. LabError where it refuses."""
        while not sudo.through:
            self._left_s()
            over = self._over()
            if (data := sudo.due()) is not None:
                self.send(data)
            elif self._channel.recv_stderr_ready():
                sudo.heard(self._channel.recv_stderr(PART_BYTES))
            elif over:
                sudo.ended(sudo.said or "it says nothing")
            else:
                self._wait()
        self._err.add(sudo.rest)

    def __iter__(self) -> Any:
        while True:
            self._left_s()
            over = self._over()
            if self._channel.recv_stderr_ready():
                self._err.add(self._channel.recv_stderr(PART_BYTES))
            elif self._channel.recv_ready():
                yield self._channel.recv(PART_BYTES)
            elif over:
                return
            else:
                self._wait()

    def _over(self) -> bool:
        """Does nothing come any more? To be asked before a look at what has come by now."""
        if self._channel.closed or self._channel.eof_received:
            return True
        if not self._channel.exit_status_ready():
            return False
        now_ns = clock.monotonic_ns()
        self._late_ns = self._late_ns or now_ns + int(LATE_S * 1e9)
        return now_ns > self._late_ns

    def _wait(self) -> None:
        if self._late_ns is None:
            select.select([self._channel], [], [], POLL_S)
        else:
            clock.sleep_s(0.01)

    def status(self) -> int:
        """Of a command that has ended. LabError where the node did not say."""
        while not self._channel.exit_status_ready() and not self._channel.closed:
            self._left_s()
            clock.sleep_s(0.01)
        status = int(self._channel.recv_exit_status())
        if status < 0:
            raise LabError(LOST)
        return status


LOG_BYTES: Final = 64 << 10
COMMAND: Final = "DSTEST_COMMAND"
MEMBER: Final = "/opt/dstest-services/member.json"
MEMBER_BYTES_MAX: Final = 1 << 20


def run_everywhere(
    nodes: Sequence[NodeInfo],
    command: str,
    *,
    timeout_s: float = 60.0,
    bytes_max: int = OUTPUT_BYTES_MAX,
    root: bool = True,
) -> dict[str, CommandResult]:
    """Run a shell command on all nodes at once: node name -> how it went.

    Host keys must be the pinned ones. A command that has not ended after `timeout_s` is killed,
    with all that it has started there, detached or not.
    """

    def one(info: NodeInfo, stop: Stop) -> CommandResult:
        # Not among its words: a `pkill -f` would find and end the shell that runs it.
        argv = ["sh", "-c", f'c=${COMMAND}; unset {COMMAND}; eval "$c"']
        return run_on(
            info,
            argv,
            stop,
            env={COMMAND: command},
            timeout_s=timeout_s,
            bytes_max=bytes_max,
            root=root,
            watched=True,
        )

    return on_each(nodes, one)


def services(nodes: Sequence[NodeInfo], *, timeout_s: float = 20.0) -> dict[str, dict[str, str]]:
    """Node name -> service -> path of its log: what a system that we start has put there.

    Nodes without one, and those that do not answer, have none.
    """

    def one(info: NodeInfo, stop: Stop) -> dict[str, str]:
        argv = ["cat", MEMBER]
        said = run_on(info, argv, stop, timeout_s=timeout_s, bytes_max=MEMBER_BYTES_MAX)
        return _logs_in(said.stdout) if said.ok else {}

    return on_each(nodes, one)


def _logs_in(text: str) -> dict[str, str]:
    try:
        rows = json.loads(text)["services"]
        return {str(row["name"]): str(row["log"]) for row in rows}
    except (ValueError, KeyError, TypeError):
        return {}


def logs(
    nodes: Sequence[NodeInfo],
    paths: Mapping[str, Sequence[str]],
    *,
    bytes_max: int = LOG_BYTES,
    timeout_s: float = 60.0,
) -> dict[str, CommandResult]:
    """The last bytes of these files (node name -> paths), each below its name, node by node."""

    def one(info: NodeInfo, stop: Stop) -> CommandResult:
        wanted = paths.get(info.name, ())
        if not wanted:
            return CommandResult(status=0)
        argv = ["tail", "-v", "-c", str(bytes_max), "--", *wanted]
        room = (bytes_max + 4096) * len(wanted)
        return run_on(info, argv, stop, timeout_s=timeout_s, bytes_max=room)

    return on_each(nodes, one)


def render(results: Mapping[str, CommandResult]) -> str:
    """What each node said, under its name; what would steer a terminal is replaced."""
    parts = []
    for name, said in results.items():
        parts.append(f"== {name}: {_plain(said.error or f'status {said.status}')}\n")
        parts += [
            _plain(text) if text.endswith("\n") else f"{_plain(text)}\n"
            for text in (said.stdout, said.stderr)
            if text
        ]
        if said.cut_bytes:
            parts.append(f"== {name}: {said.cut_bytes} more bytes were left out\n")
    return "".join(parts)


def _plain(text: str) -> str:
    return printable(text.expandtabs())


MARKER_BYTES_MAX: Final = 1000


def parse_ssh_config(text: str, *, lab_id: str, known_hosts_path: str = "") -> list[NodeInfo]:
    """One node per named host, in order of appearance; patterns name no host.

    This is what `vagrant ssh-config` prints. Raises LabError where it cannot be read.
    """
    try:
        config = SSHConfig.from_text(text)
    except (ConfigParseError, ValueError) as error:
        raise LabError(f"not an ssh_config: {error}") from None
    named = [
        word.strip('"')
        for line in text.splitlines()
        if (words := line.split())[:1] and words[0].lower() == "host"
        for word in words[1:]
    ]
    nodes = []
    for name in dict.fromkeys(n for n in named if not set(n) & set("*?!")):
        options = config.lookup(name)
        keys = options.get("identityfile") or [""]
        nodes.append(
            NodeInfo(
                name=name,
                address=options.get("hostname", name),
                port=int(options.get("port", 22)),
                user=options.get("user", "root"),
                key_path=str(keys[0]).strip('"'),
                known_hosts_path=known_hosts_path,
                lab_id=lab_id,
            )
        )
    return nodes


def second_opinion(info: NodeInfo, *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Log in with paramiko, as chores do, and read the lab marker. Blocks.

    Returns `{"server", "host_key", "lab_id", "seconds"}`. Raises LabError with paramiko's reason.
    """
    started_ns = clock.monotonic_ns()
    try:
        with fabric_login(info, timeout_s=timeout_s) as connection:
            _, out, _ = connection.client.exec_command(f"cat {MARKER_PATH}", timeout=timeout_s)
            marker = out.read(MARKER_BYTES_MAX).decode(errors="replace").strip()
            return {
                "server": connection.transport.remote_version,
                "host_key": connection.transport.get_remote_server_key().get_name(),
                "lab_id": marker or None,
                "seconds": (clock.monotonic_ns() - started_ns) / 1e9,
            }
    except LabError as error:
        raise LabError(f"{info.name}: paramiko: {error.message}") from None
    except Exception as error:  # it stumbles over the answers of a strange server in many ways
        raise LabError(f"{info.name}: paramiko: {str(error) or type(error).__name__}") from None
