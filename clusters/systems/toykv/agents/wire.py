"""Connections of JSON lines, and who is asked over one: `Peer`.

A request that expects an answer has a number `n`, which its answer repeats. Many requests may be
under way on one connection; each is sent once.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

from clusters.systems.toykv.agents.spans import Context, Spans

__all__ = ["Connection", "NotSent", "Peer"]

STUCK_MS = 1500
"""The kernel ends a connection whose data is not acknowledged for so long, so that none is still
waiting for its next retransmission when a network has been mended."""

CONNECT_S = 0.5


class NotSent(ConnectionError):
    """There was no connection: the request has not left this process."""


class Connection(asyncio.Protocol):
    """`on_message` is called with this connection and each message, in their order."""

    def __init__(
        self,
        on_message: Callable[[Connection, dict[str, Any]], None],
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_MS)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                self.close()
                return
            self._on_message(self, message)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._on_lost()

    def send(self, message: dict[str, Any]) -> None:
        """Sends it, unless the connection is gone."""
        if self._transport is not None:
            self._transport.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Ends it at once."""
        if self._transport is not None:
            self._transport.abort()


class Peer:
    """Another server, at `HOST:PORT`; the connection is made at need."""

    def __init__(self, address: str, spans: Spans | None = None) -> None:
        self._spans = spans
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._link: Connection | None = None
        self._lock = asyncio.Lock()
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0

    async def _connected(self) -> Connection:
        async with self._lock:
            if self._link is None:
                loop = asyncio.get_running_loop()
                link = Connection(self._answered, self._lost)
                try:
                    async with asyncio.timeout(CONNECT_S):
                        await loop.create_connection(lambda: link, self._host, self._port)
                except (OSError, TimeoutError) as error:
                    raise NotSent(f"{self._host}:{self._port}: {error!r}") from None
                self._link = link
            return self._link

    def _answered(self, link: Connection, message: dict[str, Any]) -> None:
        asked = self._asked.pop(message.get("n", -1), None)
        if asked is not None and not asked.done():
            asked.set_result(message)

    def _lost(self) -> None:
        self._link = None
        self.give_up("the connection was lost")

    def give_up(self, why: str) -> None:
        """Wait for none of the answers any more that are still to come."""
        asked, self._asked = self._asked, {}
        for answer in asked.values():
            if not answer.done():
                answer.set_exception(ConnectionError(why))

    async def ask(
        self, message: dict[str, Any], wait_s: float, parent: Context | None = None
    ) -> dict[str, Any]:
        """The answer. Raises `NotSent`, ConnectionError or TimeoutError. `parent` is the span that
        it is asked for, where that is not the one that is under way."""
        if self._spans is None:
            return await self._ask(message, wait_s)
        with self._spans.span(f"ask {message['t']}", "client", parent, peer=self._host) as span:
            if span.context is None:
                return await self._ask(message, wait_s)
            return await self._ask({**message, "span": span.context}, wait_s)

    async def _ask(self, message: dict[str, Any], wait_s: float) -> dict[str, Any]:
        link = await self._connected()
        self._number += 1
        number = self._number
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        link.send({**message, "n": number})
        try:
            async with asyncio.timeout(wait_s):
                return await answer
        finally:
            self._asked.pop(number, None)
            if not answer.done():
                answer.cancel()
