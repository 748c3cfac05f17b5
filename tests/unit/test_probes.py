"""A probe that a healthy server does not answer is found before the load."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from dstest.core.errors import LabError
from dstest.core.protocols import Member, Probe, Service
from dstest.runner.before_load import check_probes

pytestmark = pytest.mark.slow


async def asked(send: bytes, expect: bytes, answer: bytes) -> None:
    """Ask a server that answers `answer` to whatever line, or says it at once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if send:
            await reader.readline()
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        await check(Probe(port, send, expect))
    finally:
        server.close()
        await asyncio.sleep(0.05)


async def check(probe: Probe) -> None:
    service = Service(name="db", argv=("db",), probe=probe, log="/l")
    deployment: Any = SimpleNamespace(members={"n1": Member("n1", [service])})
    nodes: Any = {"n1": SimpleNamespace(info=SimpleNamespace(address="127.0.0.1"))}
    await check_probes(deployment, nodes)


@pytest.mark.parametrize(
    ("send", "expect", "answer"),
    [(b"ping\n", b"pong", b"pong\n"), (b"", b"+OK", b"+OK hello\n"), (b"ping\n", b"", b"x")],
)
def test_what_answers_as_expected_is_well(send: bytes, expect: bytes, answer: bytes) -> None:
    asyncio.run(asked(send, expect, answer))


def test_a_wrong_answer_is_told_with_all_that_is_needed() -> None:
    with pytest.raises(LabError) as told:
        asyncio.run(asked(b"ping\r\n", b"PONG", b"-ERR unknown\r\n"))
    assert "db on n1, port " in told.value.message
    said = r"sent 'ping\r\n', expected 'PONG', got '-ERR unknown\r\n'"
    assert told.value.message.endswith(said)


def test_silence_and_a_port_of_nobody_are_told() -> None:
    with pytest.raises(LabError, match="expected any answer, got no answer"):
        asyncio.run(asked(b"ping\n", b"", b""))
    with pytest.raises(LabError, match=r"port 1: .* got no connection"):
        asyncio.run(check(Probe(1, b"ping\n", b"pong")))
