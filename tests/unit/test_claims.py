"""Who claims to lead, and what a member's clock shows, is asked of that member alone: another one
that hangs must not keep its answer back."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.supervise import resp
from clusters.systems.tarantool import system as tarantool
from dstest.core import registry

NAMES = ("n1", "n2", "n3")
ADDRESSES = {f"10.0.0.{i}": name for i, name in enumerate(NAMES, 1)}
NEVER_S = 60.0


def page(body: Any, status: str = "200 OK") -> str:
    return f"HTTP/1.0 {status}\r\nContent-Type: application/json\r\n\r\n{json.dumps(body)}"


def streams(leader: str | None) -> str:
    jobs = {"name": "jobs", "cluster": {"leader": leader}}
    meta = {"leader": "n3"}
    return page({"meta_cluster": meta, "account_details": [{"stream_detail": [jobs]}]})


def slots(owner: str) -> dict[str, Any]:
    row = {"flags": "master", "slots": [["0", "16383"]], "epoch": "1"}
    return {f"{owner}:6379": row}


CASES = [
    ("nats", "jobs", streams("n2"), streams("n1")),
    ("patroni", "", page({}), page({}, "503 Service Unavailable")),
    ("zookeeper", "", "Zxid: 0x100000007\nMode: leader\n", "Zxid: 0x100000007\nMode: follower\n"),
    ("redis-sentinel", "", ["master", 0, []], ["slave", "10.0.0.1", 6379, "connected", 0]),
    ("redis-cluster", "slot 0", slots("10.0.0.2"), slots("10.0.0.1")),
]


class Members:
    """All but the second hang. `asked` are those that were asked anything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
        self.said = said
        self.asked: list[str] = []
        monkeypatch.setattr(asyncio, "open_connection", self._opened)
        monkeypatch.setattr(resp, "connection", self._connection)
        monkeypatch.setattr(tarantool, "connect", self._connected)

    async def _heard(self, address: str) -> Any:
        self.asked.append(ADDRESSES[address])
        if ADDRESSES[address] != "n2":
            await asyncio.sleep(NEVER_S)
        return self.said

    async def _opened(self, address: str, port: int) -> Any:
        reader = asyncio.StreamReader()
        reader.feed_data((await self._heard(address)).encode())
        reader.feed_eof()
        return reader, SimpleNamespace(write=lambda _: None, close=lambda: None)

    def _connection(self, address: str, port: int, connect_s: float, *, answer_s: float) -> Any:
        return Link(lambda: self._heard(address))

    async def _connected(self, address: str, port: int, timeout_s: float) -> Any:
        return Link(lambda: self._heard(address))


class Link:
    """A connection of the library `redis`, or of `asynctnt`."""

    def __init__(self, heard: Any) -> None:
        self._heard = heard

    async def execute_command(self, *words: Any) -> Any:
        return await self._heard()

    async def eval(self, text: str, given: list[Any]) -> Any:
        return SimpleNamespace(body=[await self._heard()])

    async def disconnect(self) -> None:
        return None

    async def __aenter__(self) -> Link:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None


def deployment(name: str) -> Any:
    system: Any = registry.load("systems", name)
    nodes: list[Any] = [
        SimpleNamespace(name=node, info=SimpleNamespace(address=address))
        for address, node in ADDRESSES.items()
    ]
    return system.deploy(nodes, {n: option.default for n, option in system.options.items()})


@pytest.mark.parametrize(("name", "group", "leads", "follows"), CASES, ids=[c[0] for c in CASES])
def test_only_the_member_is_asked_whether_it_leads(
    monkeypatch: pytest.MonkeyPatch, name: str, group: str, leads: Any, follows: Any
) -> None:
    members = Members(monkeypatch, leads)
    assert asyncio.run(deployment(name).claims("n2", group)) is True
    members.said = follows
    assert asyncio.run(deployment(name).claims("n2", group)) is False
    assert members.asked == ["n2", "n2"]


@pytest.mark.parametrize(("name", "group"), [case[:2] for case in CASES])
def test_a_member_that_does_not_answer_claims_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, group: str
) -> None:
    made = deployment(name)
    Members(monkeypatch, "")
    made.timing = type(made.timing)(answer_s=0.05)
    assert asyncio.run(made.claims("n1", group)) is False
    assert "n1" in made.last_errors


@pytest.mark.parametrize(
    ("name", "said", "wall_ns"),
    [("redis-sentinel", ["7", "5"], 7_000_005_000), ("tarantool", 7, 7)],
)
def test_only_the_member_is_asked_for_its_time(
    monkeypatch: pytest.MonkeyPatch, name: str, said: Any, wall_ns: int
) -> None:
    members = Members(monkeypatch, said)
    found = asyncio.run(deployment(name).server_time("n2"))
    assert found.wall_ns == wall_ns
    assert members.asked == ["n2"]
