"""Two Redis servers on each node, and the cluster that is made of them."""

from __future__ import annotations

from typing import Any, Final

from clusters.supervise import Durable, FullMesh, resp
from clusters.systems.redis_cluster.shards import PORTS, SLOTS, primaries_of
from dstest.core.node import Node
from dstest.core.protocols import (
    Leadership,
    LeaderView,
    LogWords,
    Replication,
    Service,
    Timing,
    Unit,
)

HOME: Final = "/opt/redis-cluster"
BUS: Final = 10_000
CONFIG: Final = """\
bind {address} 127.0.0.1
port {port}
protected-mode no
dir {home}
appendonly yes
repl-diskless-sync-delay 0
cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout 2000
cluster-announce-ip {address}
"""


class ClusterDeployment(resp.RespDeployment, FullMesh, Durable, Leadership, Replication):
    """Two servers on each node. The replica of a shard begins on the node behind its primary's."""

    timing = Timing(failover_s=20.0, rejoin_s=30.0)
    replication_unit = Unit("bytes", 1 << 16)
    data_port = PORTS["redis"]
    endpoint_kind = "seed"

    def services(self, node: Node) -> list[Service]:
        return [self._server(node, name, port) for name, port in PORTS.items()]

    def _server(self, node: Node, name: str, port: int) -> Service:
        home = f"{HOME}/data/{name}"
        config = CONFIG.format(address=node.info.address, port=port, home=home)
        return Service(
            name=name,
            argv=("redis-server", f"{HOME}/{name}.conf"),
            data=(home,),
            files={f"{HOME}/{name}.conf": config.encode()},
            log=f"{HOME}/{name}.log",
            probe=resp.probe(port),
            ports={"peer": port + BUS},
            words=LogWords(shutdown=("exit, bye bye",)),
            stuck_after=("sync",),
        )

    async def arrange(self) -> None:
        """Give each primary its slots, let all meet, and give each its replica."""
        names = list(self.members)
        first = self.nodes[names[0]].info.address
        bounds = [SLOTS * i // len(names) for i in range(len(names) + 1)]
        for i, name in enumerate(names):
            to = self.nodes[name]
            for service, port in PORTS.items():
                epoch = 1 + i if service == "redis" else 1 + i + len(names)
                await self._tell(to, port, "SET-CONFIG-EPOCH", epoch)
                await self._tell(to, port, "MEET", first, PORTS["redis"])
            await self._tell(to, PORTS["redis"], "ADDSLOTSRANGE", bounds[i], bounds[i + 1] - 1)
        for i, name in enumerate(names):
            primary, node = self.nodes[name], self.nodes[names[(i + 1) % len(names)]]
            own = await self._tell(primary, PORTS["redis"], "MYID")
            await self._tell(node, PORTS["second"], "REPLICATE", own)

    async def _tell(self, node: Node, port: int, *words: str | int) -> Any:
        """A server may not be up yet, and replicates only one that it has heard of."""
        return await self.until(node, lambda node: self.command(node, port, "CLUSTER", *words))

    async def healthy(self) -> dict[str, bool]:
        """Do both servers of a node see all slots served, and does each replica follow?"""
        states = [await self.ask(port, "CLUSTER INFO") for port in PORTS.values()]
        roles = [await self.ask(port, "ROLE") for port in PORTS.values()]
        good = {"cluster_state": "ok", "cluster_slots_ok": str(SLOTS)}

        def fine(name: str) -> bool:
            told = [row[name] for row in states]
            seen = [row[name] for row in roles]
            follows = all(r and (r[0] == "master" or r[3] == "connected") for r in seen)
            return follows and all(row and good.items() <= row.items() for row in told)

        return {name: fine(name) for name in self.members}

    async def leaders(self) -> list[LeaderView]:
        """Of each shard, which is called by its first slot."""
        said = await self.ask(PORTS["redis"], "CLUSTER NODES")
        return [view for member, rows in said.items() for view in self._views(member, rows)]

    def _views(self, member: str, said: Any) -> list[LeaderView]:
        """Those of one member."""
        names = {node.info.address: name for name, node in self.nodes.items()}
        return [
            LeaderView(
                member=member,
                leader=None if row.failed else names.get(row.address),
                epoch=row.epoch,
                group=f"slot {row.slots[0][0]}",
            )
            for row in primaries_of(said or {})
        ]

    async def claims(self, name: str, group: str) -> bool:
        views = self._views(name, await self.ask_one(name, PORTS["redis"], "CLUSTER NODES"))
        return any(view.leader == name and view.group == group for view in views)

    async def progress(self) -> dict[str, dict[str, int] | None]:
        """Of the shards of a node's two servers, by their histories."""
        found: dict[str, dict[str, int] | None] = {name: {} for name in self.members}
        for port in PORTS.values():
            for name, info in (await self.ask(port, "INFO", "replication")).items():
                row = found[name]
                if info is None or row is None:
                    found[name] = None
                else:
                    row[info["master_replid"]] = int(info["master_repl_offset"])
        return found
