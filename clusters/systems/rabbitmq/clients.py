"""Queues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from clusters.supervise import FramedRequests, LinkedClient, told
from clusters.systems.rabbitmq.deployment import HELLO
from clusters.systems.rabbitmq.link import Link, connected
from dstest.core.protocols import Definite, Endpoint, OpDraft

NOT_DECLARED: Final = "not-declared"
NOT_OFFERED: Final = "not-offered"
_HEADER: Final = 7
_TO_DEAD: Final = "x-dead-letter-routing-key"
_ASKED: Final = frozenset({(50, 10), (60, 40), (60, 70), (60, 80), (60, 90)})
"""queue.declare; basic.publish, .get, .ack, .reject (AMQP 0-9-1, 1.5 and 1.8)."""

DEAD_LETTERS: Final[dict[str, dict[str, str]]] = {
    "at-least-once": {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
    "at-most-once": {},
}


class QueueClient(LinkedClient):
    """enqueue: a confirmed publish. dequeue: get, then acknowledge; the channel does one thing
    after the other, so that its next answer comes after the acknowledgement was passed on.

    Until an acknowledgement is sent nothing has been taken: a connection that got no answer to a
    get is closed, and what the broker has sent there goes back to the queue.
    """

    async def connect(self, to: Endpoint) -> Link:
        return await connected(to.dial or to.address, to.port, self.wait_s)

    def more(self, key: Any) -> dict[str, str]:
        """Arguments of a queue."""
        return {}

    async def _queue(self, name: str, more: Mapping[str, str]) -> tuple[Link, Any]:
        """The connection, and the queue, whose dead letters have one already: what finds none is
        dropped. Raises Definite where there is none."""
        link: Link = await self.link()
        dead = more.get(_TO_DEAD)
        for each, arguments in [*([(dead, {})] if dead else []), (name, more)]:
            if each in link.queues:
                continue
            try:
                await link.queue(each, self.options["queues"], self.wait_s, arguments)
            except Exception as error:
                await self.close()
                raise Definite(told(NOT_DECLARED, repr(error))) from None
            link = await self.link()
        return link, link.queues[name]

    async def do_enqueue(self, op: OpDraft) -> None:
        link, queue = await self._queue(f"job-{op.key}", self.more(op.key))
        await link.put(queue.name, json.dumps(op.input).encode(), self.wait_s)

    async def do_dequeue(self, op: OpDraft) -> Any:
        return await self._take(f"job-{op.key}", self.more(op.key))

    async def _take(self, name: str, more: Mapping[str, str], *, refused: bool = False) -> Any:
        """Get one and acknowledge it, or refuse it for good; None where there is none."""
        _, queue = await self._queue(name, more)
        try:
            message = await queue.get(fail=False, timeout=self.wait_s / 2)
        except Exception as error:
            await self.close()
            raise Definite(told(NOT_OFFERED, repr(error))) from None
        if message is None:
            return None
        await self.link()
        await (message.reject(requeue=False) if refused else message.ack())
        again: Link = await self.link()
        await again.channel.declare_queue(queue.name, passive=True, timeout=self.wait_s)
        return json.loads(message.body)


class DeadLettersClient(QueueClient):
    """reject: get, then refuse for good. collect: a dequeue from the queue of dead letters."""

    def more(self, key: Any) -> dict[str, str]:
        to = {"x-dead-letter-exchange": "", _TO_DEAD: f"dead-{key}"}
        return {**to, **DEAD_LETTERS[self.options["dead_letters"]]}

    async def do_reject(self, op: OpDraft) -> Any:
        return await self._take(f"job-{op.key}", self.more(op.key), refused=True)

    async def do_collect(self, op: OpDraft) -> Any:
        return await self._take(f"dead-{op.key}", {})


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
