"""Clients of Tarantool: who is asked, and what is definite."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from asynctnt.exceptions import ErrorCode, TarantoolDatabaseError, TarantoolNotConnectedError

from clusters.systems.tarantool import system
from clusters.systems.tarantool.system import (
    IprotoRequests,
    RegisterClient,
    SetClient,
    TarantoolClient,
)
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft

EVERY = [Endpoint(node=f"n{i}", address=f"10.0.0.{i}", port=3301) for i in (1, 2)]


def invoked(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[TarantoolClient],
    said: Any,
    *op: Any,
    replication: str = "asynchronous",
    reads: str = "local",
    texts: list[str] | None = None,
) -> tuple[Any, list[Any]]:
    """What the operation gives; who was asked, and for what, in which words."""
    asked: list[Any] = []

    async def evaluate(text: str, given: list[Any]) -> Any:
        asked.append(given)
        if texts is not None:
            texts.append(text)
        if isinstance(said, BaseException):
            raise said
        return SimpleNamespace(body=said)

    async def connected(address: str, *_: Any) -> Any:
        asked.append(address)
        return SimpleNamespace(eval=evaluate, disconnect=lambda: asyncio.sleep(0))

    monkeypatch.setattr(system, "connect", connected)
    client = kind(
        EVERY[1], EVERY, {"op_timeout_s": 1.0, "replication": replication, "reads": reads}
    )
    reply = asyncio.run(client.invoke(OpDraft(*op), 1.0))
    assert client.calls == 1
    return reply.output, asked


def test_a_member_is_asked_itself_unless_one_takes_all_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, asked = invoked(monkeypatch, RegisterClient, ["5"], "read", "r")
    assert (found, asked) == (5, ["10.0.0.2", ["r"]])
    found, asked = invoked(
        monkeypatch, RegisterClient, [None], "read", "r", replication="synchronous"
    )
    assert (found, asked) == (None, ["10.0.0.1", ["r"]])


def test_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = invoked(monkeypatch, RegisterClient, [], "write", "r", 7)
    assert (found, asked[1]) == (None, ["r", "7"])
    found, asked = invoked(monkeypatch, RegisterClient, [False], "cas", "r", [7, 8])
    assert (found, asked[1]) == (False, ["r", "7", "8"])
    assert invoked(monkeypatch, RegisterClient, [True], "cas", "r", [7, 8])[0] is True
    assert invoked(monkeypatch, SetClient, [["1", "2"]], "read", "s")[0] == [1, 2]
    assert invoked(monkeypatch, SetClient, [], "add", "s", 3)[1][1] == ["s", json.dumps(3)]


def test_a_confirmed_read_writes_in_its_transaction_and_so_does_a_cas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kind, op in [
        (RegisterClient, ("read", "r")),
        (RegisterClient, ("cas", "r", [7, 8])),
        (SetClient, ("read", "s")),
    ]:
        texts: dict[str, list[str]] = {"local": [], "confirmed": []}
        for reads, said in texts.items():
            invoked(
                monkeypatch, kind, [[]] if op[1] == "s" else ["1"], *op, reads=reads, texts=said
            )
        (local,), (confirmed,) = texts.values()
        assert "commit" not in local
        assert local in confirmed
        assert confirmed.index("box.begin()") < confirmed.index("'dstest-confirms'")
        assert confirmed.index("'dstest-confirms'") < confirmed.index("box.commit()")


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (TarantoolDatabaseError(ErrorCode.ER_READONLY, "read-only", None), Definite, "ER_READONLY"),
        (TarantoolDatabaseError(ErrorCode.ER_LOADING, "loading", None), Definite, "ER_LOADING"),
        # Rolled back here; another member may have it still.
        (TarantoolDatabaseError(216, "Quorum collection", None), Indefinite, "Quorum"),
        (TarantoolNotConnectedError("lost"), Indefinite, "lost"),
        (TimeoutError(), Indefinite, "no answer"),
    ],
)
def test_what_is_definite(
    monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception], text: str
) -> None:
    with pytest.raises(raised, match=text):
        invoked(monkeypatch, RegisterClient, error, "write", "r", 7)


def test_requests_are_counted_in_any_pieces() -> None:
    one = bytes.fromhex("ce0000001382000801018227a872657475726e2031219101")
    for size in (1, 5, 24, 100):
        counter = IprotoRequests()
        for at in range(0, 3 * len(one), size):
            counter.feed((3 * one)[at : at + size])
        assert (counter.requests, counter.known) == (3, True)
    odd = IprotoRequests()
    odd.feed(b"HELO")
    odd.feed(b"OHELO")
    assert not odd.known
