"""Systems that speak the Redis serialization protocol, asked by the library `redis`."""

from __future__ import annotations

from typing import Any, ClassVar

from clusters.supervise.deployment import SupervisedDeployment
from clusters.supervise.ops import LinkedClient
from dstest.core.node import Node
from dstest.core.protocols import Clocked, Probe, ServerTime

__all__ = ["RespClient", "RespDeployment", "connected", "connection", "probe"]


def connection(address: str, port: int, timeout_s: float) -> Any:
    """A connection of the library `redis`, which retries nothing and sends nothing of its own."""
    from redis.asyncio import Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff

    return Redis(
        host=address,
        port=port,
        decode_responses=True,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
        single_connection_client=True,
        protocol=2,
        driver_info=None,
    )


async def connected(address: str, port: int, timeout_s: float) -> Any:
    """A connection that has answered a ping; none stays open without."""
    link = connection(address, port, timeout_s)
    try:
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

    async def ask(self, port: int, *words: str) -> dict[str, Any]:
        """What each member answers to a command at this port; None of one that does not."""

        async def one(node: Node) -> Any:
            async with connection(node.info.address, port, self.timing.answer_s) as link:
                return await link.execute_command(*words)

        return await self.answers(one)

    async def server_time(self, name: str) -> ServerTime | None:
        """Of the data's server, in microseconds."""
        said = (await self.ask(self.data_port, "TIME"))[name]
        return said and ServerTime(int(said[0]) * 10**9 + int(said[1]) * 1000, 1000)

    async def version(self) -> str:
        infos = await self.ask(self.data_port, "INFO", "server")
        return ", ".join(sorted({info["redis_version"] for info in infos.values() if info}))


class RespClient(LinkedClient):
    """Base of clients whose operations are commands."""

    async def do(self, *words: str) -> Any:
        """What is answered to a command."""
        return await (await self.link()).execute_command(*words)
