"""One HTTP/1.1 request and its answer over a connection that may be used again.

The parser is httptools (of llhttp). Who asks gets the answer's bytes as they come, unchanged, and
is told when it is whole; the proxy hands them on, the load reads them. Behind the service a request
of the load is known by headers that many services hand on (`id_headers`).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

import httptools

from dstest.core.clock import monotonic_ns
from dstest.core.errors import ConfigError

_IDLE_NS: Final = 1_000_000_000
"""A connection that nobody used for so long is not used again: it may have been closed on the other
side meanwhile, and what is asked over it would fail by no fault of the service."""

_HEAD_BYTES_MAX: Final = 1_000_000
"""Of an answer before its body: a server that never ends its head is no server of HTTP."""

_MARK: Final = b"6473746573740001"
"""`dstest` and a version, in hexadecimal digits."""

_OWN: Final = re.compile(rb"dstest-(\d{1,15})")


class Upstream(NamedTuple):
    host: str
    port: int
    tls: bool = False

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def upstream_of(text: str) -> Upstream:
    """Of `http://host:port`, `https://host` or `host:port`. Raises ConfigError."""
    full = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(full)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{text!r} is no address", remedy="http://127.0.0.1:8000") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{text!r} is no address of HTTP", remedy="http://127.0.0.1:8000")
    if parts.path not in ("", "/") or parts.query:
        raise ConfigError(
            f"{text!r} has a path", remedy="the address alone here; paths stand with the endpoints"
        )
    tls = parts.scheme == "https"
    return Upstream(parts.hostname, port or (443 if tls else 80), tls)


class Broken(Exception):
    """There is no whole answer. `trouble` says why, as the client sees it."""

    def __init__(self, trouble: str) -> None:
        super().__init__(trouble)
        self.trouble = trouble


class Answer(NamedTuple):
    """Of one request, and no part of its connection, which may be asked the next thing already."""

    status: int
    headers: list[tuple[bytes, bytes]]
    keeps: bool
    """False: its connection ends with it, and may be its only end."""


class Connection(asyncio.Protocol):
    """One request at a time. What httptools calls are the `on_` methods."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.idle_since_ns = 0
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._done: asyncio.Future[None] | None = None
        self._sink: Sink = _nowhere
        self._parser: httptools.HttpResponseParser | None = None
        self._head = False
        self._in_body = False
        self._until_end = True
        self._keep = False
        self._whole = False
        self._head_bytes = 0

    async def ask(self, request: bytes, sink: Sink, *, head: bool) -> Answer:
        """Send a request; its answer's bytes go to `sink`. Returns when the answer is whole.
        Raises Broken."""
        if self.transport is None or self.transport.is_closing():
            raise Broken("closed")
        self._status, self._headers, self._head, self._sink = 0, [], head, sink
        self._in_body, self._until_end, self._keep = False, True, False
        self._whole, self._head_bytes = False, 0
        self.hold(False)
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        try:
            await self._done
        finally:
            self._done, self._parser, self._sink = None, None, _nowhere
            self.idle_since_ns = monotonic_ns()
        return Answer(self._status, self._headers, self.reusable)

    @property
    def reusable(self) -> bool:
        return self._keep and self.transport is not None and not self.transport.is_closing()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def hold(self, held: bool) -> None:
        """Read no more of the answer, until whoever takes it can."""
        if self.transport is not None and not self.transport.is_closing():
            (self.transport.pause_reading if held else self.transport.resume_reading)()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is of no class of asyncio

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self._done is None:
            self.close()  # nobody had asked
            return
        if not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX + len(data):
                self._end("no HTTP")
                self.close()
                return
        self._sink(data, self)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._end("no HTTP")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._in_body and self._until_end and exc is None:
            self._end(None)  # without a length, an answer ends with its connection
        else:
            self._end("closed" if exc is None else "reset")

    def _end(self, trouble: str | None) -> None:
        if self._done is None or self._done.done():
            return
        if trouble is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(Broken(trouble))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._whole:
            return
        lower = name.lower()
        self._headers.append((lower, value))
        if lower in (b"content-length", b"transfer-encoding"):
            self._until_end = False

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if self._whole:
            self._keep = False  # more than was asked for: what comes next is not known
            return
        self._status = self._parser.get_status_code()
        self._in_body = self._status >= 200
        self._keep = self._parser.should_keep_alive()
        if self._head and self._in_body:
            self._whole = True
            self._end(None)

    def on_message_complete(self) -> None:
        if self._whole:
            return
        if self._status >= 200:
            self._in_body, self._whole = False, True
            self._end(None)
        else:
            self._headers.clear()  # 100 Continue and its like come before the answer


class Pool:
    """Connections to one place."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self._free: list[Connection] = []

    async def ask(self, method: bytes, request: bytes, sink: Sink) -> Answer:
        """Ask over a connection that is free, or a new one. Raises Broken.

        Nothing is asked twice, though RFC 9110 section 9.2.2 lets a client do that where a kept
        connection was closed: a service that took the request and died of it looks the same, and
        would be seen to answer."""
        connection = self._kept() or await self._opened()
        try:
            answer = await connection.ask(request, sink, head=method == b"HEAD")
        except BaseException:
            connection.close()
            raise
        self._give_back(connection)
        return answer

    def close(self) -> None:
        while self._free:
            self._free.pop().close()

    def _give_back(self, connection: Connection) -> None:
        connection.hold(False)
        if connection.reusable:
            self._free.append(connection)
        else:
            connection.close()

    def _kept(self) -> Connection | None:
        now_ns = monotonic_ns()
        while self._free:
            connection = self._free.pop()
            if connection.reusable and now_ns - connection.idle_since_ns < _IDLE_NS:
                return connection
            connection.close()
        return None

    async def _opened(self) -> Connection:
        host, port, tls = self.upstream
        context = ssl.create_default_context() if tls else None
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(
                Connection, host, port, ssl=context
            )
        except ConnectionRefusedError:
            raise Broken("refused") from None
        except OSError:
            raise Broken("closed") from None
        return protocol


def _nowhere(data: bytes, connection: Connection) -> None:
    """What comes before anybody asked."""


Sink = Callable[[bytes, Connection], None]
"""Takes an answer's bytes, and may hold the connection that they come from."""


def id_headers(n: int) -> bytes:
    """The lines for the n-th request, n from 1."""
    return b"X-Request-Id: dstest-%d\r\ntraceparent: 00-%s%016x-%016x-01\r\n" % (n, _MARK, n, n)


def request_of(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Which request of the load these headers belong to; None where they do not say."""
    for name, value in headers:
        lower = name.lower()
        if lower == b"x-request-id":
            if found := _OWN.fullmatch(value.strip()):
                return int(found[1])
        elif lower == b"traceparent":
            parts = value.strip().split(b"-")
            if len(parts) >= 3 and len(parts[1]) == 32 and parts[1].startswith(_MARK):
                try:
                    return int(parts[1][16:], 16)
                except ValueError:
                    return None
    return None
