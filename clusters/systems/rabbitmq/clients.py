"""Queues."""

from __future__ import annotations

import json
from typing import Any, Final

from clusters.supervise import FramedRequests, LinkedClient
from clusters.systems.rabbitmq.deployment import HELLO
from clusters.systems.rabbitmq.link import Link, connected
from dstest.core.protocols import Definite, Endpoint, OpDraft

__all__ = ["NOT_DECLARED", "NOT_OFFERED", "AmqpRequests", "QueueClient"]

NOT_DECLARED: Final = "not-declared"
NOT_OFFERED: Final = "not-offered"
_HEADER: Final = 7
_ASKED: Final = frozenset({(50, 10), (60, 40), (60, 70), (60, 80)})
"""queue.declare, basic.publish, basic.get, basic.ack (AMQP 0-9-1, 1.5 and 1.8)."""


class QueueClient(LinkedClient):
    """enqueue: a confirmed publish. dequeue: get, then acknowledge; the channel does one thing
    after the other, so that its next answer comes after the acknowledgement was passed on.

    Until an acknowledgement is sent nothing has been taken: a connection that got no answer to a
    get is closed, and what the broker has sent there goes back to the queue.
    """

    @property
    def wait_s(self) -> float:
        return float(self.options["op_timeout_s"])

    async def connect(self, to: Endpoint) -> Link:
        return await connected(to.dial or to.address, to.port, self.wait_s)

    async def _queue(self, key: Any) -> tuple[Link, Any]:
        """The connection, and the queue. Raises Definite where there is none."""
        link: Link = await self.link()
        name = f"job-{key}"
        if name in link.queues:
            return link, link.queues[name]
        try:
            queue = await link.queue(name, self.options["queues"], self.wait_s)
        except Exception as error:
            await self.close()
            raise Definite(f"{NOT_DECLARED}: {error!r}"[:300]) from None
        return await self.link(), queue

    async def do_enqueue(self, op: OpDraft) -> None:
        link, queue = await self._queue(op.key)
        await link.put(queue.name, json.dumps(op.input).encode(), self.wait_s)

    async def do_dequeue(self, op: OpDraft) -> Any:
        _, queue = await self._queue(op.key)
        try:
            message = await queue.get(fail=False, timeout=self.wait_s / 2)
        except Exception as error:
            await self.close()
            raise Definite(f"{NOT_OFFERED}: {error!r}"[:300]) from None
        if message is None:
            return None
        await self.link()
        await message.ack()
        again: Link = await self.link()
        await again.channel.declare_queue(queue.name, passive=True, timeout=self.wait_s)
        return json.loads(message.body)


class AmqpRequests(FramedRequests):
    """Methods of a client that are about messages (AMQP 0-9-1, 4.2 Frames)."""

    def frame(self, head: bytes, number: int) -> tuple[int, bool] | None:
        if number == 0:
            return (len(HELLO), False) if len(head) == len(HELLO) else None
        if len(head) < _HEADER:
            return None
        size = int.from_bytes(head[3:7], "big")
        if head[0] not in (1, 2, 3, 8):
            raise ValueError(head[0])
        if head[0] != 1:
            return _HEADER + size + 1, False
        if len(head) < _HEADER + 4:
            return None
        method = int.from_bytes(head[7:9], "big"), int.from_bytes(head[9:11], "big")
        return _HEADER + size + 1, method in _ASKED
