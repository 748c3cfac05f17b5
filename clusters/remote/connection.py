"""Connecting: per node one asyncssh connection and one agent; host key pinned, marker checked. An
agent may be a child of this process as well, over pipes: the same code and frames without a node.
`RemoteNode` is a connected node, as `dstest.core.node.Node` describes it; what it leaves there are
leases of a run that is gone.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import logging
import os
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import asyncssh

from clusters.remote import bundle
from clusters.remote.agent_client import AgentClient
from clusters.remote.bundle import RUN_PATH
from clusters.remote.login import STATUS_HELPS, Sudo, log_in
from dstest.core import limits, processes
from dstest.core.errors import (
    LabError,
    NotALabNode,
    RemoteError,
    RemoteLost,
    RemoteTimeout,
    reason_of,
)
from dstest.core.node import Completed, LabInfo, NodeInfo
from dstest.core.residue import GUARD_LEASES, Residue

log = logging.getLogger(__name__)

PART_BYTES = 1 << 20
"""Larger files go in parts, so that they do not hold up the small requests behind them."""

EXEC_GRACE_S = 2.0
"""The agent keeps the deadline of a program; we wait this much longer for its word on it."""

TRANSFER_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 3.0
CHANNEL_REFUSED_S = 0.01

RELEASE_S: Final = 40.0
"""A lease that fires just now is released when its commands have ended."""

T = TypeVar("T")

START_TIMEOUT_S = 10.0
END_TIMEOUT_S = 5.0

_LEASES: Final = f"ls {RUN_PATH}/leases {RUN_PATH}/firing 2>/dev/null | grep -v -e : -e '^$'"

_HEALS: Final = f"""\
case $lease in {"|".join(GUARD_LEASES)}) exit ;; esac
cat {RUN_PATH}/leases/$lease/lease.json {RUN_PATH}/firing/$lease/lease.json 2>/dev/null |
sed -n 's/.*"heal": \\[\\[\\(.*\\)\\]\\], "step_s".*/\\1/p' |
head -n 1 | tr -d '"[],' | cut -c 1-120
"""
"""What the lease of a fault will do, as far as a line has room."""

_EXPIRE: Final = f"""\
cd {RUN_PATH}/leases 2>/dev/null || exit 0
for _ in $(seq 250); do
    for lease in *; do
        [ -d "$lease" ] || continue
        echo 0 >"$lease/.expired" && mv "$lease/.expired" "$lease/beat"
    done 2>/dev/null
    [ -z "$(ls {RUN_PATH}/leases {RUN_PATH}/firing | grep -v -e : -e '^$')" ] && exit 0
    sleep 0.1
done
exit 1
"""
"""What a lease promises is kept, at once and by the janitor, not called off."""

LEASES: Final = Residue(
    name="leases",
    mark=f"it is in {RUN_PATH}/leases or firing",
    look=f"for lease in $({_LEASES}); do heal=$({_HEALS}); "
    'echo "ours lease $lease${heal:+, which runs: $heal}"; done',
    remove=_EXPIRE,
    rank=0,
    janitor=False,
)

OTHERS_DONE: Final = f"""\
for _ in $(seq 90); do
    left=no
    for lease in $({_LEASES}); do
        case " $* " in *" $lease "*) ;; *) left=yes ;; esac
    done
    [ $left = no ] && exit 0
    sleep 0.1
