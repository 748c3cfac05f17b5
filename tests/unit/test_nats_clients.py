"""Clients of NATS JetStream: what is definite, when a queue is empty, how a log is read."""

from __future__ import annotations

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from nats.errors import NoRespondersError

from clusters.systems.nats import system
from clusters.systems.nats.system import LogClient, NatsClient, QueueClient
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=1)
OPTIONS = {"op_timeout_s": 1.0}
EMPTY = {"error": {"err_code": 10037, "description": "no message found"}}
IDLE = {"delivered": {"stream_seq": 7}, "num_pending": 0, "num_ack_pending": 0}


class Server:
    """Answers requests by the beginning of their subject; what is raised is an answer as well."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __call__(self, link: Any, subject: str, data: bytes, wait_s: float) -> Any:
        self.asked.append(subject)
        names = {"$JS.API.CONSUMER.MSG.NEXT": "next", "$JS.API.CONSUMER.INFO": "info",
                 "$JS.API.CONSUMER.DURABLE": "create", "$JS.API.STREAM.MSG": "get",
                 "$JS.ACK": "ack", "jobs.": "put", "records.": "put"}  # fmt: skip
        name = next(name for start, name in names.items() if subject.startswith(start))
        answer = self.answers.get(name, {})
        if callable(answer):
            answer = answer(json.loads(data))
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, dict):
            return SimpleNamespace(data=json.dumps(answer).encode(), reply="")
        return answer


def message(value: int) -> Any:
    return SimpleNamespace(data=json.dumps(value).encode(), reply="$JS.ACK.jobs.of-q.1")


NO_MESSAGES = SimpleNamespace(data=b"", reply="")


def invoked(
    monkeypatch: pytest.MonkeyPatch, server: Server, kind: type[NatsClient], *op: Any
) -> tuple[Any, NatsClient]:
    async def connected(*_: Any) -> Any:
        return SimpleNamespace(close=lambda: asyncio.sleep(0))

    monkeypatch.setattr(system, "request", server)
    monkeypatch.setattr(system, "connect", connected)
    client = kind(AT, [AT], OPTIONS)
    reply = asyncio.run(client.invoke(OpDraft(*op), 1.0))
    assert client.calls == len(server.asked)
    return reply.output, client


@pytest.mark.parametrize(
    ("said", "raised", "text"),
    [
        ({"stream": "jobs", "seq": 7}, None, ""),
        (
            {"error": {"err_code": 10077, "description": "full"}},
            Indefinite,
            "10077",
        ),
        (TimeoutError(), Indefinite, "no answer"),
        (NoRespondersError(), Definite, "no-responders"),
    ],
)
def test_an_enqueue(
    monkeypatch: pytest.MonkeyPatch, said: Any, raised: type[Exception] | None, text: str
) -> None:
    if raised is None:
        assert invoked(monkeypatch, Server(put=said), QueueClient, "enqueue", "q", 5)[0] is None
        return
    with pytest.raises(raised, match=text):
        invoked(monkeypatch, Server(put=said), QueueClient, "enqueue", "q", 5)


def test_a_dequeue_is_over_when_its_acknowledgement_was_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(next=message(5), ack={})
    assert invoked(monkeypatch, server, QueueClient, "dequeue", "q")[0] == 5
    assert server.asked[-1].startswith("$JS.ACK")
    with pytest.raises(Indefinite):
        silent = Server(next=message(5), ack=TimeoutError())
        invoked(monkeypatch, silent, QueueClient, "dequeue", "q")


@pytest.mark.parametrize("offered", [NO_MESSAGES, TimeoutError()])
@pytest.mark.parametrize(
    ("state", "code"),
    [
        (IDLE, None),
        ({**IDLE, "num_ack_pending": 1}, "busy"),
        ({**IDLE, "num_pending": 1}, "no-offer"),
        ({"error": {"err_code": 10014}}, "no-offer"),
        (TimeoutError(), "no-offer"),
    ],
)
def test_a_queue_is_empty_when_nothing_waits_for_anybody(
    monkeypatch: pytest.MonkeyPatch, offered: Any, state: Any, code: str | None
) -> None:
    """An element that somebody else has and may give back is still in it."""
    server = Server(next=offered, info=state, get=EMPTY)
    if code is None and offered is NO_MESSAGES:
        assert invoked(monkeypatch, server, QueueClient, "dequeue", "q")[0] is None
        return
    with pytest.raises(Definite, match=code or "no-offer"):
        invoked(monkeypatch, server, QueueClient, "dequeue", "q")


def test_a_message_that_the_consumer_has_not_heard_of_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that it has handed out, and that nobody has, was acknowledged."""
    known = Server(next=NO_MESSAGES, info=IDLE, get={"message": {"seq": 7}})
    assert invoked(monkeypatch, known, QueueClient, "dequeue", "q")[0] is None
    server = Server(next=NO_MESSAGES, info=IDLE, get={"message": {"seq": 8}})
    with pytest.raises(Definite, match="no-offer"):
        invoked(monkeypatch, server, QueueClient, "dequeue", "q")


def test_a_broken_connection_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(next=ConnectionError("closed"))
    made = []

    async def connected(*_: Any) -> Any:
        made.append(1)
        return SimpleNamespace(close=lambda: asyncio.sleep(0))

    monkeypatch.setattr(system, "request", server)
    monkeypatch.setattr(system, "connect", connected)
    client = QueueClient(AT, [AT], OPTIONS)
    for _ in range(3):
        with pytest.raises(Definite, match="no-offer"):
            asyncio.run(client.invoke(OpDraft("dequeue", "q"), 1.0))
    assert len(made) == 3


def test_a_consumer_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(next=message(5))
    _, client = invoked(monkeypatch, server, QueueClient, "dequeue", "q")
    asyncio.run(client.invoke(OpDraft("dequeue", "q"), 1.0))
    assert [s for s in server.asked if "DURABLE" in s] == [
        "$JS.API.CONSUMER.DURABLE.CREATE.jobs.of-q"
    ]


RECORDS = {3: 30, 8: 80, 9: 90}


def got(asked: dict[str, Any]) -> dict[str, Any]:
    """The first record from a number on, as JetStream gives it."""
    assert asked["next_by_subj"] == "records.l"
    found = [seq for seq in RECORDS if seq >= asked["seq"]]
    if not found:
        return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
    data = base64.b64encode(json.dumps(RECORDS[found[0]]).encode()).decode()
    return {"message": {"seq": found[0], "data": data}}


@pytest.mark.parametrize(
    ("start", "limit", "page"),
    [
        (0, 10, {"records": [[3, 30], [8, 80], [9, 90]], "to": 9}),
        (4, 10, {"records": [[8, 80], [9, 90]], "to": 9}),
        (0, 2, {"records": [[3, 30], [8, 80]], "to": 8, "more": True}),
        (12, 10, {"records": [], "to": 11}),
    ],
)
def test_a_log_is_read_from_an_offset_on(
    monkeypatch: pytest.MonkeyPatch, start: int, limit: int, page: dict[str, Any]
) -> None:
    given = {"from": start, "limit": limit}
    assert invoked(monkeypatch, Server(get=got), LogClient, "poll", "l", given)[0] == page


def test_a_send_gives_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(put={"stream": "records", "seq": 12})
    assert invoked(monkeypatch, server, LogClient, "send", "l", 5)[0] == {"offset": 12}
