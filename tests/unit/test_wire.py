"""The tap: requests on the wire, counted from the bytes of a connection."""

from __future__ import annotations

import asyncio

import pytest

from clusters.systems.etcd.clients.connection import Http2Requests
from dstest.runner.tap import Tap

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big") + payload


def conversation() -> bytes:
    """Settings, three calls with data, a trailer, a ping and a window update."""
    parts = [PREFACE, frame(4, 0, b"\0" * 12)]
    for stream in (1, 3, 5):
        parts += [frame(1, stream, b"h" * 40), frame(0, stream, b"d" * (20_000 * stream))]
    return b"".join(
        [*parts, frame(1, 5, b"trailer"), frame(6, 0, b"p" * 8), frame(8, 3, b"\0" * 4)]
    )


@pytest.mark.parametrize("step", [1, 7, 24, 1000, 10**9])
def test_requests_are_streams_that_were_opened(step: int) -> None:
    data = conversation()
    counter = Http2Requests()
    for at in range(0, len(data), step):
        counter.feed(data[at : at + step])
    assert (counter.requests, counter.known) == (3, True)


def test_what_is_not_http2_is_not_counted() -> None:
    counter = Http2Requests()
    counter.feed(b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")
    assert (counter.requests, counter.known) == (0, False)


def test_a_library_that_sends_again_is_seen() -> None:
    """One call, of which the library makes two connections and two requests."""

    async def talk() -> tuple[int, int]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1 << 16)
            writer.write(b"ok")
            await writer.drain()
            writer.close()

        port = 0
        server = await asyncio.start_server(answer, "127.0.0.1", port)
        port = server.sockets[0].getsockname()[1]
        tap = Tap("127.0.0.1", port, Http2Requests)
        address = await tap.open(0)
        for _ in range(2):
            reader, writer = await asyncio.open_connection(address, port)
            writer.write(PREFACE + frame(1, 1, b"h"))
            await writer.drain()
            assert await reader.read() == b"ok"
            writer.close()
        await tap.close()
        server.close()
        return tap.requests, tap.connections

    assert asyncio.run(talk()) == (2, 2)


def test_a_node_that_is_down_ends_the_connection() -> None:
    async def talk() -> bytes:
        probe = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
        port = probe.sockets[0].getsockname()[1]
        probe.close()
        await probe.wait_closed()
        tap = Tap("127.0.0.1", port, Http2Requests)
        address = await tap.open(1)
        reader, writer = await asyncio.open_connection(address, port)
        try:
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()
            await tap.close()

    assert asyncio.run(talk()) == b""
