"""Systems that speak the Redis serialization protocol, asked by the library `redis`.

A second client of systems that speak Redis' protocol: plain sockets, without the library.

It exists to be compared with the first one: what only one of them sees is no bug of the servers.
Each operation has a connection of its own. Source: Redis serialization protocol specification,
version 2.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from clusters.supervise.deployment import SupervisedDeployment
from clusters.supervise.log_lines import REDIS_LINES
from clusters.supervise.ops import NOT_CONNECTED, LinkedClient, error_text
from dstest.core.node import Node
from dstest.core.protocols import (
    Client,
    Clocked,
    Definite,
    Endpoint,
    Indefinite,
    OpDraft,
    Probe,
    Reply,
    ServerTime,
    SystemLogs,
)

LOGS: Final = SystemLogs(
    # It has crashed, panicked, or cannot read its own file.
    alarms=("=== REDIS BUG REPORT", "Guru Meditation", "Bad file format reading the append"),
    version=r"Redis version=([0-9.]+)",
    reader=REDIS_LINES,
)
"""Of a Redis server."""


def connection(address: str, port: int, connect_s: float, *, answer_s: float | None) -> Any:
    """A connection of the library `redis`, which retries nothing and sends nothing of its own.

    `answer_s` is the timeout of each request; None for callers that have one of their own, as the
    operations of clients have.
    """
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    return Redis(
        host=address,
        port=port,
        decode_responses=True,
        socket_timeout=answer_s,
        socket_connect_timeout=connect_s,
        retry=Retry(NoBackoff(), 0),
        single_connection_client=True,
        protocol=2,
        driver_info=None,
    )


async def connect(address: str, port: int, timeout_s: float) -> Any:
    """A connection that has answered a ping; none stays open without. Its requests have no
    timeout."""
    link = connection(address, port, timeout_s, answer_s=None)
    try:
        async with asyncio.timeout(timeout_s):
            await link.ping()
    except BaseException:
        await link.aclose()
        raise
    return link


def probe(port: int) -> Probe:
    """A server answers a ping by itself."""
    return Probe(port, b"PING\r\n", b"+PONG")


class RespDeployment(SupervisedDeployment, Clocked):
    """Base of those whose members are asked by commands; the data is at `data_port`."""

    data_port: ClassVar[int]

    async def command(self, node: Node, port: int, *words: str | int) -> Any:
        """What the server at this port of a node answers to a command."""
        wait_s = self.timing.answer_s
        async with connection(node.info.address, port, wait_s, answer_s=wait_s) as link:
            return await link.execute_command(*words)

    async def ask(self, port: int, *words: str) -> dict[str, Any]:
        """What each member answers to a command at this port; None of one that does not."""
        return await self.answers(lambda node: self.command(node, port, *words))

    async def ask_one(self, name: str, port: int, *words: str) -> Any:
        """As `ask`, of one member."""
        return await self.answer(name, lambda node: self.command(node, port, *words))

    async def server_time(self, name: str) -> ServerTime | None:
        """Of the data's server, in microseconds."""
        said = await self.ask_one(name, self.data_port, "TIME")
        return said and ServerTime(int(said[0]) * 10**9 + int(said[1]) * 1000, 1000)

    async def version(self) -> str:
        infos = await self.ask(self.data_port, "INFO", "server")
        return ", ".join(sorted({info["redis_version"] for info in infos.values() if info}))


class RespClient(LinkedClient):
    """Base of clients whose operations are commands."""

    async def do(self, verb: str, key: str, *words: str | bytes | int) -> Any:
        """What is answered to a command about a key."""
        return await (await self.link()).execute_command(verb, key, *words)

    async def changed(self, verb: str, key: str, *words: str | bytes | int) -> Any:
        """As `do`, of a command that writes; where the system has the option `wait`, also until so
        many replicas have it, or Indefinite."""
        answer = await self.do(verb, key, *words)
        if wanted := self.options.get("wait", 0):
            wait_ms = int(self.wait_s * 500)
            try:
                have = await (await self.link()).execute_command("WAIT", wanted, wait_ms)
            except Exception as error:
                raise Indefinite(error_text("written, but", repr(error))) from None
            if have < wanted:
                raise Indefinite(f"{have} of {wanted} replicas have it")
        return answer


