"""The proxy over real sockets: what passes it is unchanged, what meets a fault meets that one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress

import pytest
from polling import until

from dstest.chaos.http1 import Pool, Upstream, id_headers, request_of
from dstest.chaos.load import OpenLoop, ask_once
from dstest.chaos.proxy import Proxy
from dstest.chaos.records import Entry, Faults, Profile, ProxyRequest
from dstest.chaos.settings import Endpoint, Load

pytestmark = pytest.mark.slow

Server = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers with head and body of each request."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(
                (
                    int(line[15:])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length:")
                ),
                0,
            )
            body = await reader.readexactly(size)
            answer = head + body
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@asynccontextmanager
async def behind(
    server: Server, profile: Profile | None = None, routes: tuple[str, ...] = ()
) -> AsyncIterator[tuple[int, list[ProxyRequest]]]:
    """The port of a proxy in front of a server, and what it logs."""
    writers: list[asyncio.StreamWriter] = []

    async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await server(reader, writer)

    listening = await asyncio.start_server(noted, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    log: list[ProxyRequest] = []
    proxy = Proxy("p", Upstream("127.0.0.1", port), routes, log.append)
    if profile is not None:
        proxy.faults = Faults(profile, 1, "p")
    try:
        yield await proxy.start("127.0.0.1", 0), log
    finally:
        await proxy.stop()
        listening.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)  # transports end one turn of the loop later


async def spoken(port: int, text: bytes, end: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(text)
    try:
        async with asyncio.timeout(5):
            return await (reader.readuntil(end) if end else reader.read())
    finally:
        writer.close()


def test_a_request_passes_as_it_is() -> None:
    async def main() -> None:
        async with behind(echo) as (port, log):
            asked = (
                b"POST /a?b=1 HTTP/1.1\r\nHost: x\r\nX-One: 1\r\nContent-Length: 4\r\n"
                b"Connection: close\r\n\r\nbody"
            )
            answer = await spoken(port, asked)
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert b"POST /a?b=1 HTTP/1.1" in body
            assert b"X-One: 1" in body
            assert body.endswith(b"body")
            assert [(one.endpoint, one.status, one.kind) for one in log] == [("POST /a", 200, None)]

    asyncio.run(main())


def test_a_chunked_request_arrives_whole() -> None:
    async def main() -> None:
        async with behind(echo) as (port, _):
            asked = (
                b"PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
                b"\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
            )
            assert (await spoken(port, asked)).endswith(b"abcde")

    asyncio.run(main())


def test_requests_that_are_sent_ahead_are_answered_in_order() -> None:
    async def main() -> None:
        async with behind(echo) as (port, log):
            one = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"
            last = b"GET /20 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            answer = await spoken(port, b"".join(one % n for n in range(20)) + last)
            places = [answer.index(b"GET /%d " % n) for n in range(21)]
            assert places == sorted(places)
            assert len(log) == 21

    asyncio.run(main())


@pytest.mark.parametrize(
    ("server_says", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"3\r\nabc\r\n0\r\n\r\n",
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"ok"),
    ],
    ids=["to the end", "chunked", "empty", "continue"],
)
def test_each_way_of_an_answer_to_end(server_says: bytes, body: bytes) -> None:
    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(server_says)
        writer.close()

    async def main() -> None:
        async with behind(server) as (port, log):
            answer = await spoken(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert answer.endswith(body)
            assert log[0].ended == "answered"

    asyncio.run(main())


def test_a_head_request_has_no_body() -> None:
    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")

    async def main() -> None:
        async with behind(server) as (port, _):
            told = await ask_once(Upstream("127.0.0.1", port), Endpoint(path="/", method="HEAD"), 2)
            assert told["status"] == 200

    asyncio.run(main())


def test_a_large_answer_waits_for_a_slow_client() -> None:
    size = 40_000_000

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 1_000_000):
            writer.write(b"x" * 1_000_000)
            await writer.drain()
            written[0] += 1_000_000

    written = [0]

    async def main() -> None:
        async with behind(server) as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(1)
            assert written[0] < size  # the rest waits, and not in the proxy's memory
            await reader.readuntil(b"\r\n\r\n")
            assert len(await reader.readexactly(size)) == size
            writer.close()

    asyncio.run(main())


def test_what_is_no_http_is_refused() -> None:
    async def main() -> None:
        async with behind(echo) as (port, log):
            assert (await spoken(port, b"\x16\x03\x01 hello\r\n\r\n")).startswith(b"HTTP/1.1 400")
            assert log == []

    asyncio.run(main())


def test_an_upstream_that_is_not_there_is_told() -> None:
    async def main() -> None:
        log: list[ProxyRequest] = []
        proxy = Proxy("p", Upstream("127.0.0.1", 1), (), log.append)
        port = await proxy.start("127.0.0.1", 0)
        answer = await spoken(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 502")
        assert log[0].ended == "upstream failed"
        assert log[0].id is None
        await proxy.stop()

    asyncio.run(main())


async def load_of(port: int, count: int, timeout_s: float = 1.0) -> list[Entry]:
    entries: list[Entry] = []
    load = Load(rate=200, timeout_s=timeout_s)
    loop = OpenLoop(Upstream("127.0.0.1", port), [Endpoint(path="/a")], load, entries.append)
    stop = asyncio.Event()
    running = asyncio.ensure_future(loop.run(stop))
    await until(lambda: len(entries) >= count)
    stop.set()
    await running
    return entries


@pytest.mark.parametrize(
    ("profile", "troubles", "statuses"),
    [
        (Profile(error=1.0, error_status=503), {None}, {503}),
        (Profile(reset=1.0), {"reset", "closed"}, {None}),
        (Profile(drop=1.0), {"closed"}, {None}),
        (Profile(blackhole=1.0), {"timeout"}, {None}),
        (Profile(delay=1.0, delay_low_s=0.2, delay_high_s=0.3), {None}, {200}),
    ],
    ids=["error", "reset", "drop", "blackhole", "delay"],
)
def test_each_fault_is_what_its_client_sees(
    profile: Profile, troubles: set[str | None], statuses: set[int | None]
) -> None:
    async def main() -> None:
        async with behind(echo, profile) as (port, log):
            entries = await load_of(port, 30, 1 if profile.blackhole else 60)
            assert len(entries) > 10
            assert {one.trouble for one in entries} <= troubles
            assert {one.status for one in entries} == statuses
            # A client of a stalled host may have left before its request was read.
            await until(lambda: len(log) >= 0.9 * len(entries))
            assert {one.request for one in log} <= {one.n for one in entries}
            assert all(one.id for one in log)
            if profile.delay:
                assert all(one.service_s >= 0.2 for one in entries)
            if statuses != {None}:
                by_request = {one.request: one.id for one in log}
                assert {one.n: one.chaos_id for one in entries} == by_request

    asyncio.run(main())


def test_an_answer_is_its_own_when_its_connection_is_asked_the_next_thing() -> None:
    """The proxy closed its client's connection then, and the service was blamed for it."""

    async def main() -> None:
        async with behind(echo) as (port, _):
            pool = Pool(Upstream("127.0.0.1", port))
            request = b"GET / HTTP/1.1\r\n\r\n"
            first = asyncio.ensure_future(pool.ask(b"GET", request, lambda *_: None))
            await asyncio.wait([first])
            second = asyncio.ensure_future(pool.ask(b"GET", request, lambda *_: None))
            await asyncio.sleep(0)
            assert (first.result().status, first.result().keeps) == (200, True)
            assert (await second).keeps
            pool.close()

    asyncio.run(main())


