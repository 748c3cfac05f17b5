"""etcd that runs already: found by its program, asked at the port that answers gRPC, its keys below
a prefix of the run's own.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

from clusters.supervise.attached import BEFORE_A_RUN, PREFIX, AttachedDeployment
from clusters.systems.etcd.asked import EtcdAsked, http_get
from clusters.systems.etcd.clients.connection import Stub
from clusters.systems.etcd.on_node import SERVICE
from clusters.systems.etcd.wire import after_prefix, message
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import Linked

ASK_S: Final = 2.0
CLEAR_S: Final = 10.0
PAUSE_S: Final = 0.3


class AttachedEtcd(EtcdAsked, AttachedDeployment, Linked):
    """etcd that somebody else has started, on all members of its cluster, without TLS and users."""

    program = "etcd"
    service = SERVICE
    unwell = "answers no linearizable read"

    def links(self) -> list[tuple[str, str]] | None:
        return None

    def port_at(self, node: Node) -> int:
        return self._servers[node.name].port

    async def serves(self, node: Node, port: int) -> bool:
        """The port of metrics knows no gRPC, that of peers has no page about health."""
        from grpc.aio import AioRpcError

        page = await http_get(node.info.address, "/health", port)
        if page is None or page.split(maxsplit=2)[1:2] not in (["200"], ["503"]):
            return False
        stub: Any = Stub(node.info.address, port=port)
        try:
            await stub.status(message("StatusRequest")(), timeout=ASK_S, wait_for_ready=True)
        except AioRpcError:
            return False
        finally:
            await stub.close()
        return True

    async def version_at(self, name: str) -> str:
        status = await self._ask(self.nodes[name], "status", message("StatusRequest")(), ASK_S)
        return "" if status is None else str(status.version)

    async def check(self) -> None:
        """One cluster, whose members are those of the lab: who is no node cannot be cut off."""
        listed = await self._all("member_list", message("MemberListRequest")())
        if mute := sorted(name for name, answer in listed.items() if answer is None):
            raise LabError(
                f"{', '.join(mute)} does not list the members of its cluster", remedy=BEFORE_A_RUN
            )
        clusters = {answer.header.cluster_id for answer in listed.values()}
        if len(clusters) > 1:
            rows = ", ".join(f"{n} {a.header.cluster_id:x}" for n, a in listed.items())
            raise LabError(
                f"these are {len(clusters)} clusters: {rows}",
                remedy="-o client_port= or another lab, for the members of one of them",
            )
        ours = {answer.header.member_id for answer in listed.values()}
        members = {m.ID: m for answer in listed.values() for m in answer.members}
        if strangers := sorted(m.name or f"{m.ID:x}" for m in members.values() if m.ID not in ours):
            raise LabError(
                f"the cluster has {len(members)} members, and {', '.join(strangers)} are on no node"
                " of the lab",
                remedy="adopt the machines of all members, and --nodes for as many",
            )
        for name, answer in listed.items():
            mine = members.get(answer.header.member_id)
            urls = [] if mine is None else mine.peerURLs
            self.require_peer_port(name, [urlsplit(url).port or 2380 for url in urls])
        stand = await self._all("status", message("StatusRequest")())
        if alarms := {n: list(a.errors) for n, a in stand.items() if a is not None and a.errors}:
            raise LabError(
                "; ".join(f"{name}: {', '.join(said)}" for name, said in alarms.items()),
                remedy="`etcdctl alarm list`: a cluster has to be well before a run",
            )
        await self.leaders()

    async def remarks(self) -> list[str]:
        """Besides: keys that a run has left which died."""
        said = await super().remarks()
        left = await self._count(PREFIX.encode())
        if left:
            said.append(
                f"{left} keys begin with {PREFIX} and are left alone: they are of runs that died,"
                f" or of one that goes on; `etcdctl get --prefix --keys-only {PREFIX}` shows them"
            )
        return said

    async def _count(self, prefix: bytes) -> int | None:
        """Keys that begin so; None where no member answers."""
        request = message("RangeRequest")(key=prefix, range_end=after_prefix(prefix), limit=1)
        for node in self.nodes.values():
            answer = await self._ask(node, "range", request, ASK_S)
            if answer is not None:
                return int(answer.count)
        return None

    async def take_away(self) -> None:
        """Until none is left: what was under way to a leader may be applied late."""
        prefix = f"{self.prefix}/".encode()
        request = message("DeleteRangeRequest")(key=prefix, range_end=after_prefix(prefix))
        deadline_ns = clock.monotonic_ns() + int(CLEAR_S * 1e9)
        while await self._count(prefix) != 0:
            if clock.monotonic_ns() > deadline_ns:
                raise LabError(
                    f"keys below {self.prefix} are left in the cluster",
                    remedy=f"etcdctl del --prefix {self.prefix}/",
                )
            for node in self.nodes.values():
                if await self._ask(node, "delete", request, ASK_S) is not None:
                    break
            await asyncio.sleep(PAUSE_S)