class RegisterOps(RespClient):
    """read, write: a value is JSON."""

    async def do_read(self, op: OpDraft) -> Any:
        return msgspec.json.decode(await self.do("GET", f"register-{op.key}") or "null")

    async def do_write(self, op: OpDraft) -> None:
        await self.changed("SET", f"register-{op.key}", msgspec.json.encode(op.input))


class SetOps(RespClient):
    """add, read: elements are JSON."""

    async def do_read(self, op: OpDraft) -> list[Any]:
        return [msgspec.json.decode(text) for text in await self.do("SMEMBERS", f"set-{op.key}")]

    async def do_add(self, op: OpDraft) -> None:
        await self.changed("SADD", f"set-{op.key}", msgspec.json.encode(op.input))


class TenantOps(RespClient):
    """A tenant is a hash, its keys are the fields: `drop` deletes the hash."""

    def _hash(self, op: OpDraft) -> str:
        return f"tenant-{op.key}"

    async def do_put(self, op: OpDraft) -> None:
        await self.changed("HSET", self._hash(op), op.input["name"], op.input["value"])

    async def do_drop(self, op: OpDraft) -> None:
        await self.changed("DEL", self._hash(op))

    async def do_get(self, op: OpDraft) -> Any:
        return await self.do("HGET", self._hash(op), op.input["name"])

    async def do_list(self, op: OpDraft) -> list[list[Any]]:
        found = await self.do("HGETALL", self._hash(op))
        return [[name, value] for name, value in found.items()]

    async def do_count(self, op: OpDraft) -> int:
        return int(await self.do("HLEN", self._hash(op)))

    do_probe, do_probe_list, do_probe_count = do_get, do_list, do_count


def clients_on(connecting: type[RespClient]) -> dict[str, Any]:
    """By capability, the clients that connect as this one does."""
    kinds = {"register": RegisterOps, "set": SetOps, "tenants": TenantOps}
    return {
        capability: type(f"{capability.title()}Client", (connecting, ops), {})
        for capability, ops in kinds.items()
    }


_BULK_MAX: Final = 16 << 20


class RespError(Exception):
    """What the server refused; its first word is the code."""


class Link:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address: str, port: int) -> Link:
        """Raises OSError."""
        return cls(*await asyncio.open_connection(address, port))

    async def ask(self, *words: str | int) -> Any:
        """What is answered to a command. Raises RespError, ValueError, OSError, EOFError."""
        parts = [str(word).encode() for word in words]
        bulks = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self._writer.write(b"*%d\r\n%s" % (len(parts), bulks))
        return await self._answer()

    async def _answer(self) -> Any:
        line = (await self._reader.readuntil(b"\r\n"))[:-2].decode()
        kind, rest = line[:1], line[1:]
        if kind == "+":
            return rest
        if kind == "-":
            raise RespError(rest)
        if kind == ":":
            return int(rest)
        count = int(rest)
        if kind == "$":
            if count > _BULK_MAX:
                raise ValueError(f"a text of {count} bytes")
            return None if count < 0 else (await self._reader.readexactly(count + 2))[:-2].decode()
        if kind == "*":
            return None if count < 0 else [await self._answer() for _ in range(count)]
        raise ValueError(f"no RESP: {line!r}"[:200])

    def close(self) -> None:
        self._writer.close()


Where = Callable[[Endpoint], Any]
"""(address, port) of the server that takes an operation: a coroutine function."""


