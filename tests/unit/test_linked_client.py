"""Clients that connect at need: what is definite, what is counted, what a refusal closes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clusters.supervise import LinkedClient, SupervisedSystem, ops
from dstest.core import clock
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft

AT = Endpoint(node="n1", address="10.0.0.1", port=1)


class Refused(Exception):
    pass


class Link:
    def __init__(self) -> None:
        self.closed = False

    async def aclose(self) -> None:
        self.closed = True


class Client(LinkedClient):
    refusals = {"Refused": "REFUSED", "MISCONF": "MISCONF"}
    fails: Exception | None = None
    answers: Exception | None = None

    async def connect(self, to: Endpoint) -> Link:
        if self.fails:
            raise self.fails
        return Link()

    async def do_read(self, op: OpDraft) -> Any:
        link = await self.link()
        if self.answers:
            raise self.answers
        return link


def read(client: Client) -> Any:
    draft = OpDraft(op_type="read", key="1", input=None)
    return asyncio.run(client.invoke(draft, 60.0)).output


def test_without_a_connection_nothing_was_sent() -> None:
    client = Client(AT, [AT], {})
    client.fails = OSError("no route")
    with pytest.raises(Definite, match="not-connected: OSError"):
        read(client)
    assert client.calls == 0
    client.fails = None
    assert read(client) is read(client)
    assert client.calls == 2


def test_clients_without_a_connection_do_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "PAUSE_S", 0.2)
    client = Client(AT, [AT], {})
    client.fails = OSError("no route")
    began = clock.monotonic_ns()
    with pytest.raises(Definite):
        read(client)
    assert clock.monotonic_ns() - began >= 0.2e9


def test_what_is_said_of_an_error_is_short() -> None:
    assert ops.error_text("REFUSED", ValueError("no")) == "REFUSED: no"
    assert len(ops.error_text("REFUSED", "x" * 999)) == ops.SAID_MAX


def test_a_client_knows_its_patience_and_its_nodes() -> None:
    client = Client(AT, [AT], {"op_timeout_s": 2})
    assert (client.wait_s, type(client.wait_s)) == (2.0, float)
    assert (client.node_at("10.0.0.1"), client.node_at("10.0.0.9")) == ("n1", None)


def test_a_system_need_not_say_what_no_connection_means() -> None:
    class Silent(SupervisedSystem):
        pass

    class Refusing(SupervisedSystem):
        definite_errors = {"REFUSED": "its manual"}

    class Telling(Refusing):
        definite_errors = {**Refusing.definite_errors, "not-connected": "no session"}

    assert list(Silent.definite_errors) == [ops.NOT_CONNECTED]
    assert set(Refusing.definite_errors) == {ops.NOT_CONNECTED, "REFUSED"}
    assert Telling.definite_errors[ops.NOT_CONNECTED] == "no session"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Refused("no"), "REFUSED"),
        (ValueError("MISCONF Errors writing to the AOF file"), "MISCONF"),
        (ValueError("not MISCONF"), None),
        (ValueError("MISCONFIGURED"), None),
    ],
)
def test_refusals_by_name_or_first_word(answer: Exception, code: str | None) -> None:
    client = Client(AT, [AT], {})
    link = read(client)
    client.answers = answer
    with pytest.raises(Definite if code else Indefinite, match=code or "ValueError"):
        read(client)
    assert link.closed == bool(code)
    client.answers = None
    assert (read(client) is link) == (not code)


class Elsewhere(Client):
    """Writes go to the last endpoint."""

    def target(self, op: OpDraft) -> Endpoint:
        return self.every[-1] if op.op_type == "write" else self.at

    async def do_write(self, op: OpDraft) -> Any:
        return await self.link()


def test_each_endpoint_has_a_connection_and_says_who_answered() -> None:
    other = Endpoint(node="n2", address="10.0.0.2", port=1)
    client = Elsewhere(AT, [AT, other], {})

    async def use() -> list[Any]:
        kinds = ("read", "write", "read", "write")
        replies = [await client.invoke(OpDraft(kind, "1", None), 1.0) for kind in kinds]
        await client.close()
        return replies

    here, there, again, once_more = asyncio.run(use())
    assert here.output is again.output
    assert there.output is once_more.output
    assert here.output is not there.output
    assert [r.node_seen for r in (here, there, again)] == ["n1", "n2", "n1"]
    assert here.output.closed
    assert there.output.closed
