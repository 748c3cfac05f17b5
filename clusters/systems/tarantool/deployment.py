"""A Tarantool on each node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from clusters.supervise import Durable, FullMesh
from clusters.systems.tarantool.link import PORT, WRITE, answer, connected
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Ending,
    Probe,
    Replication,
    ServerTime,
    Service,
    Timing,
    Unit,
)

HOME: Final = "/opt/tarantool-dstest"
CONFIG: Final = """\
local made = #require('fio').glob('{home}/data/*.snap') > 0
box.cfg{{
    listen = '{address}:{port}',
    memtx_dir = '{home}/data', wal_dir = '{home}/data', wal_mode = '{wal_mode}',
    replication = {{ {peers} }},
    replication_timeout = 0.5,
    replication_connect_quorum = made and 0 or {members},
    replication_synchro_quorum = {majority}, replication_synchro_timeout = 2,
    read_only = not {first},
}}
if {first} then
    box.once('dstest', function()
        box.schema.user.grant('guest', 'super')
        local kind = {{ is_sync = {synchronous} }}
        box.schema.space.create('registers', kind)
        box.space.registers:create_index('primary', {{ parts = {{ 1, 'string' }} }})
        box.schema.space.create('elements', kind)
        box.space.elements:create_index('primary', {{ parts = {{ 1, 'string', 2, 'string' }} }})
    end)
end
box.cfg{{ read_only = {read_only} }}
"""
STATE: Final = (
    "local bad = 0 for id, peer in pairs(box.info.replication) do"
    " if peer.upstream and peer.upstream.status ~= 'follow' then bad = bad + 1 end end"
    " return { ro = box.info.ro, bad = bad, peers = #box.info.replication,"
    " status = box.info.status, made = box.space.elements ~= nil }"
)


class TarantoolDeployment(FullMesh, Durable, Clocked, Replication):
    """A member on each node; the first one makes the schema."""

    timing = Timing(start_s=60.0, answer_s=3.0, failover_s=10.0, rejoin_s=30.0)
    replication_unit = Unit("rows", 500)

    def services(self, node: Node) -> Sequence[Service]:
        synchronous = self.options["replication"] == "synchronous"
        first = node.name == next(iter(self.nodes))
        config = CONFIG.format(
            home=HOME,
            address=node.info.address,
            port=PORT,
            wal_mode=self.options["wal_mode"],
            peers=", ".join(f"'{other.info.address}:{PORT}'" for other in self.nodes.values()),
            members=len(self.nodes),
            majority=len(self.nodes) // 2 + 1,
            read_only=str(synchronous and not first).lower(),
            first=str(first).lower(),
            synchronous=str(synchronous).lower(),
        )
        return [
            Service(
                name="tarantool",
                argv=("tarantool", f"{HOME}/init.lua"),
                data=(f"{HOME}/data",),
                files={f"{HOME}/init.lua": config.encode()},
                log=f"{HOME}/log",
                probe=Probe(PORT, b"", b"Tarantool "),
                # It writes nothing of its end.
                ending=Ending(statuses=(0,)),
                stuck_after=("sync",),
            )
        ]

    async def _ask(self, text: str) -> dict[str, Any]:
        """What each member answers; None of one that does not."""
        return await self.answers(lambda node: self._eval(node, text))

    async def _eval(self, node: Node, text: str, *given: Any) -> Any:
        """What a piece of Lua gives on a member."""
        link = await connected(node.info.address, PORT, self.timing.answer_s)
        try:
            return await answer(link, text, *given)
        finally:
            await link.disconnect()

    async def healthy(self) -> dict[str, bool]:
        """Does each member follow all others, and is what a writable one is given taken?"""
        states = await self._ask(STATE)
        good = {
            name
            for name, row in states.items()
            if row and row["made"] and not row["bad"] and row["peers"] == len(self.members)
        }
        if any(name not in good for name in self.members):
            return {name: name in good for name in self.members}
        return {name: await self._writes(name, states[name]["ro"]) for name in self.members}

    async def _writes(self, name: str, read_only: bool) -> bool:
        if read_only:
            return True
        try:
            await self._eval(self.nodes[name], WRITE, f"dstest-health-{name}", "1")
        except Exception as error:
            self.last_errors[name] = repr(error)
            return False
        return True

    async def progress(self) -> dict[str, dict[str, int] | None]:
        """Rows of each origin that a member has."""
        said = await self._ask("return box.info.vclock")
        return {
            name: None if rows is None else {str(key): int(n) for key, n in rows.items()}
            for name, rows in said.items()
        }

    async def server_time(self, name: str) -> ServerTime | None:
        text = "return require('clock').realtime64()"
        time_ns = await self.answer(name, lambda node: self._eval(node, text))
        return time_ns and ServerTime(int(time_ns), 1)

    async def version(self) -> str:
        said = await self._ask("return box.info.version")
        return ", ".join(sorted({str(text) for text in said.values() if text}))
