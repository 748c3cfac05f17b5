"""Pages that servers show by HTTP: what is no page is an error, whatever it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clusters.supervise import http


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
    return asked(said, lambda port: http.page("127.0.0.1", port, "/x"))[0]


def test_a_page_is_read_as_json() -> None:
    found, heard = asked(
        b'HTTP/1.0 200 OK\r\nServer: x\r\n\r\n{"a": [1]}',
        lambda port: http.page("127.0.0.1", port, "/x?y"),
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
    assert asked(said, lambda port: http.fetched("127.0.0.1", port, "/x"))[0] == (status, "")
