"""Keys, at the primaries of their slots."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from clusters.supervise import resp, unconnected
from clusters.systems.redis_cluster.shards import PORTS, primaries_of
from dstest.core.protocols import Endpoint, OpDraft

CAS: Final = (
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2]) return 1"
    " end return 0"
)


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
            self.links[at] = await resp.connected(dial, at[1], wait_s)
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
            await unconnected(error)
        self.seen = self.node_at(address)
        return link


class RegisterClient(ClusterClient, resp.RegisterOps):
    async def do_cas(self, op: OpDraft) -> bool:
        old, new = map(json.dumps, op.input)
        return bool(await self.run(CAS, f"register-{op.key}", old, new))


class SetClient(ClusterClient, resp.SetOps):
    pass
