"""A proxy for HTTP/1.1 that lets requests through or has them meet a fault, and logs each. An
answer's bytes are handed on as they come, with one header more."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import httptools

from dstest.chaos.http1 import Broken, Connection, Pool, Upstream, request_of
from dstest.chaos.records import DrawnFault, Ended, Faults, ProxyRequest
from dstest.core.clock import monotonic_ns

BODY_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a request: it is kept until it is whole."""

_HEAD_BYTES_MAX: Final = 1_000_000

_WAITING_MAX: Final = 8
"""Requests that one client may send ahead before it is read no further."""

_ENDPOINTS_MAX: Final = 2000
"""More names are one, `other`: paths with numbers in them want `routes`."""

_HOP: Final = frozenset(
    b"connection proxy-connection keep-alive te upgrade expect transfer-encoding"
    b" content-length".split()
)
"""RFC 9110 section 7.6.1, and what is said anew of a body that is whole."""


def own_answer(
    status: bytes, text: bytes, header: bytes, *, keep: bool, head: bool = False
) -> bytes:
    lines = [
        b"HTTP/1.1 " + status,
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Length: %d" % len(text),
    ]
    lines += [header] if header else []
    lines += [] if keep else [b"Connection: close"]
    return b"\r\n".join(lines) + b"\r\n\r\n" + (b"" if head else text)


def reset(transport: Any) -> None:
    """Close with RST: what was sent and not read is thrown away, as by a host that crashed."""
    found = transport.get_extra_info("socket")
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class Toward:
    """Where the bytes of an answer go; the header is put behind its first line."""

    def __init__(self, hand_on: Callable[[bytes, Connection], None], header: bytes) -> None:
        self._hand_on = hand_on
        self._header = header
        self._first = b""
        self.begun = False

    def __call__(self, data: bytes, source: Connection) -> None:
        if self.begun or not self._header:
            self.begun = True
            self._hand_on(data, source)
            return
        self._first += data
        passed = b""
        while self._first.startswith(b"HTTP/1.1 1"):  # comes before the answer itself
            early, end, rest = self._first.partition(b"\r\n\r\n")
            if not end:
                break
            passed, self._first = passed + early + end, rest
        line, end, rest = self._first.partition(b"\r\n")
        if end and not line.startswith(b"HTTP/1.1 1"):
            self.begun = True
            passed += line + end + self._header + end + rest
        if passed:
            self._hand_on(passed, source)


