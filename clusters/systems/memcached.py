"""memcached: servers that know nothing of one another; a key is where its hash puts it.

Clients choose as users' pools do. Nothing is replicated, and nothing survives a restart.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any, Final

from clusters.supervise import BlockingClient, LineRequests, SupervisedDeployment, SupervisedSystem
from dstest.core.node import Node
from dstest.core.protocols import Endpoint, OpDraft, Probe, Service

__all__ = ["SYSTEM"]

PORT: Final = 11211


class MemcachedDeployment(SupervisedDeployment):
    """One server on each node."""

    endpoint_kind = "seed"

    def services(self, node: Node) -> Sequence[Service]:
        argv = ("memcached", "-u", "root", "-p", str(PORT), "-l", node.info.address, "-m", "64")
        probe = Probe(PORT, b"version\r\n", b"VERSION ")
        return [Service(name="memcached", argv=argv, probe=probe, log="/var/log/memcached.log")]

    async def healthy(self) -> dict[str, bool]:
        """Does each server store a value?"""
        said = await self.lines(PORT, b"set dstest-health 0 0 1\r\n1\r\n")
        return {name: text == "STORED" for name, text in said.items()}

    async def version(self) -> str:
        return ", ".join(sorted(set((await self.lines(PORT, b"version\r\n")).values())))


class RegisterClient(BlockingClient):
    """read, write, cas; the library retries nothing."""

    async def _do(self, act: str, key: str, *given: Any) -> Any:
        to = self.every[zlib.crc32(key.encode()) % len(self.every)]
        self.seen = to.node
        return await self.blocking(self._call, to, act, key, *given)

    def connect(self, to: Endpoint) -> Any:
        from pymemcache.client.base import Client

        at = (self.dial(to.address), PORT)
        made = Client(at, connect_timeout=self.wait_s, timeout=self.wait_s)
        self.calls += 1
        made.version()
        return made

    def _call(self, to: Endpoint, act: str, *given: Any) -> Any:
        return getattr(self.link(to), act)(*given)

    async def do_read(self, op: OpDraft) -> Any:
        return json.loads(await self._do("get", str(op.key), b"null"))

    async def do_write(self, op: OpDraft) -> None:
        await self._do("set", str(op.key), json.dumps(op.input), 0, False)

    async def do_cas(self, op: OpDraft) -> bool:
        found, token = await self._do("gets", str(op.key), b"null")
        if token is None or json.loads(found) != op.input[0]:
            return False
        return bool(await self._do("cas", str(op.key), json.dumps(op.input[1]), token, 0, False))


class Memcached(SupervisedSystem):
    name = "memcached"
    doc = "memcached from Debian: a pool of servers, keys by their hash; nothing is replicated"
    packages = ("memcached",)
    services = ("memcached",)
    deployment = MemcachedDeployment
    client_packages = ("pymemcache",)
    clients = {"register": RegisterClient}
    no_log_alarms = "what it says of a crash is a failed assertion, which is any system's alarm"
    ports = (PORT,)
    client_port = PORT

    def request_counter(self) -> LineRequests:
        return LineRequests({"set": 4, "cas": 4})


SYSTEM = Memcached()
