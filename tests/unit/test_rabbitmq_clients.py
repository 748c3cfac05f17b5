"""Clients of RabbitMQ: what a broker has confirmed, and what may have happened otherwise."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.systems.rabbitmq import system
from clusters.systems.rabbitmq.system import DeadLettersClient, Link, QueueClient
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=1)


class Broker:
    """A connection, its channel, its exchange and its queues, for one element."""

    def __init__(self, **odd: Any) -> None:
        self.odd = odd
        self.asked: list[str] = []
        self.declared: dict[str, dict[str, str]] = {}
        self.default_exchange = self

    def heard(self, what: str, usual: Any) -> Any:
        self.asked.append(what)
        answer = self.odd.get(what, usual)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def declare_queue(
        self, name: str, *, passive: bool = False, arguments: Any = None, **_: Any
    ) -> Any:
        if not passive:
            assert name not in self.declared
            self.declared[name] = arguments
        queue = SimpleNamespace(name=name, get=lambda **_: self.get(name))
        return self.heard("look" if passive else "declare", queue)

    async def publish(self, message: Any, name: str, **_: Any) -> Any:
        assert (name, message.body, message.delivery_mode) == ("job-q", b"5", 2)
        return self.heard("publish", SimpleNamespace(name="Basic.Ack"))

    async def get(self, name: str) -> Any:
        async def ack() -> None:
            self.heard("ack", None)

        async def reject(*, requeue: bool) -> None:
            assert not requeue
            self.heard("reject", None)

        body = json.dumps({"job-q": 5, "dead-q": 7}[name]).encode()
        return self.heard("get", SimpleNamespace(body=body, ack=ack, reject=reject))

    async def close(self) -> None:
        self.asked.append("close")


def invoked(
    monkeypatch: pytest.MonkeyPatch,
    broker: Broker,
    *ops: tuple[Any, ...],
    kind: type[QueueClient] = QueueClient,
    **options: str,
) -> list[Any]:
    async def connected(*_: Any) -> Link:
        return Link(broker, broker)

    async def all_of() -> list[Any]:
        return [(await client.invoke(OpDraft(*op), 1.0)).output for op in ops]

    monkeypatch.setattr(system, "connect", connected)
    client = kind(AT, [AT], {"op_timeout_s": 1.0, "queues": "quorum", **options})
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


QUORUM = {"x-queue-type": "quorum"}
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead-q"}
KEEPS = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
LETTERS: dict[str, Any] = {"kind": DeadLettersClient, "dead_letters": "at-least-once"}
REFUSE = ("reject", "q")


@pytest.mark.parametrize(("strategy", "more"), [("at-least-once", KEEPS), ("at-most-once", {})])
@pytest.mark.parametrize("op", [PUT, TAKE, REFUSE])
def test_dead_letters_have_a_queue_before_anything_is_refused(
    monkeypatch: pytest.MonkeyPatch, op: tuple[Any, ...], strategy: str, more: dict[str, str]
) -> None:
    """What finds none is dropped. With one of the two arguments alone a broker keeps at most one
    copy of a letter."""
    broker = Broker()
    invoked(monkeypatch, broker, op, **{**LETTERS, "dead_letters": strategy})
    assert [*broker.declared.items()] == [
        ("dead-q", QUORUM),
        ("job-q", {**QUORUM, **TO_DEAD, **more}),
    ]


def test_a_refusal_is_for_good_and_over_when_the_broker_answers_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    assert invoked(monkeypatch, broker, REFUSE, **LETTERS) == [5]
    assert broker.asked == ["declare", "declare", "get", "reject", "look"]


def test_a_dead_letter_is_collected_as_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    assert invoked(monkeypatch, broker, ("collect", "q"), **LETTERS) == [7]
    assert broker.declared == {"dead-q": QUORUM}
    assert broker.asked == ["declare", "get", "ack", "look"]


@pytest.mark.parametrize("odd", ["reject", "look"])
def test_a_refusal_without_an_answer_may_have_happened(
    monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    with pytest.raises(Indefinite, match="closed"):
        invoked(monkeypatch, Broker(**{odd: ConnectionError("closed")}), REFUSE, **LETTERS)


def test_until_it_is_refused_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(get=TimeoutError())
    with pytest.raises(Definite, match="not-offered"):
        invoked(monkeypatch, broker, REFUSE, **LETTERS)
    assert broker.asked == ["declare", "declare", "get", "close"]
    assert invoked(monkeypatch, Broker(get=None), REFUSE, **LETTERS) == [None]
