"""The second client of etcd, against a server that says what a gateway would."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from clusters.systems.etcd.clients.raw import RawRegister
from clusters.systems.etcd.system import SYSTEM
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft, Reply


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def asked(op: OpDraft, answer: bytes | None, timeout_s: float = 2.0) -> tuple[Any, list[str]]:
    """What the client made of this answer (None: the connection ends), and what it had sent."""
    sent: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        size = int(head.lower().split("content-length:")[1].split("\r\n")[0])
        sent.extend([head.split("\r\n")[0], (await reader.readexactly(size)).decode()])
        if answer is not None:
            writer.write(answer)
        writer.close()

    async def go() -> Reply:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = RawRegister(Endpoint(node="n1", address="127.0.0.1", port=port), [], {})
        await client.open()
        try:
            return await client.invoke(op, timeout_s)
        finally:
            await client.close()
            server.close()

    try:
        return asyncio.run(go()), sent
    except (Definite, Indefinite) as error:
        return error, sent


def ok(body: dict[str, Any]) -> bytes:
    return b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(body).encode()


def test_a_read() -> None:
    said, sent = asked(OpDraft("read", "0-1"), ok({"kvs": [{"value": b64("7")}]}))
    assert said == Reply(7, "n1")
    assert sent[0].startswith("POST /v3/kv/range ")
    assert json.loads(sent[1]) == {"key": b64("/dstest/0-1"), "serializable": False}
    assert asked(OpDraft("read", "0-1"), ok({"header": {}}))[0] == Reply(None, "n1")


def test_a_write() -> None:
    said, sent = asked(OpDraft("write", "0-1", 5), ok({}))
    assert said == Reply(None, "n1")
    assert json.loads(sent[1]) == {"key": b64("/dstest/0-1"), "value": b64("5")}


@pytest.mark.parametrize(("body", "swapped"), [({"succeeded": True}, True), ({}, False)])
def test_a_compare_and_set(body: dict[str, Any], swapped: bool) -> None:
    said, sent = asked(OpDraft("cas", "0-1", [1, 2]), ok(body))
    assert said == Reply(swapped, "n1")
    assert json.loads(sent[1])["compare"][0]["value"] == b64("1")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (None, Indefinite),
        (b"garbage", Indefinite),
        (b'HTTP/1.0 503 Down\r\n\r\n{"code": 14, "error": "no leader"}', Indefinite),
        (b'HTTP/1.0 400 Bad\r\n\r\n{"code": 3, "error": "no key"}', Definite),
        (b"HTTP/1.0 200 OK\r\n\r\n[]", Indefinite),
    ],
)
def test_what_goes_wrong_is_unknown_unless_it_was_refused(answer: Any, kind: type) -> None:
    assert isinstance(asked(OpDraft("write", "0-1", 5), answer)[0], kind)


def test_what_was_never_sent_is_definite() -> None:
    async def go() -> None:
        client = RawRegister(Endpoint(node="n1", address="127.0.0.1", port=1), [], {})
        with pytest.raises(Definite, match="not-connected"):
            await client.invoke(OpDraft("read", "0-1"), 1.0)
        with pytest.raises(Definite, match="unsupported operation"):
            await client.invoke(OpDraft("append", "0-1", 1), 1.0)

    asyncio.run(go())


def test_all_its_codes_are_documented() -> None:
    assert {"not-connected", "unsupported operation", "INVALID_ARGUMENT"} <= {
        *SYSTEM.definite_errors
    }
