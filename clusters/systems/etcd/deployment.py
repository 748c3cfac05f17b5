"""The members of an etcd cluster on the nodes of one lab.

The daemon is started by hand through the node agent, so that its pid and start time are known and
no supervisor brings it back behind a nemesis.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import grpc
import grpc.aio

from clusters.systems.etcd import on_node
from clusters.systems.etcd.auth import SECRET, SECRET_FILE, SECRET_KEPT, auth_flag, token_for
from clusters.systems.etcd.clients.register import CLIENT_PORT, Stub
from clusters.systems.etcd.files import EtcdFiles
from clusters.systems.etcd.on_node import DATA, HOME, LOG, PEER_PORT, PIDFILE, url
from clusters.systems.etcd.wire import message
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    Authenticated,
    DataDir,
    Leadership,
    Leads,
    LogFiles,
    Pause,
    PrimaryView,
    Probed,
    Replication,
    Supervised,
    Terminate,
)

__all__ = ["EtcdDeployment"]

BINARY: Final = "/usr/bin/etcd"
START_TIMEOUT_S: Final = 45.0


class EtcdDeployment(
    EtcdFiles, Authenticated, DataDir, Leadership, Leads, LogFiles, Pause, Probed, Replication,
    Supervised, Terminate,
):  # fmt: skip
    """etcd on the nodes of one lab. Its bases, and those of its parts, are what it can do.

    A member is known by its pid file: whoever started it last, we or a node's own lease, it is
    found again by `processes`.
    """

    service_port = CLIENT_PORT
    service_request = "GET /version HTTP/1.0\r\n\r\n"
    shutdown_markers = ("received signal; shutting down", "closed etcd server")

    def __init__(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._options = dict(options)
        self._token = token_for(options)
        self._processes: dict[str, tuple[int, int]] = {}
        self._members: dict[int, str] = {}

    async def _each(
        self, names: Sequence[str], action: Callable[[Node], Awaitable[Any]]
    ) -> dict[str, Any]:
        nodes = [self._nodes[name] for name in names]
        return dict(zip(names, await asyncio.gather(*map(action, nodes)), strict=True))

    async def install(self) -> None:
        """Check that the base image holds etcd."""

        async def check(node: Node) -> None:
            found = await node.run(["sh", "-c", "command -v etcd"], check=False)
            if found.status != 0:
                raise LabError(
                    f"{node.name} has no etcd",
                    remedy="`dstest lab down`, then up again: its image lacks etcd-server",
                )

        await self._each(list(self._nodes), check)

    def _argv(self, node: Node, new: bool) -> list[str]:
        address = node.info.address
        peers = ",".join(f"{n.name}={url(n.info.address, PEER_PORT)}" for n in self._nodes.values())
        argv = [
            BINARY,
            *("--name", node.name),
            *("--data-dir", DATA),
            *("--listen-peer-urls", url(address, PEER_PORT)),
            *(
                "--listen-client-urls",
                f"{url(address, CLIENT_PORT)},http://127.0.0.1:{CLIENT_PORT}",
            ),
            *("--advertise-client-urls", url(address, CLIENT_PORT)),
            *("--initial-advertise-peer-urls", url(address, PEER_PORT)),
            *("--initial-cluster", peers),
            *("--initial-cluster-state", "new" if new else "existing"),
            *("--initial-cluster-token", node.info.lab_id or "dstest"),
            *("--heartbeat-interval", str(self._options.get("heartbeat_ms", 100))),
            *("--election-timeout", str(self._options.get("election_ms", 1000))),
            *("--logger", "zap"),
            *("--log-outputs", "stderr"),
        ]
        if self._token:
            argv += auth_flag()
        if self._options.get("unsafe_no_fsync"):
            argv.append("--unsafe-no-fsync")
        return argv

    @property
    def asks_for_tokens(self) -> bool:
        """Was `-o auth=true` given?"""
        return bool(self._token)

    async def _spawn(self, node: Node, new: bool) -> None:
        found = await node.call(
            "spawn", argv=self._argv(node, new), log=LOG, pidfile=PIDFILE, cwd=HOME
        )
        self._processes[node.name] = (found["pid"], found["start_time"])

    async def _put_scripts(self, node: Node) -> None:
        others = [n.info.address for n in self._nodes.values() if n is not node]
        scripts = {
            on_node.START: on_node.start_script(BINARY, self._argv(node, False)[1:]),
            on_node.STOP: on_node.stop_script(),
            on_node.REJOIN: on_node.rejoin_script(
                [url(address, CLIENT_PORT) for address in others],
                url(node.info.address, PEER_PORT),
                self._token,
            ),
        }
        for path, text in scripts.items():
            await node.put(path, text.encode(), mode=0o755)
        for path, data in on_node.programs().items():
            await node.put(path, data)
        for path in (SECRET_FILE, SECRET_KEPT):
            await node.put(path, SECRET.encode())

    def restart_command(self, name: str) -> list[str]:
        """What starts a member that does not run, on its node; harmless where it does run."""
        return on_node.locked(on_node.START)

    async def start(self) -> None:
        """Start all members on empty data and wait until each serves a linearizable read."""
        await self.stop()
        await self.wipe()
        await self._each(list(self._nodes), self._put_scripts)
        await self._each(list(self._nodes), lambda node: self._spawn(node, True))
        if self._token:
            await self._switch_auth_on(START_TIMEOUT_S)
        await self._wait_healthy(list(self._nodes))
        await self._learn_members()

    async def _wait_healthy(self, names: Sequence[str]) -> None:
        deadline = clock.monotonic_ns() + int(START_TIMEOUT_S * 1e9)
        while True:
            healthy = await self.healthy()
            waiting = [name for name in names if not healthy.get(name)]
            if not waiting:
                return
            if clock.monotonic_ns() > deadline:
                tail = (await self._nodes[waiting[0]].get(LOG, bytes_max=600)).decode(
                    "utf-8", "replace"
                )
                raise LabError(
                    f"etcd does not serve on {', '.join(waiting)} after {START_TIMEOUT_S:.0f} s; "
                    f"end of {waiting[0]}'s log: {tail}",
                    remedy="see nodes/*/etcd.log in the run directory",
                )
            await asyncio.sleep(0.1)

    def _stub(self, node: Node, token: str | None = None) -> Stub:
        return Stub(node.info.address, self._token if token is None else token)

    async def _ask(self, node: Node, method: str, request: Any, timeout_s: float) -> Any:
        stub = self._stub(node)
        try:
            return await getattr(stub, method)(request, timeout=timeout_s, wait_for_ready=True)
        except grpc.aio.AioRpcError:
            return None
        finally:
            await stub.close()

    async def healthy(self) -> dict[str, bool]:
        """Does each member answer a linearizable read within a second?"""
        request = message("RangeRequest")(key=b"/dstest-health")

        async def ask(node: Node) -> bool:
            return await self._ask(node, "range", request, 1.0) is not None

        return await self._each(list(self._nodes), ask)

    async def _status(self) -> dict[str, Any]:
        request = message("StatusRequest")()
        return await self._each(
            list(self._nodes), lambda node: self._ask(node, "status", request, 0.7)
        )

    async def _learn_members(self) -> None:
        for name, status in (await self._status()).items():
            if status is not None:
                self._members[status.header.member_id] = name

    async def primaries(self) -> list[PrimaryView]:
        """Each answering member's view of leader and term."""
        views = []
        for name, status in (await self._status()).items():
            if status is None:
                continue
            self._members[status.header.member_id] = name
            leader = self._members.get(status.leader) if status.leader else None
            views.append(PrimaryView(node=name, leader=leader, term=status.raft_term))
        return views

    async def leads(self, name: str) -> bool:
        """Does this member take itself for the leader?"""
        status = await self._ask(self._nodes[name], "status", message("StatusRequest")(), 0.7)
        return status is not None and status.leader == status.header.member_id

    async def progress(self) -> dict[str, int | None]:
        """Each member's applied raft index, None where it does not answer."""
        found = await self._status()
        return {n: None if s is None else s.raft_applied_index for n, s in found.items()}

    async def version(self) -> str:
        """The version that the members report."""
        found = {s.version for s in (await self._status()).values() if s is not None}
        return ", ".join(sorted(found)) or "unknown"

    async def _signal(self, names: Sequence[str], signum: int) -> None:
        async def send(node: Node) -> None:
            pid, start_time = self._processes[node.name]
            await node.call("signal", pid=pid, start_time=start_time, signum=signum)

        await self._each(names, send)

    async def _gone(self, names: Sequence[str], timeout_s: float = 10.0) -> None:
        async def wait(node: Node) -> None:
            pid, start_time = self._processes[node.name]
            deadline = clock.monotonic_ns() + int(timeout_s * 1e9)
            while True:
                info = await node.call("procinfo", pid=pid)
                if not info.get("alive") or info.get("start_time") != start_time:
                    del self._processes[node.name]
                    return
                if clock.monotonic_ns() > deadline:
                    raise LabError(f"{node.name}: etcd (pid {pid}) is still there after SIGKILL")
                await asyncio.sleep(0.02)

        await self._each(names, wait)

    async def kill(self, names: Sequence[str]) -> None:
        """SIGKILL, and wait until the processes are gone."""
        await self._signal(names, signal.SIGKILL)
        await self._gone(names)

    async def terminate(self, names: Sequence[str]) -> None:
        """SIGTERM; does not wait."""
        await self._signal(names, signal.SIGTERM)

    async def restart(self, names: Sequence[str]) -> None:
        """Start members that do not run on the data they have; returns when they serve."""
        await self._each(names, lambda node: node.run(self.restart_command(node.name)))
        await self.processes()
        await self._wait_healthy(names)

    async def pause(self, names: Sequence[str]) -> None:
        """SIGSTOP."""
        await self._signal(names, signal.SIGSTOP)

    async def resume(self, names: Sequence[str]) -> None:
        """SIGCONT."""
        await self._signal(names, signal.SIGCONT)

    async def processes(self) -> dict[str, tuple[int, int]]:
        """Pid and start time (clock ticks since boot) of each member that runs, looked up now."""
        await self._each(list(self._nodes), self._look_up)
        return dict(self._processes)

    async def _look_up(self, node: Node) -> None:
        self._processes.pop(node.name, None)
        found = await node.run(["cat", PIDFILE], check=False)
        if found.status != 0 or not found.stdout.strip().isdigit():
            return
        info = await node.call("procinfo", pid=int(found.stdout))
        if info.get("alive") and info.get("comm", "").startswith("etcd"):
            self._processes[node.name] = (int(found.stdout), info["start_time"])

    async def stop(self) -> None:
        """Kill whatever runs; data stays. A node that is lost keeps no other from being stopped."""

        async def end(node: Node) -> None:
            await self._look_up(node)
            if node.name in self._processes:
                await self._signal([node.name], signal.SIGKILL)
                await self._gone([node.name])

        ended = await asyncio.gather(*map(end, self._nodes.values()), return_exceptions=True)
        for error in ended:
            if isinstance(error, BaseException):
                raise error

    async def wipe(self) -> None:
        """Remove data and log."""

        async def clean(node: Node) -> None:
            # Something may be mounted there: its content goes, the directory stays.
            await node.run(["mkdir", "-p", DATA])
            await node.run(["find", DATA, "-mindepth", "1", "-delete"])
            await node.run(["rm", "-rf", LOG, PIDFILE, *on_node.STRAYS])

        await self._each(list(self._nodes), clean)

    def data_dir(self) -> str:
        return DATA

    def log_files(self) -> list[str]:
        return [LOG]
