"""The servers of toykv as processes on this machine: elect, write, lose the leader, come back."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from toykv_cluster import NAMES, Processes, until

pytestmark = pytest.mark.slow


async def _survives(cluster: Processes) -> None:
    leader = await cluster.leader()
    (other, third) = (name for name in NAMES if name != leader)
    assert "ok" in await cluster.ask(other, "write", key="a", value=1)
    assert await cluster.ask(third, "read", key="a") == {"ok": 1}
    assert await cluster.ask(other, "cas", key="a", value=[1, 2]) == {"ok": True}
    assert await cluster.ask(other, "cas", key="a", value=[1, 3]) == {"ok": False}
    cluster.kill(leader)
    second = await cluster.leader(other, third)
    assert await cluster.ask(second, "read", key="a") == {"ok": 2}
    assert "ok" in await cluster.ask(other, "write", key="a", value=4)
    cluster.start(leader)

    async def back() -> bool:
        return await cluster.ask(leader, "read", key="a") == {"ok": 4}

    assert await until(back)
    for name in NAMES:
        cluster.kill(name)
    for name in NAMES:
        cluster.start(name)
    await cluster.leader()
    assert await cluster.ask(third, "read", key="a") == {"ok": 4}
    digests = [await cluster.ask(name, "digest") for name in NAMES]
    assert digests[0]["ok"] and digests == digests[:1] * 3


def test_what_is_acknowledged_survives_the_leader_and_a_restart_of_all(tmp_path: Path) -> None:
    with Processes(tmp_path) as cluster:
        asyncio.run(_survives(cluster))
    rows = [json.loads(line) for line in (tmp_path / "n1.jsonl").read_text().splitlines()]
    assert list(dict.fromkeys(_written(row) for row in rows if _written(row))) == [1, 2, 4]


def _written(row: dict[str, Any]) -> Any:
    """What a row of the audit says was written to `a`."""
    value = row["value"]
    if row["key"] != "a" or row["result"] == {"ok": False}:
        return None
    return value[1] if row["op"] == "cas" else value


async def _objects(cluster: Processes) -> None:
    await cluster.leader()

    async def do(op: str, key: str = "k", given: Any = None, at: str = "n2", **more: Any) -> Any:
        said = await cluster.ask(at, op, key=key, value=given, **more)
        return said.get("ok", said)

    assert [await do("inc", given=n) for n in (2, -5)] == [2, -3]
    assert await do("count", at="n3") == -3
    for element in (1, 2, 3):
        await do("add", given=element)
        await do("enqueue", given=element)
    assert await do("elements") == [1, 2, 3]
    assert [await do("dequeue", at=name) for name in (*NAMES, "n1")] == [1, 2, 3, None]
    token = (await do("acquire"))["token"]
    assert await do("acquire", at="n1") is False
    assert await do("release", given=token + 1) == {"no": "not-held"}
    assert await do("release", given=token) is None
    assert (await do("acquire", given=300_000_000))["token"] > token
    assert await do("acquire", given=300_000_000) is False
    await asyncio.sleep(0.35)
    lease = (await do("acquire", given=10**10))["token"]
    assert await do("renew", given=[10**10, lease]) is None
    assert await do("renew", given=[10**10, token]) == {"no": "not-held"}
    ids = [await do("generate", at=name) for name in (*NAMES, *NAMES)]
    assert ids == sorted(set(ids))
    moved = {"from": 0, "to": 1, "amount": 4}
    assert await do("transfer", given=moved, balance=5) is True
    assert await do("transfer", given=moved, balance=5) is False
    balances = {"0": 1, "1": 9, "2": 5}
    assert await do("balances", accounts=3, balance=5) == balances
    assert await do("dump", accounts=3, balance=5, at="n1") == balances
    assert await do("credit", given=3, id="p1") is True
    assert await cluster.ask("n1", "credit", key="k", id="p1", value=3) == {
        "ok": True,
        "again": True,
    }
    assert await do("audit") == ["p1"]
    txn = [["append", 1, 7], ["r", 1, None], ["r", 2, None]]
    assert await do("txn", given=txn) == [["append", 1, 7], ["r", 1, [7]], ["r", 2, None]]
    assert await do("send", given="x") == {"offset": 0}
    assert await do("poll", given={"from": 0, "limit": 9}) == {"records": [[0, "x"]], "to": 0}
    await do("send", given="y")
    full = {"records": [[0, "x"]], "to": 0, "more": True}
    assert await do("poll", given={"from": 0, "limit": 1}) == full
    for nonsense in ("", "reserve", "config", "noop", "__init__"):
        assert await do(nonsense) == {"no": "malformed"}
    assert await do("cas", given=3) == {"no": "malformed"}


def test_what_each_object_does(tmp_path: Path) -> None:
    with Processes(tmp_path) as cluster:
        asyncio.run(_objects(cluster))


async def _paused(cluster: Processes) -> None:
    leader = await cluster.leader()
    others = [name for name in NAMES if name != leader]
    cluster.signal(leader, signal.SIGSTOP)
    asked = asyncio.create_task(cluster.ask(leader, "write", 9.0, key="b", value=1))
    await cluster.leader(*others)
    assert "ok" in await cluster.ask(others[0], "write", key="b", value=2)
    cluster.signal(leader, signal.SIGCONT)
    last = 1 if "ok" in await asked else 2  # it may have passed the request on to the next leader

    async def read() -> bool:
        return await cluster.ask(leader, "read", key="b") == {"ok": last}

    assert await until(read)


def test_a_leader_that_was_paused_follows_the_next_one(tmp_path: Path) -> None:
    with Processes(tmp_path) as cluster:
        asyncio.run(_paused(cluster))


async def _replaced(cluster: Processes, join: str) -> None:
    await cluster.leader()
    await cluster.ask("n1", "write", key="c", value=1)
    old = (await cluster.ask("n3", "status"))["ok"]["id"]

    async def removed() -> bool:
        return "ok" in await cluster.ask("n1", "remove", value=old)

    await until(removed)
    cluster.kill("n3")
    for file in (cluster.where / "n3").iterdir():
        file.unlink()
    how = cluster.where / "join"
    how.write_text(join)
    cluster.start("n3", "--join", str(how))

    async def votes() -> list[list[Any]]:
        said = (await cluster.ask("n3", "status")).get("ok", {})
        found: list[list[Any]] = [m for m in said.get("members", []) if m[1] == "n3" and m[3]]
        return found

    (new,) = await until(votes)
    assert new[0] != old
    for name in ("n1", "n2"):
        members = (await cluster.ask(name, "status"))["ok"]["members"]
        assert sorted(m[1] for m in members) == list(NAMES)
    cluster.kill("n1")
    assert await cluster.leader("n2", "n3")
    assert await cluster.ask("n3", "read", key="c") == {"ok": 1}


def test_a_member_is_replaced_by_one_that_votes(tmp_path: Path) -> None:
    with Processes(tmp_path) as cluster:
        asyncio.run(_replaced(cluster, "voter"))


def test_a_member_is_replaced_by_one_that_learns_first(tmp_path: Path) -> None:
    with Processes(tmp_path) as cluster:
        asyncio.run(_replaced(cluster, "learner"))
