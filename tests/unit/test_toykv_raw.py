"""Both clients of toykv see the same on servers of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from toykv_cluster import NAMES, Processes

from clusters.systems.toykv.raw import RAW_CLIENTS
from clusters.systems.toykv.system import SYSTEM
from dstest.core.protocols import Client, Definite, Endpoint, Indefinite, OpDraft

WORK: dict[str, list[tuple[str, Any]]] = {
    "register": [("read", None), ("write", 3), ("cas", [3, 4]), ("cas", [3, 5]), ("read", None)],
    "set": [("add", 1), ("add", 2), ("read", None)],
    "counter": [("inc", 2), ("inc", 3), ("read", None)],
    "queue": [("enqueue", 7), ("dequeue", None), ("dequeue", None)],
    "txn-append": [("txn", [["append", "x", 1], ["r", "x", None]]), ("txn", [["r", "y", None]])],
}


async def outputs(client: Client, capability: str, key: str) -> list[Any]:
    await client.open()
    try:
        return [
            (await client.invoke(OpDraft(kind, key, given), 5.0)).output
            for kind, given in WORK[capability]
        ]
    finally:
        await client.close()


async def compared(cluster: Processes) -> None:
    await cluster.leader()
    options = {name: option.default for name, option in SYSTEM.options.items()}
    ends = [Endpoint(node=n, address="127.0.0.1", port=cluster.ports[n]) for n in NAMES]
    for capability in WORK:
        own = SYSTEM.client(capability, ends[0], ends, options)
        raw = RAW_CLIENTS[capability](ends[0], ends, options)
        seen = await outputs(raw, capability, "raw")
        if capability.startswith("txn"):
            # Its keys are in the transaction, so that the second one finds what the first one left.
            assert seen == [[["append", "x", 1], ["r", "x", [1]]], [["r", "y", seen[1][0][2]]]]
            continue
        assert seen == await outputs(own, capability, "own")


def test_both_clients_see_the_same(tmp_path: Path) -> None:
    with Processes(tmp_path) as cluster:
        asyncio.run(compared(cluster))


def test_what_it_cannot_reach_is_unknown_and_what_it_does_not_know_is_not_sent() -> None:
    client = RAW_CLIENTS["set"](Endpoint(node="n1", address="127.0.0.1", port=1), [], {})

    async def go(kind: str) -> None:
        await client.invoke(OpDraft(kind, "s", 1), 1.0)

    with pytest.raises(Indefinite):
        asyncio.run(go("add"))
    with pytest.raises(Definite, match="unsupported operation"):
        asyncio.run(go("remove"))


def test_it_offers_nothing_that_the_first_one_lacks() -> None:
    assert set(RAW_CLIENTS) <= set(SYSTEM.clients)
