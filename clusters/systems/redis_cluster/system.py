"""Redis Cluster: keys in shards, each with a primary and a replica on the next node, so two servers
on each node. Clients go to the primary of a key's slot.

Replication is asynchronous: a primary that is cut off acknowledges writes until it notices, and
those are lost when its replica has taken over (Redis Cluster specification, Write safety).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from clusters.supervise import (
    NOT_CONNECTED,
    Durable,
    FullMesh,
    RespRequests,
    SupervisedSystem,
    fail_unconnected,
    resp,
)
from clusters.supervise.system import REDIS_CLUSTER
from dstest.core.node import Node
from dstest.core.protocols import (
    Endpoint,
    Leadership,
    LeaderView,
    LogWords,
    OpDraft,
    Replication,
    Service,
    Timing,
    Unit,
)

PORTS: Final = {"redis": 6379, "second": 6380}
"""By service: the first begins as a primary, the second as the replica of another node's."""

SLOTS: Final = 16_384

CAS: Final = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1"
    " end return 0"
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


class Primary(NamedTuple):
    """A primary in `CLUSTER NODES`; `slots` are ranges with both ends."""

    address: str
    port: int
    failed: bool
    epoch: int
    slots: list[tuple[int, int]]


def primaries_of(said: Mapping[str, Mapping[str, Any]]) -> list[Primary]:
    """Those with slots, of what the library makes of `CLUSTER NODES`."""
    found = []
    for where, row in said.items():
        address, _, port = where.rpartition(":")
        flags = row["flags"].split(",")
        slots = [(int(ends[0]), int(ends[-1])) for ends in row["slots"]]
        if "master" in flags and slots:
            failed = "fail" in flags
            found.append(Primary(address, int(port), failed, int(row["epoch"]), slots))
    return found


class Shards:
    """Connections to the primaries, as a seed has named them."""

    def __init__(self, owners: Mapping[int, tuple[str, int]]) -> None:
        self._owners = owners
        self.links: dict[tuple[str, int], Any] = {}

    def owner(self, key: str) -> tuple[str, int]:
        """Address and port. KeyError where nobody has the slot."""
        from redis.crc import key_slot

        return self._owners[key_slot(key.encode())]

    async def link(self, at: tuple[str, int], dial: str, wait_s: float) -> Any:
        """The connection to a server."""
        if at not in self.links:
            self.links[at] = await resp.connect(dial, at[1], wait_s)
        return self.links[at]

    async def aclose(self) -> None:
        for link in self.links.values():
            with suppress(Exception):
                await link.aclose()


class ClusterClient(resp.RespClient):
    """At the primary of a key's slot, as the server of the client's node names it; asked anew
    after each refusal."""

    refusals = {
        "MovedError": "MOVED",
        "AskError": "ASK",
        "ClusterDownError": "CLUSTERDOWN",
        "MasterDownError": "MASTERDOWN",
        "ReadOnlyError": "READONLY",
        "BusyLoadingError": "LOADING",
    }

    async def connect(self, to: Endpoint) -> Shards:
        async with resp.connection(to.address, to.port, self.wait_s, answer_s=None) as seed:
            rows = primaries_of(await seed.execute_command("CLUSTER NODES"))
        owners = {
            slot: (row.address, row.port)
            for row in rows
            for low, high in row.slots
            for slot in range(low, high + 1)
        }
        return Shards(owners)

    async def do(self, verb: str, key: str, *words: str | bytes | int) -> Any:
        """What is answered to a command."""
        return await (await self._owner(key)).execute_command(verb, key, *words)

    async def run(self, script: str, key: str, *words: str) -> Any:
        """What a script gives, which is one step to all others."""
        return await (await self._owner(key)).execute_command("EVAL", script, 1, key, *words)

    async def _owner(self, key: str) -> Any:
        """The connection to the primary of a key, for one request. Raises Definite."""
        shards: Shards = await self.link()
        try:
            address, port = shards.owner(key)
            dial = self.dial(address) if port == PORTS["redis"] else address
            self.calls += (address, port) not in shards.links
            link = await shards.link((address, port), dial, self.wait_s)
        except Exception as error:
            await self.close()
            await fail_unconnected(error)
        self.seen = self.node_at(address)
        return link


class RegisterClient(ClusterClient, resp.RegisterOps):
    async def do_cas(self, op: OpDraft) -> bool:
        old, new = map(json.dumps, op.input)
        return bool(await self.run(CAS, f"register-{op.key}", old, new))


class SetClient(ClusterClient, resp.SetOps):
    pass


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


SPEC: Final = "Redis Cluster specification"


class RedisCluster(SupervisedSystem):
    name = "redis-cluster"
    doc = "Redis Cluster from Debian: shards with a replica each, replicated asynchronously"
    packages = ("redis-server",)
    services = tuple(PORTS)
    deployment = ClusterDeployment
    client_packages = ("redis",)
    clients = {"register": RegisterClient, "set": SetClient}
    definite_errors = {
        NOT_CONNECTED: "ours: there was no connection to the slot's primary, so nothing was sent",
        "MOVED": f"{SPEC}, MOVED Redirection: another server has the slot",
        "ASK": f"{SPEC}, ASK redirection: the slot is on its way to another server",
        "CLUSTERDOWN": f"{SPEC}: queries are refused while slots are not served",
        "MASTERDOWN": "Redis, replica-serve-stale-data: a replica refuses without its primary",
        "READONLY": "Redis replication: a replica refuses writes",
        "LOADING": "Redis: a server that loads its data refuses commands",
    }
    cautions = REDIS_CLUSTER
    logs = resp.LOGS
    ports = tuple(port + more for port in PORTS.values() for more in (0, BUS))
    client_port = PORTS["redis"]
    home = HOME
    request_counter = RespRequests


SYSTEM = RedisCluster()
