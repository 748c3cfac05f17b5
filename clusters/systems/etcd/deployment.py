"""The members of an etcd cluster: one service on each node, and who leads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

from clusters.systems.etcd import on_node
from clusters.systems.etcd.auth import SECRET, SECRET_FILE, SECRET_KEPT, auth_flag, token_for
from clusters.systems.etcd.clients.stub import CLIENT_PORT, Stub
from clusters.systems.etcd.files import EtcdFiles
from clusters.systems.etcd.metrics import http_date
from clusters.systems.etcd.on_node import DATA, HOME, LOG, PEER_PORT, SERVICE, url
from clusters.systems.etcd.wire import message
from dstest.core.node import Node
from dstest.core.protocols import (
    Authenticated,
    Clocked,
    Leadership,
    LeaderView,
    LogWords,
    Probe,
    Replication,
    ServerTime,
    Service,
    Timing,
    Unit,
)

BINARY: Final = "/usr/bin/etcd"

PROBE: Final = Probe(CLIENT_PORT, b"GET /version HTTP/1.0\r\n\r\n", b"HTTP/1.0 200")


class EtcdDeployment(EtcdFiles, Authenticated, Clocked, Leadership, Replication):
    """etcd on the nodes of one lab. Its bases, and those of its parts, are what it can do."""

    timing = Timing(failover_s=20.0, rejoin_s=15.0)
    replication_unit = Unit("entries", 100)
    """Healthy members differ by what is under way, some tens."""

    def __init__(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> None:
        super().__init__(nodes, options)
        self._token = token_for(options)
        self._names: dict[int, str] = {}

    def services(self, node: Node) -> tuple[Service, ...]:
        return (
            Service(
                name=SERVICE,
                argv=(BINARY, *self._flags(node)),
                probe=PROBE,
                cwd=HOME,
                directories=(HOME,),
                data=(DATA,),
                log=LOG,
                ports={"client": CLIENT_PORT, "peer": PEER_PORT},
                words=LogWords(
                    shutdown=("received signal; shutting down", "closed etcd server"),
                    corruption=(
                        "crc mismatch",
                        "cannot be repaired",
                        "repaired WAL",
                        "Was the raft log corrupted, truncated, or lost",
                    ),
                ),
            ),
        )

    def _flags(self, node: Node) -> list[str]:
        address = node.info.address
        peers = ",".join(f"{n.name}={url(n.info.address, PEER_PORT)}" for n in self.nodes.values())
        local = f"http://127.0.0.1:{CLIENT_PORT}"
        flags = [
            *("--name", node.name),
            *("--data-dir", DATA),
            *("--listen-peer-urls", url(address, PEER_PORT)),
            *("--listen-client-urls", f"{url(address, CLIENT_PORT)},{local}"),
            *("--advertise-client-urls", url(address, CLIENT_PORT)),
            *("--initial-advertise-peer-urls", url(address, PEER_PORT)),
            *("--initial-cluster", peers),
            *("--initial-cluster-state", "existing"),
            *("--initial-cluster-token", node.info.lab_id or "dstest"),
            *("--heartbeat-interval", str(self.options.get("heartbeat_ms", 100))),
            *("--election-timeout", str(self.options.get("election_ms", 1000))),
            *("--snapshot-count", str(self.options.get("snapshot_count", 100_000))),
            *("--logger", "zap"),
            *("--log-outputs", "stderr"),
        ]
        if self._token:
            flags += auth_flag()
        if self.options.get("unsafe_no_fsync"):
            flags.append("--unsafe-no-fsync")
        return flags

    @property
    def asks_for_tokens(self) -> bool:
        """Was `-o auth=true` given?"""
        return bool(self._token)

    async def boot(self) -> None:
        """The first start makes the cluster; whoever starts later, on no data, joins one."""
        await self.each(list(self.nodes), self._put_programs)
        for name in self.nodes:
            await self.override(name, SERVICE, ["--initial-cluster-state", "new"])
        await super().boot()
        for name in self.nodes:
            await self.clear_override(name, SERVICE)

    async def arrange(self) -> None:
        """Ask for tokens where that is wanted, and learn which id is whose."""
        if self._token:
            await self._switch_auth_on(self.timing.start_s)
        await self.wait_healthy(list(self.members))
        await self.leaders()

    async def _put_programs(self, node: Node) -> None:
        others = [n.info.address for n in self.nodes.values() if n is not node]
        rejoin = on_node.rejoin_script(
            [url(address, CLIENT_PORT) for address in others],
            url(node.info.address, PEER_PORT),
            self._token,
        )
        await node.put(on_node.REJOIN, rejoin.encode(), mode=0o755)
        for path, data in on_node.programs().items():
            await node.put(path, data)
        for path in (SECRET_FILE, SECRET_KEPT):
            await node.put(path, SECRET.encode())

    async def wipe(self) -> None:
        """As for any system, and what its faults may have left."""
        await super().wipe()
        await self.each(list(self.nodes), lambda node: node.run(["rm", "-rf", *on_node.STRAYS]))

    def _stub(self, node: Node, token: str | None = None) -> Stub:
        return Stub(node.info.address, self._token if token is None else token)

    async def _ask(self, node: Node, method: str, request: Any, timeout_s: float) -> Any:
        from grpc.aio import AioRpcError

        stub = self._stub(node)
        try:
            return await getattr(stub, method)(request, timeout=timeout_s, wait_for_ready=True)
        except AioRpcError:
            return None
        finally:
            await stub.close()

    async def healthy(self) -> dict[str, bool]:
        """Does each member answer a linearizable read within a second?"""
        request = message("RangeRequest")(key=b"/dstest-health")

        async def ask(node: Node) -> bool:
            return await self._ask(node, "range", request, self.timing.answer_s) is not None

        return await self.each(list(self.nodes), ask)

    async def _status(self) -> dict[str, Any]:
        request = message("StatusRequest")()
        return await self.each(
            list(self.nodes), lambda node: self._ask(node, "status", request, 0.7)
        )

    async def leaders(self) -> list[LeaderView]:
        """Each answering member's view of leader and term."""
        views = []
        status_of = {n: s for n, s in (await self._status()).items() if s is not None}
        self._names |= {status.header.member_id: name for name, status in status_of.items()}
        for name, status in status_of.items():
            leader = self._names.get(status.leader) if status.leader else None
            views.append(LeaderView(member=name, leader=leader, epoch=status.raft_term))
        return views

    async def claims(self, name: str, group: str) -> bool:
        """Does this member take itself for the leader?"""
        status = await self._ask(self.nodes[name], "status", message("StatusRequest")(), 0.7)
        return status is not None and status.leader == status.header.member_id

    async def progress(self) -> dict[str, dict[str, int] | None]:
        """Each member's applied raft index, None where it does not answer."""
        found = await self._status()
        return {n: None if s is None else {"": s.raft_applied_index} for n, s in found.items()}

    async def server_time(self, name: str) -> ServerTime | None:
        """The `Date` of its answers, in whole seconds."""
        date = await http_date(self.nodes[name].info.address)
        if date is None:
            return None
        return ServerTime(int(parsedate_to_datetime(date).timestamp()) * 10**9, 10**9)

    async def version(self) -> str:
        """The version that the members report."""
        found = {s.version for s in (await self._status()).values() if s is not None}
        return ", ".join(sorted(found)) or "unknown"
