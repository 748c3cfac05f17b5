"""The second client of Redis' protocol, against servers that say what they are told to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clusters.supervise.resp import raw_clients
from clusters.systems.redis_sentinel import SYSTEM
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft, Reply

REFUSALS = frozenset({"READONLY"})


def asked(
    capability: str, op: OpDraft, *answers: bytes, **options: Any
) -> tuple[Any, list[list[str]]]:
    """What the client made of these answers to its commands (it has no more: the connection ends),
    and the commands."""
    sent: list[list[str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            count = int((await reader.readline())[1:])
            words = []
            for _ in range(count):
                size = int((await reader.readline())[1:])
                words.append((await reader.readexactly(size + 2))[:-2].decode())
            sent.append(words)
            writer.write(answer)
        writer.close()

    async def go() -> Reply:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        at = Endpoint(node="n2", address="127.0.0.1", port=port)

        async def where(end: Endpoint) -> tuple[str, int]:
            return end.address, end.port

        client = raw_clients(where, REFUSALS)[capability](at, [at], options)
        try:
            return await client.invoke(op, 2.0)
        finally:
            server.close()

    try:
        return asyncio.run(go()), sent
    except (Definite, Indefinite) as error:
        return error, sent


def test_registers() -> None:
    said, sent = asked("register", OpDraft("write", "0-1", 5), b"+OK\r\n")
    assert said == Reply(None, "n2")
    assert sent == [["SET", "register-0-1", "5"]]
    assert asked("register", OpDraft("read", "0-1"), b"$1\r\n5\r\n")[0] == Reply(5, "n2")
    assert asked("register", OpDraft("read", "0-1"), b"$-1\r\n")[0] == Reply(None, "n2")


def test_sets() -> None:
    assert asked("set", OpDraft("add", "s", 5), b":1\r\n")[1] == [["SADD", "set-s", "5"]]
    said, _ = asked("set", OpDraft("read", "s"), b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n")
    assert said == Reply([1, 2], "n2")


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ((b"-READONLY You can't write\r\n",), Definite),
        ((b"-ERR what\r\n",), Indefinite),
        ((), Indefinite),
        ((b"?\r\n",), Indefinite),
    ],
)
def test_what_goes_wrong_is_unknown_unless_it_was_refused(
    answers: tuple[bytes, ...], kind: type
) -> None:
    assert isinstance(asked("set", OpDraft("add", "s", 5), *answers)[0], kind)


@pytest.mark.parametrize("answer", [b":1\r\n", b"-READONLY too late\r\n"])
def test_what_was_written_and_is_not_replicated_is_unknown(answer: bytes) -> None:
    said, sent = asked("set", OpDraft("add", "s", 5), b":1\r\n", answer, wait=2)
    assert isinstance(said, Indefinite)
    assert sent[1][:2] == ["WAIT", "2"]


def test_what_was_never_sent_is_definite() -> None:
    at = Endpoint(node="n1", address="127.0.0.1", port=1)

    async def go(op: OpDraft) -> None:
        await SYSTEM.raw_clients["set"](at, [at], {}).invoke(op, 1.0)

    with pytest.raises(Definite, match="not-connected"):
        asyncio.run(go(OpDraft("add", "s", 1)))
    with pytest.raises(Definite, match="unsupported operation"):
        asyncio.run(go(OpDraft("remove", "s", 1)))


def test_its_codes_are_documented_and_its_capabilities_those_of_the_first() -> None:
    assert {"not-connected", "READONLY"} <= {*SYSTEM.definite_errors}
    assert set(SYSTEM.raw_clients) <= set(SYSTEM.clients)
