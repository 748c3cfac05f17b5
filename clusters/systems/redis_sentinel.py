"""Redis with Sentinel, on each node. Clients ask the sentinel of their node for the primary."""

from typing import Any

from clusters.supervise import Durable, FullMesh, RespRequests, SupervisedSystem, resp
from clusters.supervise.system import REDIS_SENTINEL
from dstest.core import protocols
from dstest.core.node import Node
from dstest.core.protocols import Endpoint, Leadership, LeaderView, Option, Replication, Service

HOME = "/opt/redis"
REDIS = 6379
SENTINEL = 26379
LINK = "master-link-status"
CONFIG = "bind {address} 127.0.0.1\nprotected-mode no\n"
DATABASE = f"""{CONFIG}\
dir {HOME}/data
appendonly yes
appendfsync {{appendfsync}}
min-replicas-to-write {{min_replicas}}
min-replicas-max-lag 1
repl-diskless-sync-delay 0
"""
WATCH = f"""{CONFIG}\
sentinel monitor main {{first}} {REDIS} {{quorum}}
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 4000
{{known}}"""


class RedisDeployment(resp.RespDeployment, FullMesh, Durable, Leadership, Replication):
    """A database and a sentinel on each node; the first node begins as the primary."""

    timing = protocols.Timing(failover_s=20.0, rejoin_s=40.0)
    replication_unit = protocols.Unit("bytes", 1 << 16)
    data_port = REDIS
    endpoint_kind = "seed"
    endpoint_service = "sentinel"

    def services(self, node: Node) -> list[Service]:
        first, *others = self.nodes.values()
        address, primary = node.info.address, first.info.address
        quorum = len(self.nodes) // 2 + 1
        replica = "" if node is first else f"replicaof {primary} {REDIS}\n"
        database = DATABASE.format(address=address, **self.options) + replica
        known = "".join(f"sentinel known-replica main {n.info.address} {REDIS}\n" for n in others)
        watch = WATCH.format(address=address, first=primary, quorum=quorum, known=known)
        redis = Service(
            name="redis",
            argv=("redis-server", f"{HOME}/redis.conf"),
            data=(f"{HOME}/data",),
            files={f"{HOME}/redis.conf": database.encode()},
            log=f"{HOME}/redis.log",
            probe=resp.probe(REDIS),
            words=protocols.LogWords(shutdown=("exit, bye bye",)),
        )
        sentinel = Service(
            name="sentinel",
            argv=("redis-sentinel", f"{HOME}/sentinel.conf"),
            after=("redis",),
            files={f"{HOME}/sentinel.conf": watch.encode()},
            log=f"{HOME}/sentinel.log",
            probe=resp.probe(SENTINEL),
        )
        return [redis, sentinel]

    async def healthy(self) -> dict[str, bool]:
        """A primary with a replica, or a replica with its primary that each sentinel has seen
        follow: it promotes no other. And a sentinel with a quorum."""
        quorums = await self.ask(SENTINEL, "SENTINEL", "CKQUORUM", "main")
        views = await self.ask(SENTINEL, "SENTINEL SLAVES", "main")  # of which the library knows
        seen = [{r["ip"] for r in v if r[LINK] == "ok"} for v in views.values() if v is not None]
        everywhere = {n for n, m in self.nodes.items() if all(m.info.address in s for s in seen)}
        roles = (await self.ask(REDIS, "ROLE")).items()
        leading = {n for n, r in roles if r and r[0] == "master" and r[2]}
        following = {n for n, r in roles if r and r[0] == "slave" and r[3] == "connected"}
        return {n: bool(quorums[n]) and n in leading | following & everywhere for n in self.members}

    async def leaders(self) -> list[LeaderView]:
        names = {node.info.address: name for name, node in self.nodes.items()}
        rows = await self.ask(SENTINEL, "SENTINEL MASTER", "main")
        return [
            LeaderView(member=n, leader=names.get(row["ip"]), epoch=int(row["config-epoch"]))
            for n, row in rows.items()
            if row
        ]

    async def claims(self, name: str, group: str) -> bool:
        return "master" in (await self.ask_one(name, REDIS, "ROLE") or ())

    async def progress(self) -> dict[str, dict[str, int] | None]:
        infos = await self.ask(REDIS, "INFO", "replication")
        return {n: {"": int(i["master_repl_offset"])} if i else None for n, i in infos.items()}


class RedisClient(resp.RespClient):
    """At the primary that the sentinel of the node names, asked anew after each refusal."""

    refusals = {
        "ReadOnlyError": "READONLY",
        "BusyLoadingError": "LOADING",
        **{word: word for word in ("MISCONF", "NOREPLICAS")},
    }

    async def connect(self, to: Endpoint) -> Any:
        async with resp.connection(to.address, to.port, self.wait_s, answer_s=None) as sentinel:
            found = await sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
        address, port = found
        self.seen = self.node_at(address)
        self.calls += 1
        return await resp.connect(self.dial(address), int(port), self.wait_s)


class RedisSentinel(SupervisedSystem):
    name = "redis-sentinel"
    doc = "Redis from Debian with Sentinel: asynchronous replication, failover by a quorum"
    packages = ("redis-server", "redis-sentinel")
    services = ("redis", "sentinel")
    deployment = RedisDeployment
    client_packages = ("redis",)
    clients = resp.clients_on(RedisClient)
    raw_clients = resp.by_sentinel(SENTINEL, "main", RedisClient.refusals)
    definite_errors = {
        "READONLY": "Redis, replication: a replica in read-only mode rejects all write commands",
        "LOADING": "Redis, getCommand flags: refused while the data set is loaded, before it runs",
        "NOREPLICAS": "Redis, min-replicas-to-write: writes are refused before they run",
        "MISCONF": "Redis, processCommand: no write is begun while the last one to disk has failed",
    }
    options = {
        "appendfsync": Option(
            type=str, default="everysec", choices=("always", "everysec", "no"), help="when it syncs"
        ),
        "min_replicas": Option(type=int, default=0, least=0, most=98, help="to write at all"),
        "wait": Option(
            type=int, default=0, least=0, most=98, help="until so many replicas have it"
        ),
    }
    cautions = REDIS_SENTINEL
    logs = resp.LOGS
    ports, client_port = (REDIS, SENTINEL), REDIS
    home = HOME
    request_counter = RespRequests


SYSTEM = RedisSentinel()
