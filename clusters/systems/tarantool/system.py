"""Tarantool, by the library `asynctnt`: registers and sets, each operation a piece of Lua, at
members that replicate to one another, without elections (they came with 2.6.1).

As it comes replication is asynchronous and every member takes writes; two that write one key need
not agree afterwards. Synchronous, the first member alone takes writes and waits for a majority; its
readers see what the majority has not yet confirmed, and may never (Tarantool, Synchronous
replication; without the transaction manager that came with 2.6.1 reads are dirty).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clusters.supervise import Durable, FramedRequests, FullMesh, LinkedClient, SupervisedSystem
from clusters.supervise.log_lines import TARANTOOL_LINES
from clusters.supervise.system import MEMBERS, TARANTOOL
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Ending,
    Endpoint,
    OpDraft,
    Option,
    Probe,
    Replication,
    ServerTime,
    Service,
    SystemLogs,
    Timing,
    Unit,
)

PORT: Final = 3301
WRITE: Final = "box.space.registers:replace{...}"

REFUSED: Final = {7: "ER_READONLY", 116: "ER_LOADING"}
READ: Final = "local row = box.space.registers:get(...) return row and row[2]"
CAS: Final = (
    "local key, old, new = ... local row = box.space.registers:get(key)"
    " if not row or row[2] ~= old then return false end"
    " box.space.registers:replace{key, new} return true"
)
ADD: Final = "box.space.elements:replace{...}"
ELEMENTS: Final = (
    "local found = {} for _, row in box.space.elements:pairs({...}) do"
    " table.insert(found, row[2]) end return found"
)
CONFIRMED: Final = (
    "local function look(...) %s end"
    " box.begin() local seen = look(...)"
    " box.space.%s:replace{'dstest-confirms', ''}"
    " box.commit() return seen"
)
"""Is kept together with, so not before, what it has seen; is undone where that is."""

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


async def connect(address: str, port: int, wait_s: float) -> Any:
    """A connection by the library `asynctnt`, which is told not to connect again by itself, nor to
    send anything of its own."""
    import asynctnt

    link = asynctnt.Connection(
        host=address,
        port=port,
        fetch_schema=False,
        auto_refetch_schema=False,
        connect_timeout=wait_s,
        request_timeout=wait_s,
        reconnect_timeout=0,
        ping_timeout=0,
    )
    await link.connect()
    return link


async def answer(link: Any, text: str, *given: Any) -> Any:
    """What a piece of Lua returns."""
    body = (await link.eval(text, list(given))).body
    return body[0] if body else None


class Link:
    """A connection that closes as others do."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def aclose(self) -> None:
        await self.connection.disconnect()


class TarantoolClient(LinkedClient):
    """At the member of its node; synchronous, at the first one, which alone takes writes."""

    def target(self, op: OpDraft) -> Endpoint:
        return self.at if self.options["replication"] == "asynchronous" else self.every[0]

    async def connect(self, to: Endpoint) -> Link:
        return Link(await connect(to.dial or to.address, to.port, self.wait_s))

    async def ask(self, text: str, *given: Any) -> Any:
        """What a piece of Lua returns; nothing else runs beside it but where it waits to be
        written."""
        return await answer((await self.link()).connection, text, *given)

    async def look(self, space: str, text: str, *given: Any) -> Any:
        """What a piece of Lua sees that may write nothing, by the kind of read that was chosen."""
        if self.options["reads"] == "confirmed":
            text = CONFIRMED % (text, space)
        return await self.ask(text, *given)

    def refused(self, error: Exception) -> str | None:
        return REFUSED.get(getattr(error, "code", 0))


class RegisterClient(TarantoolClient):
    """read, write, cas: a value is JSON."""

    async def do_read(self, op: OpDraft) -> Any:
        return json.loads(await self.look("registers", READ, str(op.key)) or "null")

    async def do_write(self, op: OpDraft) -> None:
        await self.ask(WRITE, str(op.key), json.dumps(op.input))

    async def do_cas(self, op: OpDraft) -> bool:
        old, new = map(json.dumps, op.input)
        return bool(await self.look("registers", CAS, str(op.key), old, new))


class SetClient(TarantoolClient):
    """add, read: elements are JSON."""

    async def do_read(self, op: OpDraft) -> list[Any]:
        return [json.loads(text) for text in await self.look("elements", ELEMENTS, str(op.key))]

    async def do_add(self, op: OpDraft) -> None:
        await self.ask(ADD, str(op.key), json.dumps(op.input))


class IprotoRequests(FramedRequests):
    """Requests of Tarantool's binary protocol: a length of five bytes, and a message."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        if len(head) < 5:
            return None
        if head[0] != 0xCE:
            raise ValueError(head[0])
        return 5 + int.from_bytes(head[1:5], "big"), True


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
        link = await connect(node.info.address, PORT, self.timing.answer_s)
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


class Tarantool(SupervisedSystem):
    name = "tarantool"
    doc = "Tarantool 2.6 from Debian: every member takes writes, or one that waits for a majority"
    packages = ("tarantool",)
    services = ("tarantool",)
    deployment = TarantoolDeployment
    client_packages = ("asynctnt",)
    clients: Mapping[str, Any] = {"register": RegisterClient, "set": SetClient}
    options: Mapping[str, Option] = {
        **MEMBERS,
        "replication": Option(
            type=str,
            default="asynchronous",
            choices=("asynchronous", "synchronous"),
            help="synchronous: the first member takes all writes, and waits for a majority",
        ),
        "reads": Option(
            type=str,
            default="local",
            choices=("local", "confirmed"),
            help="local reads see writes that are not kept yet; confirmed: a read writes too",
        ),
        "wal_mode": Option(
            type=str,
            default="write",
            choices=("none", "write", "fsync"),
            help="write, as it comes, syncs nothing: a power cut may lose what was acknowledged",
        ),
    }
    definite_errors = {
        "ER_READONLY": "Tarantool, read_only: such an instance refuses writes",
        "ER_LOADING": "Tarantool: an instance that has not started yet refuses requests",
    }
    cautions = TARANTOOL
    logs = SystemLogs(
        alarms=(" F> ", "Segmentation fault", "Attempting backtrace"),
        reader=TARANTOOL_LINES,
    )
    ports = (PORT,)
    client_port = PORT
    home = HOME
    own_image = True
    request_counter = IprotoRequests


SYSTEM = Tarantool()
