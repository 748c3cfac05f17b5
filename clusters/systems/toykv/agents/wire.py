"""Connections of JSON lines, who is asked over one (`Peer`), and spans: what a server did for whom,
from when to when, if a file is wanted.

A request that expects an answer has a number `n`, which its answer repeats. Many requests may be
under way on one connection; each is sent once.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

__all__ = [
    "CURRENT",
    "Connection",
    "Context",
    "NotSent",
    "Peer",
    "Span",
    "Spans",
    "context_of",
]

Context = list[str]
"""Trace and span."""

CURRENT: ContextVar[Context | None] = ContextVar("span", default=None)

STUCK_MS = 1500
"""The kernel ends a connection whose data is not acknowledged for so long, so that none is still
waiting for its next retransmission when a network has been mended."""

CONNECT_S = 0.5


def context_of(message: dict[str, Any]) -> Context | None:
    """The span that a message is sent for; None where it names none, or what is none."""
    told = message.get("span")
    good = isinstance(told, list) and len(told) == 2 and all(isinstance(one, str) for one in told)
    return told if good else None


class Span:
    """From `with` to its end. `context` is None where nothing is written."""

    def __init__(self, spans: Spans | None, row: dict[str, Any], parent: Context | None) -> None:
        self._spans, self._row = spans, row
        self.context: Context | None = None
        if spans is not None and parent is not None:
            self.context = [parent[0], spans.next_id()]
            row["traceId"], row["spanId"] = self.context
            row["parentSpanId"] = parent[1]
        self._token: Token[Context | None] | None = None

    def __enter__(self) -> Span:
        if self.context is not None and self._spans is not None:
            self._row["startNs"] = self._spans.now_ns()
            self._token = CURRENT.set(self.context)
        return self

    def note(self, **more: Any) -> None:
        """What is known later."""
        self._row.update(more)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.context is None or self._spans is None or kind is GeneratorExit:
            return  # nobody goes on: the process is gone
        assert self._token is not None
        CURRENT.reset(self._token)
        self._row["endNs"] = self._spans.now_ns()
        if error is not None:
            self._row["error"] = repr(error)
        self._spans.write(self._row)


class Spans:
    """The spans of one server, written when they end: one that was under way when its server died
    is missing. What is asked of another server carries the span that it is asked for (`span`: trace
    and span). `line` takes what is to be kept, None where nothing is.
    """

    def __init__(
        self, node: str, now_ns: Callable[[], int], line: Callable[[str], object] | None
    ) -> None:
        self._node, self._line = node, line
        self.now_ns = now_ns
        self._start = f"{node}-{now_ns():x}"
        self._number = 0

    @property
    def wanted(self) -> bool:
        """Is anything written?"""
        return self._line is not None

    def next_id(self) -> str:
        """An id that no other span has, not even of an earlier process of this server."""
        self._number += 1
        return f"{self._start}-{self._number}"

    def span(self, operation: str, kind: str, parent: Context | None = None, **more: Any) -> Span:
        """A span below `parent`, or below the one that is under way; none where neither is."""
        above = CURRENT.get() if parent is None else parent
        row = {"nodeId": self._node, "operation": operation, "kind": kind, **more}
        return Span(self if self.wanted else None, row, above)

    def root(self, operation: str, trace: str) -> Span:
        """The first of a trace of this server's own."""
        row = {"nodeId": self._node, "operation": operation, "kind": "internal"}
        return Span(self if self.wanted else None, row, [trace, ""])

    def write(self, row: dict[str, Any]) -> None:
        """One that has ended."""
        if self._line is not None:
            self._line(json.dumps(row, separators=(",", ":")))


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
