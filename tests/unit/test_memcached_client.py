"""The client of memcached, against servers that answer as they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from clusters.systems.memcached import MemcachedDeployment, RegisterClient
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft, Reply

READ = OpDraft("read", "1-1")
WRITE = OpDraft("write", "1-1", 7)
CAS = OpDraft("cas", "1-1", [1, 2])
ONE = b"VALUE 1-1 0 1 42\r\n1\r\nEND\r\n"


async def _asked(op: OpDraft, answers: Sequence[bytes]) -> tuple[Any, bytes]:
    """What the operation gives or raises, and what the server was sent; after its last answer the
    server closes."""
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            line = await reader.readline()
            block = await reader.readline() if line[:4] in (b"set ", b"cas ") else b""
            got.extend(line + block)
            writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        end = Endpoint(node="n1", address="127.0.0.1", port=server.sockets[0].getsockname()[1])
        client = RegisterClient(end, [end], {"op_timeout_s": 5.0})
        try:
            said: Any = await client.invoke(op, 5.0)
        except (Definite, Indefinite) as error:
            said = error
        await client.close()
    assert client.calls == len(answers)
    return said, bytes(got)


def asked(op: OpDraft, *answers: bytes) -> tuple[Any, bytes]:
    return asyncio.run(_asked(op, answers))


@pytest.mark.parametrize(
    ("op", "answers", "output", "sent"),
    [
        (READ, [b"END\r\n"], None, b"gets 1-1\r\n"),
        (READ, [ONE], 1, b"gets 1-1\r\n"),
        (READ, [b"VALUE 1-1 0 7 42\r\n[1,\r\n2]\r\nEND\r\n"], [1, 2], b"gets 1-1\r\n"),
        (WRITE, [b"STORED\r\n"], None, b"set 1-1 0 0 1\r\n7\r\n"),
        (CAS, [b"END\r\n"], False, b"gets 1-1\r\n"),
        (CAS, [b"VALUE 1-1 0 1 42\r\n3\r\nEND\r\n"], False, b"gets 1-1\r\n"),
        (CAS, [ONE, b"STORED\r\n"], True, b"gets 1-1\r\ncas 1-1 0 0 1 42\r\n2\r\n"),
        (CAS, [ONE, b"EXISTS\r\n"], False, b"gets 1-1\r\ncas 1-1 0 0 1 42\r\n2\r\n"),
        (CAS, [ONE, b"NOT_FOUND\r\n"], False, b"gets 1-1\r\ncas 1-1 0 0 1 42\r\n2\r\n"),
    ],
)
def test_what_the_protocol_answers(
    op: OpDraft, answers: list[bytes], output: Any, sent: bytes
) -> None:
    assert asked(op, *answers) == (Reply(output, "n1"), sent)


@pytest.mark.parametrize(
    ("op", "answers"),
    [
        (READ, [b""]),
        (READ, [b"VALUE 1-1 0 1 42\r\n1"]),
        (READ, [b"VALUE 1-1 0 1 42\r\n12\r\nEND\r\n"]),
        (READ, [b"VALUE 2-1 0 1 42\r\n1\r\nEND\r\n"]),
        (READ, [b"VALUE 1-1 0 x 42\r\n1\r\nEND\r\n"]),
        (READ, [b"VALUE 1-1 0 1 42\r\n}\r\nEND\r\n"]),
        (READ, [b"STORED\r\n"]),
        (READ, [b"\r\n"]),
        (WRITE, [b"STOR"]),
        (WRITE, [b"END\r\n"]),
        (WRITE, [b"EXISTS\r\n"]),
        (WRITE, [b"SERVER_ERROR out of memory storing object\r\n"]),
        (WRITE, [ONE]),
        (CAS, [ONE, b"ERROR\r\n"]),
        (CAS, [ONE, b""]),
    ],
)
def test_anything_else_is_unknown(op: OpDraft, answers: list[bytes]) -> None:
    said, _ = asked(op, *answers)
    assert isinstance(said, Indefinite), said


def test_where_nobody_listens_nothing_was_sent() -> None:
    end = Endpoint(node="n1", address="127.0.0.1", port=1)
    client = RegisterClient(end, [end], {"op_timeout_s": 5.0})
    with pytest.raises(Definite, match="not-connected"):
        asyncio.run(client.invoke(WRITE, 5.0))
    assert client.calls == 0


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ({"n1": "VERSION 1.6.18", "n2": "VERSION 1.6.18"}, "1.6.18"),
        ({"n1": "VERSION 1.6.38", "n2": "VERSION 1.6.18", "n3": ""}, "1.6.18, 1.6.38"),
        ({"n1": ""}, ""),
    ],
)
def test_the_version_is_written_down_without_the_word(told: dict[str, str], version: str) -> None:
    class Told(MemcachedDeployment):
        def __init__(self) -> None:
            pass

        async def lines(self, port: int, request: bytes) -> dict[str, str]:
            return told

    assert asyncio.run(Told().version()) == version
