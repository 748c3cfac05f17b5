"""PostgreSQL on one node, with standbys and with Patroni: whose programs run, and which server of
several a client asks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.sql import SqlLink
from clusters.systems import patroni, postgresql, postgresql_standby
from dstest.core.protocols import Endpoint, OpDraft

SYSTEMS = [postgresql.SYSTEM, postgresql_standby.SYSTEM, patroni.SYSTEM]


def told_to_nodes(system: Any, **options: Any) -> str:
    """All that the services of three nodes are given."""
    nodes: list[Any] = [
        SimpleNamespace(name=f"n{i}", info=SimpleNamespace(address=f"10.0.0.{i}"))
        for i in (1, 2, 3)
    ]
    usual = {name: option.default for name, option in system.options.items()}
    services = [
        service
        for member in system.deploy(nodes, {**usual, **options}).members.values()
        for service in member.services
    ]
    return " ".join(
        str([service.argv, service.prepare, *service.files.values()]) for service in services
    )


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_the_programs_are_of_the_major_version_that_is_asked_for(system: Any) -> None:
    assert "postgresql/15/bin" in told_to_nodes(system)
    told = told_to_nodes(system, major=17)
    assert "postgresql/17/bin" in told
    assert "postgresql/15" not in told
    option = system.options["major"]
    assert (option.default, option.least, option.most) == (15, 10, 99)


EVERY = [
    Endpoint(
        node=f"n{i}", address=f"10.0.0.{i}", port=5432, kind="primary" if i == 1 else "replica"
    )
    for i in (1, 2, 3)
]
ONLY_READS = [
    ("register", OpDraft("read", "k")),
    ("set", OpDraft("read", "k")),
    ("bank", OpDraft("read", None)),
    ("bank", OpDraft("dump", None)),
    ("txn-append", OpDraft("txn", None, [["r", 1, None], ["r", 2, None]])),
    ("views", OpDraft("look", "g", [["r", 0, None], ["r", 1, None]])),
    ("pairs", OpDraft("read", None)),
]
WRITES = [
    ("register", OpDraft("write", "k", 1)),
    ("register", OpDraft("cas", "k", [1, 2])),
    ("set", OpDraft("add", "k", 1)),
    ("counter", OpDraft("inc", "k", 1)),
    ("bank", OpDraft("transfer", None, {"from": 0, "to": 1, "amount": 1})),
    ("txn-append", OpDraft("txn", None, [["r", 1, None], ["append", 1, 5]])),
    ("views", OpDraft("look", "g", [["r", 0, None], ["touch", 1, None]])),
    ("views", OpDraft("bump", "g", [0, 1])),
    ("pairs", OpDraft("insert", "p", ["a", 1])),
    ("unique-ids", OpDraft("generate", None)),
]


class Rows:
    """A `SqlLink` that finds one row, whatever it is asked."""

    async def rows(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        return [("5",)] if "lists" in text else [(5, 1)]

    async def change(self, text: str, *given: Any) -> int:
        return 1

    async def begin(self) -> None:
        return None

    async def commit(self) -> bool:
        return True

    async def rollback(self) -> None:
        return None

    async def aclose(self) -> None:
        return None


def went_to(monkeypatch: pytest.MonkeyPatch, capability: str, op: OpDraft) -> list[str]:
    """Where a client of n3 connects for an operation, which it says was answered there."""
    went: list[str] = []

    async def connect(address: str, *_: Any) -> SqlLink:
        went.append(address)
        return Rows()

    monkeypatch.setattr(postgresql, "connect", connect)
    options = {name: option.default for name, option in postgresql_standby.SYSTEM.options.items()}
    make = postgresql_standby.SYSTEM.clients[capability]
    client: Any = make(EVERY[2], EVERY, {**options, "op_timeout_s": 10.0})
    seen = asyncio.run(client.invoke(op, 10.0)).node_seen
    assert [e.address for e in EVERY if e.node == seen] == went
    return went


@pytest.mark.parametrize(("capability", "op"), ONLY_READS)
def test_a_standby_is_asked_for_what_only_reads(
    monkeypatch: pytest.MonkeyPatch, capability: str, op: OpDraft
) -> None:
    assert went_to(monkeypatch, capability, op) == ["10.0.0.3"]


@pytest.mark.parametrize(("capability", "op"), WRITES)
def test_the_primary_is_asked_for_all_else(
    monkeypatch: pytest.MonkeyPatch, capability: str, op: OpDraft
) -> None:
    assert went_to(monkeypatch, capability, op) == ["10.0.0.1"]
