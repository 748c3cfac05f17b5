"""The second client of toykv says what the first one says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from toykv_cluster import Processes

from clusters.systems.toykv.clients import CLIENTS
from clusters.systems.toykv.system import RAW_CLIENTS
from dstest.core.protocols import Definite, Endpoint, OpDraft

pytestmark = pytest.mark.slow

OPTIONS = {"op_timeout_s": 5.0, "bank_balance": 10, "bank_accounts": 3}

TTL = {"ttl_ns": 60_000_000_000}
STEPS: dict[str, list[OpDraft]] = {
    "register": [OpDraft("write", "x", 1), OpDraft("cas", "x", [1, 2]), OpDraft("read", "x")],
    "session": [OpDraft("read", "none")],
    "counter": [OpDraft("inc", "c", 2), OpDraft("inc", "c", 1), OpDraft("read", "c")],
    "set": [OpDraft("add", "s", 1), OpDraft("add", "s", 2), OpDraft("read", "s")],
    "queue": [OpDraft("enqueue", "q", 1), OpDraft("dequeue", "q"), OpDraft("dequeue", "q")],
    "lock": [OpDraft("release", "l"), OpDraft("acquire", "l"), OpDraft("release", "l")],
    "lease": [OpDraft("acquire", "l", TTL), OpDraft("renew", "l", TTL), OpDraft("release", "l")],
    "ledger": [
        OpDraft("credit", "a", {"id": "p", "amount": 3}),
        OpDraft("credit", "a", {"id": "p", "amount": 3}),
        OpDraft("audit", "a"),
    ],
    "bank": [
        OpDraft("transfer", "b", {"from": 0, "to": 1, "amount": 4}),
        OpDraft("transfer", "b", {"from": 0, "to": 1, "amount": 9}),
        OpDraft("read", "b"),
    ],
    "txn-append": [OpDraft("txn", None, [["append", 1, 5], ["r", 1, None]])],
    "tenants": [
        OpDraft("put", "a:b", {"name": "c", "value": "v1"}),
        OpDraft("put", "a:b", {"name": "C", "value": "v2"}),
        OpDraft("get", "a:b", {"name": "c"}),
        OpDraft("probe", "a", {"name": "b:c"}),
        OpDraft("list", "a:b", {}),
        OpDraft("count", "a:b", {}),
        OpDraft("probe_list", "a", {}),
        OpDraft("probe_count", "a", {}),
        OpDraft("drop", "a:b", {}),
        OpDraft("count", "a:b", {}),
    ],
    "log": [OpDraft("send", "p", 7), OpDraft("poll", "p", {"from": 0, "limit": 4})],
}


def test_there_is_one_for_each_capability() -> None:
    assert RAW_CLIENTS.keys() == CLIENTS.keys()


@pytest.mark.timeout(60)
def test_both_are_told_the_same(tmp_path: Path) -> None:
    async def said(client: Any, steps: list[OpDraft], of: str) -> list[Any]:
        told: list[Any] = []
        for op in steps:
            key = op.key if op.key is None else f"{of}-{op.key}"
            try:
                found = (await client.invoke(OpDraft(op.op_type, key, op.input), 5.0)).output
            except Definite as error:
                found = str(error)
            told.append("held" if isinstance(found, dict) and "token" in found else found)
        return told

    async def both(cluster: Processes) -> None:
        node = await cluster.leader()
        at = Endpoint(node=node, address="127.0.0.1", port=cluster.ports[node])
        for capability, steps in STEPS.items():
            answers = []
            for which, classes in (("one", CLIENTS), ("two", RAW_CLIENTS)):
                client: Any = classes[capability](at, [at], OPTIONS)
                await client.open()
                if capability == "bank":
                    which = "bank"
                if capability == "txn-append":
                    steps = [
                        OpDraft(
                            "txn",
                            None,
                            [[k, f"{which}-{n}", v] for k, n, v in STEPS[capability][0].input],
                        )
                    ]
                answers.append(await said(client, steps, which))
                await client.close()
            if capability == "bank":
                assert answers[1][:2] == [True, False], answers
                continue
            if capability == "txn-append":
                answers = [[m[2] for m in one[0]] for one in answers]
            assert answers[0] == answers[1], capability

    with Processes(tmp_path) as cluster:
        asyncio.run(both(cluster))