class RawResp:
    """Base: `do_<op_type>(link, op)` does an operation. `refusals` are the codes of errors after
    which nothing was done."""

    def __init__(
        self,
        where: Where,
        refusals: frozenset[str],
        at: Endpoint,
        every: Sequence[Endpoint],
        options: Mapping[str, Any],
    ) -> None:
        self._where, self._refusals = where, refusals
        self._at, self._every, self._options = at, every, options

    async def open(self) -> None:
        return

    async def close(self) -> None:
        return

    async def invoke(self, op: OpDraft, timeout_s: float) -> Reply:
        """As the first client does."""
        act = getattr(self, f"do_{op.op_type}", None)
        if act is None:
            raise Definite(f"unsupported operation: {op.op_type}")
        try:
            async with asyncio.timeout(timeout_s):
                return await self._at_server(act, op, timeout_s)
        except TimeoutError:
            raise Indefinite("timeout") from None

    async def _at_server(self, act: Any, op: OpDraft, timeout_s: float) -> Reply:
        try:
            address, port = await self._where(self._at)
            link = await Link.to(address, port)
        except (OSError, EOFError, ValueError, RespError) as error:
            raise Definite(f"{NOT_CONNECTED}: {error}"[:200]) from None
        try:
            try:
                output = await act(link, op)
            except RespError as error:
                code = str(error).partition(" ")[0]
                kind = Definite if code in self._refusals else Indefinite
                raise kind(f"{code}: {error}"[:200]) from None
            if op.op_type != "read":
                await self._replicated(link, timeout_s)
        except (OSError, EOFError, ValueError) as error:
            raise Indefinite(f"{type(error).__name__}: {error}"[:200]) from None
        finally:
            link.close()
        seen = next((end.node for end in self._every if end.address == address), None)
        return Reply(output, seen)

    async def _replicated(self, link: Link, timeout_s: float) -> None:
        """Where the system has the option `wait`: as many replicas have what was written."""
        wanted = self._options.get("wait", 0)
        if not wanted:
            return
        try:
            have = await link.ask("WAIT", wanted, int(timeout_s * 500))
        except RespError as error:
            raise Indefinite(f"written, but {error}"[:200]) from None
        if have < wanted:
            raise Indefinite(f"{have} of {wanted} replicas have it")


class RawRegister(RawResp):
    """read, write: the same keys as `RegisterOps`."""

    async def do_read(self, link: Link, op: OpDraft) -> Any:
        return json.loads(await link.ask("GET", f"register-{op.key}") or "null")

    async def do_write(self, link: Link, op: OpDraft) -> None:
        await link.ask("SET", f"register-{op.key}", json.dumps(op.input, separators=(",", ":")))


class RawSet(RawResp):
    """add, read: the same keys as `SetOps`."""

    async def do_read(self, link: Link, op: OpDraft) -> list[Any]:
        return [json.loads(text) for text in await link.ask("SMEMBERS", f"set-{op.key}")]

    async def do_add(self, link: Link, op: OpDraft) -> None:
        await link.ask("SADD", f"set-{op.key}", json.dumps(op.input, separators=(",", ":")))


def raw_clients(where: Where, refusals: frozenset[str]) -> dict[str, Callable[..., Client]]:
    """By capability, the clients that find their server so."""

    def made(kind: type[RawResp]) -> Callable[..., Client]:
        return lambda at, every, options: kind(where, refusals, at, every, options)

    return {"register": made(RawRegister), "set": made(RawSet)}


def by_sentinel(port: int, name: str, refusals: Mapping[str, str]) -> Mapping[str, Any]:
    """`raw_clients` of the primary that the sentinel of a client's node names."""

    async def primary(at: Endpoint) -> tuple[str, int]:
        sentinel = await Link.to(at.address, port)
        try:
            found = await sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)
        finally:
            sentinel.close()
        if not isinstance(found, list) or len(found) != 2:
            raise ValueError(f"no primary: {found!r}")
        return found[0], int(found[1])

    return raw_clients(primary, frozenset(refusals.values()))
