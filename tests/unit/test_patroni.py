"""PostgreSQL with Patroni: where clients go, who leads, and who is healthy."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.supervise import wire
from clusters.systems import patroni
from clusters.systems.patroni import REST, SYSTEM, PatroniDeployment
from dstest.core.node import Node
from dstest.core.protocols import Definite, Endpoint, OpDraft

NAMES = ("n1", "n2", "n3")
OPTIONS = {name: option.default for name, option in SYSTEM.options.items()}
EVERY = [Endpoint(node=n, address=f"10.0.0.{i}", port=5432) for i, n in enumerate(NAMES, 1)]
NODE_AT = {e.address: e.node for e in EVERY}


def deployment(**options: Any) -> PatroniDeployment:
    nodes: list[Any] = [
        SimpleNamespace(name=e.node, info=SimpleNamespace(address=e.address)) for e in EVERY
    ]
    return PatroniDeployment(nodes, {**OPTIONS, **options})


def page(leader: str | None, timeline: int = 1) -> str:
    rows = [
        {
            "name": e.node,
            "role": "leader" if e.node == leader else "replica",
            "host": e.address,
            "port": 5432,
            "timeline": timeline,
        }
        for e in EVERY
    ]
    return "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(
        {"members": rows}
    )


@pytest.mark.parametrize(
    ("replication", "waits", "strict"),
    [("asynchronous", False, False), ("synchronous", True, False), ("strict", True, True)],
)
def test_replication_is_what_the_option_says(replication: str, waits: bool, strict: bool) -> None:
    made = deployment(replication=replication)
    written: Any = made.service_of("n2", "patroni").files[f"{patroni.HOME}/patroni.yml"]
    config = json.loads(written)
    dcs = config["bootstrap"]["dcs"]
    assert (dcs["synchronous_mode"], dcs["synchronous_mode_strict"]) == (waits, strict)
    assert config["name"] == "n2"
    assert len(config["etcd3"]["hosts"]) == 3
    assert [s.name for s in made.members["n1"].services] == list(SYSTEM.services)


def test_leaders_are_what_each_patroni_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"n1": page("n1"), "n2": page("n3", 2), "n3": page(None)}

    async def shown(address: str, port: int, path: str) -> Any:
        assert (port, path) == (REST, "/cluster")
        return json.loads(said[NODE_AT[address]].partition("\r\n\r\n")[2])

    monkeypatch.setattr(wire, "page", shown)
    views = asyncio.run(deployment().leaders())
    rows = [(view.member, view.leader, view.epoch) for view in views]
    assert rows == [("n1", "n1", 1), ("n2", "n3", 2), ("n3", None, None)]
    assert asyncio.run(deployment().writer()).name in ("n1", "n3")
    said.update(dict.fromkeys(NAMES, page(None)))
    with pytest.raises(OSError, match="no primary"):
        asyncio.run(deployment().writer())


@pytest.mark.parametrize(
    ("primary", "writes", "follows", "well"),
    [
        ("n1", True, {"n2": 1, "n3": 1}, {"n1", "n2", "n3"}),
        ("n1", True, {"n2": 1, "n3": 0}, {"n1", "n2"}),
        ("n1", False, {"n2": 1, "n3": 1}, {"n2", "n3"}),
        (None, True, {"n1": 1, "n2": 1, "n3": 1}, set()),
    ],
)
def test_a_primary_writes_and_standbys_follow(
    monkeypatch: pytest.MonkeyPatch,
    primary: str | None,
    writes: bool,
    follows: dict[str, int],
    well: set[str],
) -> None:
    async def fetched(address: str, port: int, path: str) -> tuple[int, str]:
        assert (port, path) == (REST, "/primary")
        return 200 if NODE_AT[address] == primary else 503, "{}"

    async def ask(self: PatroniDeployment, node: Node, text: str) -> Any:
        return follows.get(node.name)

    async def writing(self: PatroniDeployment, names: list[str]) -> dict[str, bool]:
        return dict.fromkeys(names, writes)

    monkeypatch.setattr(wire, "fetched", fetched)
    monkeypatch.setattr(PatroniDeployment, "ask", ask)
    monkeypatch.setattr(PatroniDeployment, "writing", writing)
    found = asyncio.run(deployment().healthy())
    assert {name for name, fine in found.items() if fine} == well


@pytest.mark.parametrize(
    ("leader", "status"), [("n2", "200 OK"), (None, "200 OK"), ("n2", "503 Service Unavailable")]
)
def test_a_client_goes_to_the_primary_that_its_patroni_names(
    monkeypatch: pytest.MonkeyPatch, leader: str | None, status: str
) -> None:
    went: list[Any] = []

    async def opened(address: str, port: int) -> Any:
        assert (address, port) == ("10.0.0.1", REST)
        reader = asyncio.StreamReader()
        reader.feed_data(page(leader).replace("200 OK", status).encode())
        reader.feed_eof()
        return reader, SimpleNamespace(write=lambda _: None, close=lambda: None)

    async def connect(*given: Any) -> Any:
        went.append(given)
        raise ConnectionError("far enough")

    monkeypatch.setattr(asyncio, "open_connection", opened)
    monkeypatch.setattr(patroni, "connect", connect)
    client: Any = SYSTEM.clients["set"](EVERY[0], EVERY, {**OPTIONS, "op_timeout_s": 1.0})
    with pytest.raises(Definite, match="not-connected"):
        asyncio.run(client.invoke(OpDraft("read", "a"), 1.0))
    # Whoever was named and has been demoted since is refused: its answers would be old.
    named = leader if status == "200 OK" else None
    assert went == ([("10.0.0.2", 5432, 1.0, "serializable", "primary")] if named else [])