done
"""
"""Waits up to nine seconds until no lease is armed or firing but those that `$*` names."""


class _Armed(NamedTuple):
    ttl_s: float
    healing_s: float
    """How long its commands may take together."""


class RemoteNode:
    """Made by `connect`. Leases are renewed while it is open; closing lets them run out.

    `lost_leases` are leases that the node's janitor ended although nobody released them: their
    faults were healed early.
    """

    def __init__(
        self,
        info: NodeInfo,
        connection: asyncssh.SSHClientConnection,
        agent: AgentClient,
        hello: dict[str, Any],
        connect: Callable[[], Awaitable[RemoteNode]],
    ) -> None:
        self._info = info
        self._connect = connect
        self._connection = connection
        self._agent = agent
        self._channels = asyncio.Semaphore(limits.CHANNELS_PER_CONNECTION_MAX - 1)
        self._leases: dict[str, _Armed] = {}
        self._renewing: asyncio.Task[None] | None = None
        self.hello = hello
        self.lost_leases: set[str] = set()
        self.away = False

    @property
    def info(self) -> NodeInfo:
        return self._info

    @property
    def name(self) -> str:
        return self._info.name

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 10.0,
        stdin: str | None = None,
        check: bool = True,
    ) -> Completed:
        """See `Node.run`. At the deadline the program and its process group are killed."""
        self._refuse_away()
        timeout_s *= self._info.slowness
        words = [str(word) for word in argv]
        args: dict[str, Any] = {"argv": words, "timeout_s": timeout_s}
        if stdin is not None:
            args["stdin"] = stdin
        result = await self._agent.call("exec", args, timeout_s + EXEC_GRACE_S)
        if check and result["status"] != 0:
            raise RemoteError(self.name, shlex.join(words), result["status"], result["stderr"])
        return Completed(
            status=result["status"],
            stdout=result["stdout"],
            stderr=result["stderr"],
            duration_ns=result["duration_ns"],
        )

    async def call(self, verb: str, *, timeout_s: float = 5.0, **args: Any) -> Any:
        """See `Node.call`. Raises LabError where the node refuses, RemoteError for its errno."""
        self._refuse_away()
        return await self._agent.call(verb, args, timeout_s * self._info.slowness)

    def _refuse_away(self) -> None:
        """A machine whose power was cut closes no connection: nobody waits for its answer."""
        if self.away:
            raise RemoteLost(f"{self.name}: it is down on purpose")

    async def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """See `Node.put`. A large file goes in parts, through the agent: it may write where the
        user that we log in as may not."""
        if len(data) <= PART_BYTES:
            await self._write(path, data, mode)
            return
        temporary = f"{path}.dstest.part"
        try:
            for at in range(0, len(data), PART_BYTES):
                await self._write(temporary, data[at : at + PART_BYTES], mode, append=at > 0)
            await self.run(["mv", "-fT", temporary, path])
        except (RemoteError, RemoteTimeout):
            await self.run(["rm", "-f", temporary], check=False)
            raise

    async def _write(self, path: str, data: bytes, mode: int, *, append: bool = False) -> None:
        more = {"append": True} if append else {}
        text = base64.b64encode(data).decode("ascii")
        limit_s = TRANSFER_TIMEOUT_S
        await self.call("write", path=path, data=text, mode=mode, timeout_s=limit_s, **more)

    async def get(self, path: str, *, bytes_max: int = 1 << 26, from_start: bool = False) -> bytes:
        """See `Node.get`."""
        parts: list[bytes] = []
        if from_start:
            at, end, tail = 0, bytes_max, b""
        else:
            want = min(bytes_max, PART_BYTES)
            size, tail = await self._read(path, -want, want)
            at, end = max(0, size - bytes_max), size - want
        while at < end:
            wanted = min(PART_BYTES, end - at)
            _, part = await self._read(path, at, wanted)
            parts.append(part)
            if len(part) < wanted:  # it has become shorter meanwhile
                break
            at += len(part)
        return b"".join([*parts, tail])

    async def _read(self, path: str, offset: int, bytes_max: int) -> tuple[int, bytes]:
        """How long the file is, and bytes of it."""
        limit_s = TRANSFER_TIMEOUT_S
        found = await self.call(
            "read", path=path, offset=offset, bytes_max=bytes_max, timeout_s=limit_s
        )
        try:
            data = base64.b64decode(found["data"], validate=True)
        except ValueError as error:
            raise LabError(f"{self.name}: what it says to be in {path}: {error}") from None
        if len(data) > bytes_max:
            raise LabError(
                f"{self.name}: {len(data)} bytes of {path}, of which {bytes_max} were asked"
            )
        return found["size"], data

    async def _opened(self, start: Callable[[], Awaitable[T]]) -> T:
        """Open a channel; the caller sets the deadline.

        sshd frees a session a moment after its channel has closed, and refuses meanwhile. Nothing
        was sent then, so asking again repeats nothing.
        """
        while True:
            try:
                return await start()
            except asyncssh.ChannelOpenError as error:
                if error.code != asyncssh.OPEN_CONNECT_FAILED or self._connection.is_closed():
                    raise
                await asyncio.sleep(CHANNEL_REFUSED_S)

    async def exec_channel(self, command: str, *, timeout_s: float = 10.0) -> Completed:
        """Run a shell command over a channel of its own; for when the agent cannot.

        Costs several milliseconds. Raises as `run` does, but never for the status.
        """
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._channels,
                await self._opened(lambda: self._connection.create_process(command)) as process,
            ):
                done = await process.wait()
        except TimeoutError:
            raise RemoteTimeout(
                f"{self.name}: `{command}` did not end within {timeout_s:g} s"
            ) from None
        except (asyncssh.Error, OSError) as error:
            raise RemoteLost(f"{self.name}: `{command}`: {reason_of(error)}") from None
        status = -1 if done.returncode is None else done.returncode
        return Completed(
            status=status, stdout=str(done.stdout or ""), stderr=str(done.stderr or "")
        )

    async def arm_lease(
        self,
        lease_id: str,
        heal: Sequence[Sequence[str]],
        *,
        ttl_s: float,
        step_s: float = limits.HEAL_STEP_S,
    ) -> None:
        """See `Node.arm_lease`. Raises LabError where no janitor confirms it."""
        commands = [[str(word) for word in argv] for argv in heal]
        lease = {"id": lease_id, "heal": commands, "ttl_s": ttl_s, "step_s": step_s}
        await self.call("lease_arm", **lease, timeout_s=15.0)
        self.lost_leases.discard(lease_id)
        self._leases[lease_id] = _Armed(ttl_s, len(commands) * step_s)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(), name=f"renew leases {self.name}")

    async def release_lease(self, lease_id: str) -> None:
        """See `Node.release_lease`. A lease that had run out is in `lost_leases` afterwards."""
        # Renewed no longer, whatever becomes of the call: an unreleased lease heals by itself.
        armed = self._leases.pop(lease_id, None)
        within_s = RELEASE_S + (armed.healing_s if armed else 0.0)
        result = await self.call("lease_release", id=lease_id, timeout_s=within_s)
        if result["fired"]:
            self.lost_leases.add(lease_id)

    def holds_lease(self, lease_id: str) -> bool:
        """Is this lease armed and renewed by us?"""
        return lease_id in self._leases

    async def reopen(self) -> None:
        """See `Reopens.reopen`. Leases of the connection before are not renewed any more."""
        self._leases.clear()
        self._agent.lost("the node was restarted")
        self._connection.abort()
        fresh = await self._connect()
        self._connection, self._agent, self.hello = fresh._connection, fresh._agent, fresh.hello

    async def _renew(self) -> None:
        while self._leases:
            await asyncio.sleep(
                min(limits.LEASE_RENEW_S, min(lease.ttl_s for lease in self._leases.values()) / 3)
            )
            ids = list(self._leases)
            if not ids:
                return
            try:
                # A lease runs out when it does, however slow the node is.
                result = await self._agent.call("lease_renew", {"ids": ids}, limits.LEASE_RENEW_S)
            except RemoteTimeout:
                continue
            except LabError as error:
                if self.away:
                    return
                log.warning("leases %s on %s are not renewed any more: %s", ids, self.name, error)
                return
            for lease_id in result["lost"]:
                if self._leases.pop(lease_id, None) is not None:
                    self.lost_leases.add(lease_id)
                    log.warning(
                        "lease %s on %s ran out: the node healed itself", lease_id, self.name
                    )

    async def close(self) -> None:
        """Disconnect. Leases are not released: they run out, and the node heals."""
        if self._renewing is not None:
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
        self._agent.lost("closed")
        self._connection.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._connection.wait_closed()
        except TimeoutError:
            self._connection.abort()


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


class _Pipes(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.client: AgentClient
        self.ended = asyncio.get_running_loop().create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self.client.feed(data)

    def process_exited(self) -> None:
        self.client.lost("the agent ended")
        if not self.ended.done():
            self.ended.set_result(None)


@contextlib.asynccontextmanager
async def local_agent(
    lab_id: str, *, run: Path, marker: Path
) -> AsyncIterator[tuple[AgentClient, int]]:
    """A client of a local agent, and the agent's pid. Its janitor outlives it, as on a node.

    `run` and `marker` stand for /run/dstest and /etc/dstest-lab.
    """
    transport, pipes = await asyncio.get_running_loop().subprocess_exec(
        _Pipes, *bundle.start_argv(), stderr=None
    )
    stdin = transport.get_pipe_transport(0)
    assert isinstance(stdin, asyncio.WriteTransport)
    pipes.client = AgentClient("local", stdin.write)
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            await pipes.client.start(lab_id, run=str(run), marker=str(marker))
        yield pipes.client, transport.get_pid()
    finally:
        stdin.close()
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await pipes.ended
        except TimeoutError:
            transport.kill()
        transport.close()


def end_janitors(run: Path) -> None:
    """Kill the janitors of a run directory: on this host nothing else ever ends them."""
    for pid, line in processes.each("cmdline"):
        words = line.decode(errors="replace").split("\0")
        if "clusters.remote.agent_janitor" in words and str(run) in words:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
