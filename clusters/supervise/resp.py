"""Systems that speak the Redis serialization protocol, asked by the library `redis`."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final

import msgspec

from clusters.supervise.deployment import SupervisedDeployment
from clusters.supervise.ops import LinkedClient, told
from dstest.core.node import Node
from dstest.core.protocols import Clocked, Indefinite, OpDraft, Probe, ServerTime

LOG_ALARMS: Final = (
    "=== REDIS BUG REPORT",
    "Guru Meditation",
    "Bad file format reading the append",
)
"""Of a Redis server: it has crashed, panicked, or cannot read its own file."""


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


async def connected(address: str, port: int, timeout_s: float) -> Any:
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
                raise Indefinite(told("written, but", repr(error))) from None
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


def clients_on(connecting: type[RespClient]) -> dict[str, Any]:
    """By capability, the clients that connect as this one does."""
    kinds = {"register": RegisterOps, "set": SetOps}
    return {
        capability: type(f"{capability.title()}Client", (connecting, ops), {})
        for capability, ops in kinds.items()
    }
