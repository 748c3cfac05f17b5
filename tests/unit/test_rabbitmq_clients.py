"""Clients of RabbitMQ: what a broker has confirmed, and what may have happened otherwise."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.systems.rabbitmq import clients
from clusters.systems.rabbitmq.clients import QueueClient
from clusters.systems.rabbitmq.link import Link
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=1)


class Broker:
    """A connection, its channel, its exchange and its queue, for one element."""

    def __init__(self, **odd: Any) -> None:
        self.odd = odd
        self.asked: list[str] = []
        self.default_exchange = self
        self.name = "job-q"

    def heard(self, what: str, usual: Any) -> Any:
        self.asked.append(what)
        answer = self.odd.get(what, usual)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def declare_queue(self, name: str, *, passive: bool = False, **_: Any) -> Any:
        assert name == "job-q"
        return self.heard("look" if passive else "declare", self)

    async def publish(self, message: Any, name: str, **_: Any) -> Any:
        assert (message.body, message.delivery_mode) == (b"5", 2)
        return self.heard("publish", SimpleNamespace(name="Basic.Ack"))

    async def get(self, **_: Any) -> Any:
        async def ack() -> None:
            self.heard("ack", None)

        return self.heard("get", SimpleNamespace(body=json.dumps(5).encode(), ack=ack))

    async def close(self) -> None:
        self.asked.append("close")


def invoked(monkeypatch: pytest.MonkeyPatch, broker: Broker, *ops: tuple[Any, ...]) -> list[Any]:
    async def connected(*_: Any) -> Link:
        return Link(broker, broker)

    async def all_of() -> list[Any]:
        return [(await client.invoke(OpDraft(*op), 1.0)).output for op in ops]

    monkeypatch.setattr(clients, "connected", connected)
    client = QueueClient(AT, [AT], {"op_timeout_s": 1.0, "queues": "quorum"})
    found = asyncio.run(all_of())
    assert client.calls == len(broker.asked)
    return found


PUT = ("enqueue", "q", 5)
TAKE = ("dequeue", "q")


def test_a_queue_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    assert invoked(monkeypatch, broker, PUT, PUT, TAKE) == [None, None, 5]
    assert broker.asked == ["declare", "publish", "publish", "get", "ack", "look"]


def test_an_empty_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    assert invoked(monkeypatch, Broker(get=None), TAKE) == [None]


@pytest.mark.parametrize(
    ("odd", "op"),
    [
        ({"publish": SimpleNamespace(name="Basic.Nack")}, PUT),
        ({"publish": None}, PUT),
        ({"publish": ConnectionError("closed")}, PUT),
        ({"ack": ConnectionError("closed")}, TAKE),
        ({"look": ConnectionError("closed")}, TAKE),
    ],
)
def test_what_is_not_confirmed_may_have_happened(
    monkeypatch: pytest.MonkeyPatch, odd: dict[str, Any], op: tuple[Any, ...]
) -> None:
    with pytest.raises(Indefinite):
        invoked(monkeypatch, Broker(**odd), op)


def test_until_it_is_acknowledged_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the broker may have sent goes back when its connection is closed."""
    broker = Broker(get=TimeoutError())
    with pytest.raises(Definite, match="not-offered"):
        invoked(monkeypatch, broker, TAKE)
    assert broker.asked == ["declare", "get", "close"]


@pytest.mark.parametrize("op", [PUT, TAKE])
def test_without_a_queue_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch, op: tuple[Any, ...]
) -> None:
    broker = Broker(declare=ConnectionError("closed"))
    with pytest.raises(Definite, match="not-declared"):
        invoked(monkeypatch, broker, op)
    assert broker.asked == ["declare", "close"]
