"""Pages that servers show by HTTP: what is no page is an error, whatever it says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clusters.supervise import HttpRequests, wire
from dstest.core.protocols import Endpoint, Indefinite, OpDraft


def asked(said: bytes, ask: Callable[[int], Awaitable[Any]]) -> tuple[Any, bytes]:
    """What is made of this answer, and what the server was asked."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(said)
        writer.close()

    async def both() -> Any:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            return await ask(server.sockets[0].getsockname()[1])

    return asyncio.run(both()), heard[0]


def page(said: bytes) -> Any:
    return asked(said, lambda port: wire.page("127.0.0.1", port, "/x"))[0]


def test_a_page_is_read_as_json() -> None:
    found, heard = asked(
        b'HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{"a": [1]}',
        lambda port: wire.page("127.0.0.1", port, "/x?y"),
    )
    assert found == {"a": [1]}
    assert heard == b"GET /x?y HTTP/1.0\r\n\r\n"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"status": "starting"}', "/x: 503 .*starting"),
        (b"HTTP/1.0 500 took 200 ms\r\n\r\n{}", "/x: 500"),
        (b"", "/x: no HTTP: ''"),
        (b"-ERR unknown command 200 \r\n", "/x: no HTTP"),
    ],
)
def test_what_is_no_page(said: bytes, why: str) -> None:
    with pytest.raises(OSError, match=why):
        page(said)


def test_a_page_that_ends_early() -> None:
    with pytest.raises(ValueError, match="line 1"):
        page(b'HTTP/1.0 200 OK\r\n\r\n{"a": [')


@pytest.mark.parametrize(("status", "text"), [(200, b"200 OK"), (503, b"503 took 200 ms")])
def test_a_status_alone(status: int, text: bytes) -> None:
    said = b"HTTP/1.0 " + text + b"\r\n\r\n"
    assert asked(said, lambda port: wire.fetched("127.0.0.1", port, "/x"))[0] == (status, "")


class Kept(wire.HttpClient):
    """A client of one server, with what it has heard."""

    async def do_read(self, op: OpDraft) -> Any:
        return await self.request(self.at, "PUT", f"/k{op.key}", b"7")


def conversation(answers: list[bytes]) -> tuple[list[Any], list[bytes], int]:
    """What a client makes of these answers, one of each request; what was asked by connection."""
    heard: list[bytes] = []
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(b"")
        with contextlib.suppress(asyncio.IncompleteReadError):
            while left:
                heard[-1] += await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(1)
                answer = left.pop(0)
                writer.write(answer)
                if not answer or b"close" in answer:
                    break
        writer.close()

    async def go() -> tuple[list[Any], int]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            end = Endpoint(node="n1", address="192.0.2.1", port=port, dial="127.0.0.1")
            client = Kept(end, [end], {})
            found: list[Any] = []
            for key in range(len(answers)):
                try:
                    found.append((await client.invoke(OpDraft("read", key), 2.0)).output)
                except Indefinite:
                    found.append("unknown")
                await asyncio.sleep(0.02)
            await client.close()
            return found, client.calls

    found, calls = asyncio.run(go())
    return found, heard, calls


def test_a_client_keeps_its_connection_as_long_as_the_server_does() -> None:
    """It goes where it is dialled, and sends nothing twice."""
    head, chunked = b"HTTP/1.1 200 OK\r\n", b"Transfer-Encoding: chunked\r\n\r\n"
    answers = [
        head + b"Content-Length: 2\r\n\r\nok",
        b"HTTP/1.1 100 Continue\r\n\r\n" + head + chunked + b"3\r\nabc\r\n1;x\r\nd\r\n0\r\n\r\n",
        b"HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"",  # ended without an answer: nobody knows
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ]
    found, heard, calls = conversation(answers)
    assert found == [(200, b"ok"), (200, b"abcd"), (503, b""), "unknown", (204, b"")]
    assert [text.count(b"PUT /k") for text in heard] == [3, 1, 1]
    assert b"Host: 192.0.2.1" in heard[0]
    assert calls == 5
    counter = HttpRequests()
    counter.feed(heard[0])
    assert (counter.requests, counter.known) == (3, True)