@pytest.mark.parametrize("through", [True, False], ids=["proxied", "asked"])
def test_nothing_is_asked_twice_of_a_service_that_dies_of_a_request(through: bool) -> None:
    """Its connections are kept, and every third request on one ends without an answer."""
    asked = 0

    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            for number in range(3):
                await reader.readuntil(b"\r\n\r\n")
                asked += 1
                if number < 2:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def main() -> None:
        if through:
            async with behind(dies) as (port, log):
                entries = await load_of(port, 30)
                assert {one.n for one in entries} == {one.request for one in log}
                assert any(one.status in (502, 504) or one.trouble for one in entries)
        else:
            server = await asyncio.start_server(dies, "127.0.0.1", 0)
            entries = await load_of(server.sockets[0].getsockname()[1], 30)
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0.05)  # kept connections hear of their ends
            assert any(one.trouble == "closed" for one in entries)
            assert {one.trouble for one in entries} == {None, "closed"}
        assert len(entries) > 10 and asked == len(entries)

    asyncio.run(main())


def test_a_reset_is_one() -> None:
    async def main() -> None:
        async with behind(echo, Profile(reset=1.0)) as (port, _):
            with pytest.raises(ConnectionResetError):
                await spoken(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

    asyncio.run(main())


def test_routes_name_paths_that_are_alike() -> None:
    proxy = Proxy("p", Upstream("127.0.0.1", 1), ("GET /items/*",), lambda one: None)
    assert proxy.endpoint_of(b"GET", b"/items/17?x=1") == "GET /items/*"
    assert proxy.endpoint_of(b"PUT", b"/items/17") == "PUT /items/17"
    for n in range(5000):
        proxy.endpoint_of(b"GET", b"/users/%d" % n)
    assert proxy.endpoint_of(b"GET", b"/users/x") == "other"
    assert proxy.endpoint_of(b"GET", b"/items/99999") == "GET /items/*"


def test_ids_are_read_as_they_are_written() -> None:
    def headers(text: bytes) -> list[tuple[bytes, bytes]]:
        return [tuple(line.split(b": ", 1)) for line in text.split(b"\r\n") if line]  # type: ignore[misc]

    both = headers(id_headers(12345))
    assert request_of(both) == request_of(both[:1]) == request_of(both[1:]) == 12345
    assert request_of([(b"x-request-id", b"somebody-else")]) is None
    assert request_of([(b"traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01")]) is None
    assert request_of([]) is None
