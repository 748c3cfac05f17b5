"""What a running etcd is asked, whoever has started it: does it serve, who leads, how far is it,
what does it hold? Where a member does not answer, its value is None.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.supervise.member_set import MemberSet
from clusters.systems.etcd.clients.connection import CLIENT_PORT, Stub
from clusters.systems.etcd.on_node import token_for
from clusters.systems.etcd.wire import message
from dstest.core.node import Node
from dstest.core.protocols import (
    Leadership,
    LeaderView,
    Probe,
    Replicas,
    Replication,
    Timing,
    Unit,
)

PAGE_S: Final = 2.0


async def http_get(address: str, path: str, port: int = CLIENT_PORT) -> str | None:
    """A page of a member, with its headers; None where no member answers in two seconds."""
    try:
        async with asyncio.timeout(PAGE_S):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(f"GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
                return (await reader.read(-1)).decode("utf-8", "replace")
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None


class EtcdAsked(MemberSet, Leadership, Replication, Replicas):
    """Base of deployments of etcd, ours and others'."""

    timing = Timing(failover_s=20.0, rejoin_s=15.0)
    replication_unit = Unit("entries", 100)
    """Healthy members differ by what is under way, some tens."""

    def __init__(self, nodes: Sequence[Node], options: Mapping[str, Any]) -> None:
        super().__init__(nodes, options)
        self._token = token_for(options)
        self._names: dict[int, str] = {}

    def port_at(self, node: Node) -> int:
        """Where this member is asked."""
        return CLIENT_PORT

    def probe_at(self, port: int) -> Probe:
        """How a member is asked whether it is there."""
        return Probe(port, b"GET /version HTTP/1.0\r\n\r\n", b"HTTP/1.0 200")

    def _stub(self, node: Node, token: str | None = None) -> Stub:
        given = self._token if token is None else token
        return Stub(node.info.address, given, self.port_at(node))

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
        return await self._all("status", message("StatusRequest")(), 0.7)

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

    async def version(self) -> str:
        """The version that the members report."""
        found = {s.version for s in (await self._status()).values() if s is not None}
        return ", ".join(sorted(found)) or "unknown"

    async def _all(self, method: str, request: Any, timeout_s: float = 2.0) -> dict[str, Any]:
        """What each member answers to the same request."""
        return await self.each(
            list(self.nodes), lambda node: self._ask(node, method, request, timeout_s)
        )

    async def revisions(self) -> dict[str, int | None]:
        """The newest revision of each member's own store."""
        found = await self._status()
        return {n: None if s is None else s.header.revision for n, s in found.items()}

    async def hashes(self, revision: int) -> dict[str, tuple[int, int] | None]:
        """Each member's hash over its store up to `revision`, with what it has compacted to."""
        found = await self._all("hash_kv", message("HashKVRequest")(revision=revision))
        return {n: None if a is None else (a.hash, a.compact_revision) for n, a in found.items()}

    async def replica_states(self) -> dict[str, str | None]:
        """Each member's hash over its store, up to the newest revision that all have applied. One
        that is compacted already has no hash, so where all are there they are asked for the newest.

        Hashes of members that have compacted to different revisions differ as well.
        """
        heads = await self._all("range", message("RangeRequest")(key=b"/dstest-health"))
        known = [answer.header.revision for answer in heads.values() if answer is not None]
        at = 0 if len({*known}) == 1 else min(known, default=0)
        found = await self.hashes(at) if known else dict.fromkeys(heads)
        return {n: None if h is None else f"{h[0]:08x}@{h[1]}" for n, h in found.items()}