class _Request(NamedTuple):
    method: bytes
    target: bytes
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    keep: bool

    def written(self, upstream: Upstream) -> bytes:
        """As it is sent on."""
        lines = [b"%s %s HTTP/1.1" % (self.method, self.target)]
        lines += [b"%s: %s" % pair for pair in self.headers if pair[0].lower() not in _HOP]
        if not any(name.lower() == b"host" for name, _ in self.headers):
            lines.append(b"Host: " + upstream.address.encode())
        if self.body or self.method in (b"POST", b"PUT", b"PATCH"):
            lines.append(b"Content-Length: %d" % len(self.body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body


class Proxy:
    """In front of one upstream. `faults` may be exchanged while it runs; None lets all through."""

    def __init__(
        self,
        name: str,
        upstream: Upstream,
        routes: Sequence[str],
        log: Callable[[ProxyRequest], None],
    ) -> None:
        self.name = name
        self.faults: Faults | None = None
        self.pool = Pool(upstream)
        self._routes = tuple(routes)
        self._names: dict[str, str] = {}
        self._log = log
        self._count = 0
        self._clients: set[_Client] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Client(self), host, port, backlog=1024)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def stop(self) -> None:
        """No more clients; requests that are held end, and are logged."""
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.stop()
        if self._serving:  # also those whose client has just left
            await asyncio.wait(self._serving)
        self.pool.close()

    def endpoint_of(self, method: bytes, target: bytes) -> str:
        """`GET /orders`: without its query, and by the first route that it fits."""
        path = target.partition(b"?")[0].decode("latin-1")
        exact = f"{method.decode('latin-1')} {path}"
        known = self._names.get(exact)
        if known is None:
            known = next((one for one in self._routes if fnmatchcase(exact, one)), exact)
            if len(self._names) >= _ENDPOINTS_MAX:
                return known if known in self._routes else "other"
            self._names[exact] = known
        return known

    def serving(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin to answer a client."""
        task = asyncio.get_running_loop().create_task(work)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return task

    def next_number(self) -> int:
        self._count += 1
        return self._count

    def joined(self, client: _Client) -> None:
        self._clients.add(client)

    def left(self, client: _Client) -> None:
        self._clients.discard(client)

    def passed(self, **told: Any) -> None:
        self._log(ProxyRequest(proxy=self.name, end_ns=monotonic_ns(), **told))


class _Client(asyncio.Protocol):
    """A connection to the proxy. What httptools calls are the `on_` methods."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[_Request] = deque()
        self._transport: Any = None
        self.task: asyncio.Task[None] | None = None
        self._gone = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._held: Connection | None = None
        self._eof = False
        self._held_up = False
        self._stopped = False
        self._begin()

    def _begin(self) -> None:
        self._target = b""
        self._whole_head = False
        self._head_bytes = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._size = 0

    # of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._proxy.joined(self)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        if not self._whole_head and self._head_bytes > _HEAD_BYTES_MAX + len(data):
            self._refuse(b"431 Request Header Fields Too Large", b"a head of more than 1 MB")
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(b"501 Not Implemented", b"dstest chaos hands on HTTP/1.1 only")
        except httptools.HttpParserError:
            self._refuse(b"400 Bad Request", b"this is no HTTP/1.1")

    def eof_received(self) -> bool:
        """A client may say that it asks no more and wait for its answers; one that waits for a
        fault has had enough."""
        self._eof = True
        if self._held_up and not self._gone.done():
            self._gone.set_result(None)
        if self.task is None or self.task.done():
            self._transport.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        if not self._gone.done():
            self._gone.set_result(None)
        self._proxy.left(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        if self._held is not None:
            self._held.hold(False)
            self._held = None

    def hand_on(self, data: bytes, source: Connection) -> None:
        """Write a part of an answer; its source waits while the client is slow."""
        if self._transport.is_closing():
            return
        self._transport.write(data)
        if not self._writable.is_set():
            self._held = source
            source.hold(True)

    def stop(self) -> None:
        self._stopped = True
        if not self._gone.done():
            self._gone.set_result(None)
        self._transport.abort()

    # of httptools

    def on_message_begin(self) -> None:
        self._begin()

    def on_headers_complete(self) -> None:
        self._whole_head = True

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))
        if name.lower() == b"expect":
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > BODY_BYTES_MAX:
            self._refuse(b"413 Content Too Large", b"dstest chaos keeps 16 MB of a request")
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        request = _Request(
            self._parser.get_method(),
            self._target,
            self._headers,
            b"".join(self._body),
            self._parser.should_keep_alive(),
        )
        self._waiting.append(request)
        if len(self._waiting) >= _WAITING_MAX:
            self._transport.pause_reading()
        if self.task is None or self.task.done():
            self.task = self._proxy.serving(self._serve())

    def _refuse(self, status: bytes, text: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(own_answer(status, text, b"", keep=False))
            self._transport.close()

    # one request after the other

    async def _serve(self) -> None:
        while self._waiting and not self._transport.is_closing():
            request = self._waiting.popleft()
            if len(self._waiting) == _WAITING_MAX - 1:
                self._transport.resume_reading()
            await self._one(request)
            if not request.keep:
                self._transport.close()
        if self._eof and not self._waiting:
            self._transport.close()

    async def _one(self, request: _Request) -> None:
        proxy, begin_ns = self._proxy, monotonic_ns()
        endpoint = proxy.endpoint_of(request.method, request.target)
        drawn = proxy.faults.draw(endpoint) if proxy.faults is not None else None
        n = proxy.next_number()
        fault_id = f"{proxy.name}-{n}" if drawn is not None else None
        if drawn is None:
            ended, status = await self._forward(request, b"")
        else:
            error_status = proxy.faults.profile.error_status if proxy.faults is not None else 500
            ended, status = await self._meet(request, drawn, f"{proxy.name}-{n}", error_status)
        proxy.passed(
            n=n,
            endpoint=endpoint,
            request=request_of(request.headers),
            begin_ns=begin_ns,
            ended=ended,
            status=status,
            id=fault_id,
            kind=drawn.kind if drawn is not None else None,
            delay_s=drawn.delay_s if drawn is not None else 0.0,
        )

    async def _meet(
        self, request: _Request, drawn: DrawnFault, fault_id: str, error_status: int
    ) -> tuple[Ended, int | None]:
        header = b"X-Chaos-Id: " + fault_id.encode()
        if (self._gone.done() or self._eof) and not self._stopped:
            return "client left", None
        self._held_up = drawn.kind in ("delay", "blackhole")
        match drawn.kind:
            case "delay":
                await asyncio.wait([self._gone], timeout=drawn.delay_s)
                if self._gone.done():
                    return ("held" if self._stopped else "client left"), None
                self._held_up = False
                return await self._forward(request, header)
            case "error":
                status = b"%d Injected" % error_status
                self._transport.write(
                    own_answer(
                        status,
                        b"injected by dstest chaos",
                        header,
                        keep=request.keep,
                        head=request.method == b"HEAD",
                    )
                )
                return "answered", error_status
            case "reset":
                reset(self._transport)
                return "reset", None
            case "drop":
                self._transport.close()
                return "dropped", None
            case "blackhole":
                await asyncio.wait([self._gone])  # until the client has enough, or we stop
                return "held", None

    async def _forward(self, request: _Request, header: bytes) -> tuple[Ended, int | None]:
        """Hand the request on and its answer back, with a header more where one is given."""
        pool = self._proxy.pool
        toward = Toward(self.hand_on, header)
        asking = asyncio.ensure_future(
            pool.ask(request.method, request.written(pool.upstream), toward)
        )
        await asyncio.wait([asking, self._gone], return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            return ("held" if self._stopped else "client left"), None
        try:
            answer = asking.result()
        except Broken as error:
            if toward.begun:
                self._transport.abort()
                return "upstream failed", None
            text = f"dstest chaos: {pool.upstream.address}: {error.trouble}".encode()
            self._transport.write(
                own_answer(
                    b"502 Bad Gateway",
                    text,
                    header,
                    keep=request.keep,
                    head=request.method == b"HEAD",
                )
            )
            return "upstream failed", 502
        await self._writable.wait()
        if not answer.keeps:
            self._transport.close()
        return "answered", answer.status
