"""A connection to a RabbitMQ broker, by the library `aio-pika`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from clusters.supervise import told
from dstest.core.protocols import Indefinite

PORT: Final = 5672
CLOSE_S: Final = 1.0
HEARTBEAT_S: Final = 2
"""The broker gives a client up after two or three of them, and requeues what it had sent there."""

QUEUES: Final = {
    "quorum": {"x-queue-type": "quorum"},
    "mirrored": {"x-queue-type": "classic"},
}

for _library in ("aio_pika", "aiormq"):
    # What it would print of a broker that is away is in the history as an operation's error.
    logging.getLogger(_library).setLevel(logging.CRITICAL)


class Link:
    """A connection of the library `aio-pika`, which does not reconnect, with one channel."""

    def __init__(self, connection: Any, channel: Any) -> None:
        self.connection = connection
        self.channel = channel
        self.queues: dict[str, Any] = {}

    async def queue(
        self, name: str, kind: str, wait_s: float, more: Mapping[str, Any] | None = None
    ) -> Any:
        """A queue, which is made where it is not there yet, with `more` arguments."""
        if name not in self.queues:
            self.queues[name] = await self.channel.declare_queue(
                name, durable=True, arguments={**QUEUES[kind], **(more or {})}, timeout=wait_s
            )
        return self.queues[name]

    async def put(self, name: str, body: bytes, wait_s: float) -> None:
        """Publish, and wait for the broker's confirmation. Raises Indefinite for anything else."""
        from aio_pika import DeliveryMode, Message

        message = Message(body, delivery_mode=DeliveryMode.PERSISTENT)
        said = await self.channel.default_exchange.publish(message, name, timeout=wait_s)
        if getattr(said, "name", "") != "Basic.Ack":
            raise Indefinite(told("not confirmed", repr(said)))

    async def aclose(self) -> None:
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await self.connection.close()


async def connected(address: str, port: int, wait_s: float) -> Link:
    """A connection that can be used at once."""
    import aio_pika

    async with asyncio.timeout(wait_s):
        connection = await aio_pika.connect(
            host=address, port=port, timeout=wait_s, heartbeat=HEARTBEAT_S
        )
        try:
            channel = await connection.channel(publisher_confirms=True)
        except BaseException:
            await connection.close()
            raise
    return Link(connection, channel)
