"""Redis with Sentinel: a primary with replicas, and a sentinel on each node that watches them.

Replication is asynchronous: what a primary acknowledged and had not passed on is lost when another
one takes over, as Redis documents. Clients ask the sentinel of their node for the primary.
"""

import json
from typing import Any

from clusters.supervise import Durable, FullMesh, LinkedClient, RespRequests, SupervisedSystem
from dstest.core import protocols
from dstest.core.node import Node
from dstest.core.protocols import Clocked, Leadership, LeaderView, OpDraft, Replication, Service

__all__ = ["SYSTEM"]

HOME, REDIS, SENTINEL = "/opt/redis", 6379, 26379
CONFIG = "bind {address} 127.0.0.1\nprotected-mode no\n"
DATABASE = f"{CONFIG}dir {HOME}/data\nappendonly yes\n"
WATCH = f"""{CONFIG}\
sentinel monitor main {{first}} {REDIS} {{quorum}}
sentinel down-after-milliseconds main 1000
sentinel failover-timeout main 4000
"""


def connect(address: str, port: int, timeout_s: float) -> Any:
    """A connection that retries nothing."""
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    waits = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    once = {"retry": Retry(NoBackoff(), 0), "single_connection_client": True, "protocol": 2}
    once |= {"driver_info": None}  # nothing but what we ask for is sent
    return Redis(host=address, port=port, decode_responses=True, **waits, **once)


class RedisDeployment(FullMesh, Durable, Leadership, Replication, Clocked):
    """A database and a sentinel on each node; the first node begins as the primary."""

    timing = protocols.Timing(failover_s=20.0, rejoin_s=40.0)
    replication_unit = protocols.Unit("bytes", 1 << 16)
    endpoint_kind, endpoint_service = "seed", "sentinel"

    def services(self, node: Node) -> list[Service]:
        first, quorum = next(iter(self.nodes.values())), len(self.nodes) // 2 + 1
        values = {"address": node.info.address, "first": first.info.address, "quorum": quorum}
        replica = "" if node is first else f"replicaof {first.info.address} {REDIS}\n"
        ping, end = (b"PING\r\n", b"+PONG"), protocols.LogWords(shutdown=("exit, bye bye",))
        return [Service(
            name="redis", argv=("redis-server", f"{HOME}/redis.conf"), data=(f"{HOME}/data",),
            files={f"{HOME}/redis.conf": (DATABASE.format(**values) + replica).encode()},
            log=f"{HOME}/redis.log", probe=protocols.Probe(REDIS, *ping), words=end,
        ), Service(
            name="sentinel", argv=("redis-sentinel", f"{HOME}/sentinel.conf"), after=("redis",),
            files={f"{HOME}/sentinel.conf": WATCH.format(**values).encode()},
            log=f"{HOME}/sentinel.log", probe=protocols.Probe(SENTINEL, *ping),
        )]  # fmt: skip

    async def ask(self, port: int, *words: str) -> dict[str, Any]:
        async def one(node: Node) -> Any:
            async with connect(node.info.address, port, self.timing.answer_s) as link:
                return await link.execute_command(*words)

        return await self.answers(one)

    async def healthy(self) -> dict[str, bool]:
        """A primary with a replica or a replica with its primary, and a sentinel with a quorum."""
        quorums = await self.ask(SENTINEL, "SENTINEL", "CKQUORUM", "main")
        roles = (await self.ask(REDIS, "ROLE")).items()
        up = {n for n, r in roles if r and (r[2] if r[0] == "master" else r[3] == "connected")}
        return {name: bool(quorums[name]) and name in up for name in self.members}

    async def leaders(self) -> list[LeaderView]:
        names = {node.info.address: name for name, node in self.nodes.items()}
        rows = await self.ask(SENTINEL, "SENTINEL MASTER", "main")
        return [LeaderView(member=n, leader=names.get(r["ip"]), epoch=int(r["config-epoch"]))
                for n, r in rows.items() if r]  # fmt: skip

    async def claims(self, name: str) -> bool:
        return "master" in ((await self.ask(REDIS, "ROLE"))[name] or ())

    async def progress(self) -> dict[str, dict[str, int] | None]:
        infos = await self.ask(REDIS, "INFO", "replication")
        return {n: {"": int(i["master_repl_offset"])} if i else None for n, i in infos.items()}

    async def server_time(self, name: str) -> protocols.ServerTime | None:
        said = (await self.ask(REDIS, "TIME"))[name]
        return said and protocols.ServerTime(int(said[0]) * 10**9 + int(said[1]) * 1000, 1000)

    async def version(self) -> str:
        infos = await self.ask(REDIS, "INFO", "server")
        return ", ".join(sorted({info["redis_version"] for info in infos.values() if info}))


class RedisClient(LinkedClient):
    """At the primary that the sentinel of the node names, asked anew after each refusal."""

    refusals = {"ReadOnlyError": "READONLY", "BusyLoadingError": "LOADING", "MISCONF": "MISCONF"}

    async def connect(self) -> Any:
        wait_s, name = self.options["op_timeout_s"], "GET-MASTER-ADDR-BY-NAME"
        async with connect(self.at.address, self.at.port, wait_s) as sentinel:
            address, port = await sentinel.execute_command("SENTINEL", name, "main")
        self.seen = {e.address: e.node for e in self.every}.get(address)
        self.calls += 1
        link = connect(self.dial(address), int(port), wait_s)
        await link.ping()
        return link

    async def do(self, *words: str) -> Any:
        return await (await self.link()).execute_command(*words)


class RegisterClient(RedisClient):
    async def do_read(self, op: OpDraft) -> Any:
        return json.loads(await self.do("GET", f"register-{op.key}") or "null")

    async def do_write(self, op: OpDraft) -> None:
        await self.do("SET", f"register-{op.key}", json.dumps(op.input))


class SetClient(RedisClient):
    async def do_read(self, op: OpDraft) -> list[Any]:
        return [json.loads(text) for text in await self.do("SMEMBERS", f"set-{op.key}")]

    async def do_add(self, op: OpDraft) -> None:
        await self.do("SADD", f"set-{op.key}", json.dumps(op.input))


class RedisSentinel(SupervisedSystem):
    name = "redis-sentinel"
    doc = "Redis from Debian with Sentinel: asynchronous replication, failover by a quorum"
    packages = ("redis-server", "redis-sentinel")
    services = ("redis", "sentinel")
    deployment = RedisDeployment
    client_packages = ("redis",)
    clients = {"register": RegisterClient, "set": SetClient}
    definite_errors = {
        "not-connected": "ours: there was no connection to a primary, so nothing was sent",
        "READONLY": "Redis, replication: a replica in read-only mode rejects all write commands",
        "LOADING": "Redis, getCommand flags: refused while the data set is loaded, before it runs",
        "MISCONF": "Redis, processCommand: no write is begun while the last one to disk has failed",
    }
    log_alarms = ("Guru Meditation", "=== REDIS BUG REPORT", "Bad file format reading the append")
    ports, client_port, home = (REDIS, SENTINEL), REDIS, HOME
    request_counter = RespRequests


SYSTEM = RedisSentinel()
