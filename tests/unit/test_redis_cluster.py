"""Redis Cluster: which server has a key, and when a node's two servers are healthy."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import MovedError, ResponseError

from clusters.supervise import ops, resp
from clusters.systems.redis_cluster.system import (
    CAS,
    PORTS,
    SYSTEM,
    ClusterDeployment,
    primaries_of,
)
from dstest.core import clock
from dstest.core.protocols import Definite, Endpoint, Indefinite, OpDraft


def row(flags: str, *slots: list[str], epoch: int = 1) -> dict[str, Any]:
    return {"flags": flags, "slots": list(slots), "epoch": str(epoch)}


SAID = {
    "10.0.0.1:6379": row("myself,master", ["0", "8191"], epoch=3),
    "10.0.0.2:6379": row("master", ["8192"], ["8193", "16383"]),
    "10.0.0.2:6380": row("slave"),
    "10.0.0.3:6379": row("master,fail"),
}
EVERY = [Endpoint(node=f"n{i}", address=f"10.0.0.{i}", port=6379) for i in (1, 2, 3)]


def test_those_with_slots_are_the_primaries() -> None:
    one, two = primaries_of(SAID)
    assert (one.address, one.port, one.slots, one.epoch) == ("10.0.0.1", 6379, [(0, 8191)], 3)
    assert two.slots == [(8192, 8192), (8193, 16383)]
    (late,) = primaries_of({"10.0.0.1:6380": row("master,fail", ["0", "5"])})
    assert late.failed


class Server:
    """What is said to it, with the address that it was said to."""

    def __init__(self, answers: Any) -> None:
        self.answers = answers
        self.heard: list[tuple[Any, ...]] = []

    def connection(self, address: str, port: int, connect_s: float, *, answer_s: None) -> Any:
        async def execute(*words: Any) -> Any:
            if words[0] == "CLUSTER NODES":
                return SAID
            self.heard.append((address, *words))
            answer = self.answers
            if isinstance(answer, BaseException):
                raise answer
            return answer

        async def none(*_: Any) -> Any:
            return link

        link = SimpleNamespace(execute_command=execute, ping=none, aclose=none)
        return Opened(link)


class Opened:
    """A connection, also as a context."""

    def __init__(self, link: Any) -> None:
        self.__dict__.update(link.__dict__)

    async def __aenter__(self) -> Opened:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def invoked(monkeypatch: pytest.MonkeyPatch, answer: Any, *op: Any) -> tuple[Any, Server]:
    server = Server(answer)
    monkeypatch.setattr(resp, "connection", server.connection)
    client: Any = SYSTEM.clients["register"](EVERY[2], EVERY, {"op_timeout_s": 1.0})
    reply = asyncio.run(client.invoke(OpDraft(*op), 10.0))
    return (reply.output, reply.node_seen, client.calls), server


def test_a_key_is_asked_of_the_primary_of_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first connection to it sends a ping."""
    found, server = invoked(monkeypatch, "7", "read", "a")
    where = {"10.0.0.1": "n1", "10.0.0.2": "n2"}[server.heard[0][0]]
    assert found == (7, where, 2)
    seen = {invoked(monkeypatch, "7", "read", f"k{i}")[1].heard[0][0] for i in range(40)}
    assert seen == {"10.0.0.1", "10.0.0.2"}


def test_a_conditional_write_is_one_script(monkeypatch: pytest.MonkeyPatch) -> None:
    found, server = invoked(monkeypatch, 1, "cas", "a", [3, 4])
    assert found[0] is True
    assert server.heard[0][1:] == ("EVAL", CAS, 1, "register-a", "3", "4")
    assert invoked(monkeypatch, 0, "cas", "a", [3, 4])[0][0] is False


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (MovedError("6161 10.0.0.2:6379"), Definite),
        (ResponseError("ERR unknown"), Indefinite),
        (ConnectionError("closed"), Indefinite),
    ],
)
def test_what_was_refused(
    monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        invoked(monkeypatch, error, "write", "a", 5)


@pytest.mark.parametrize("unreachable", [True, False])
def test_without_the_primary_of_a_slot_nothing_was_sent(
    monkeypatch: pytest.MonkeyPatch, unreachable: bool
) -> None:
    """A client that asked again at once would take the processor from the servers."""

    async def connected(*_: Any) -> Any:
        raise ConnectionError("refused")

    monkeypatch.setattr(ops, "PAUSE_S", 0.2)
    if unreachable:
        monkeypatch.setattr(resp, "connect", connected)
    else:
        monkeypatch.setitem(SAID, "10.0.0.1:6379", row("master"))
        monkeypatch.setitem(SAID, "10.0.0.2:6379", row("master"))
    began = clock.monotonic_ns()
    with pytest.raises(Definite, match=r"not-connected: (ConnectionError|KeyError)"):
        invoked(monkeypatch, "7", "read", "a")
    assert clock.monotonic_ns() - began >= 0.2e9


WELL = {"cluster_state": "ok", "cluster_slots_ok": "16384"}


@pytest.mark.parametrize(
    ("port", "what", "said", "well"),
    [
        (6379, "ROLE", ["master", 0, []], True),
        (6380, "ROLE", ["slave", "10.0.0.1", 6379, "connect", 0], False),
        (6380, "ROLE", None, False),
        (6379, "CLUSTER INFO", {**WELL, "cluster_state": "fail"}, False),
        (6379, "CLUSTER INFO", {**WELL, "cluster_slots_ok": "13107"}, False),
        (6380, "CLUSTER INFO", None, False),
    ],
)
def test_both_servers_of_a_node_must_be_well(
    monkeypatch: pytest.MonkeyPatch, port: int, what: str, said: Any, well: bool
) -> None:
    async def ask(self: ClusterDeployment, at: int, *words: str) -> dict[str, Any]:
        usual = {"CLUSTER INFO": WELL, "ROLE": ["slave", "10.0.0.1", 6379, "connected", 0]}
        odd = {"n2": said} if (at, words[0]) == (port, what) else {}
        return {**dict.fromkeys(("n1", "n2"), usual[words[0]]), **odd}

    monkeypatch.setattr(ClusterDeployment, "ask", ask)
    nodes: list[Any] = [
        SimpleNamespace(name=e.node, info=SimpleNamespace(address=e.address)) for e in EVERY[:2]
    ]
    assert {*PORTS.values()} == {6379, 6380}
    assert asyncio.run(ClusterDeployment(nodes, {}).healthy()) == {"n1": True, "n2": well}
