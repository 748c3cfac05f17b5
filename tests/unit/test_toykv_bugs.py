"""The planted bugs of toykv: each does wrong what the server without it does right."""

from __future__ import annotations

import asyncio
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest
from toykv_cluster import NAMES, Inside, Processes, until

from clusters.systems.toykv.agents.machine import Machine
from clusters.systems.toykv.agents.main import real_around
from clusters.systems.toykv.agents.storage import (
    Disk,
    Member,
    Members,
    majority,
    nth_best,
    voters,
    with_member,
)
from clusters.systems.toykv.bugs import BUGS, NONE, command
from clusters.systems.toykv.system import SYSTEM
from dstest.core import registry
from dstest.core.check import GATED

pytestmark = pytest.mark.slow


def test_each_bug_has_a_run_that_can_find_it() -> None:
    assert len(BUGS) == 14
    assert SYSTEM.options["bug"].choices == (NONE, *BUGS)
    for bug in BUGS.values():
        workload = registry.load("workloads", bug.workload)
        assert workload.capability in SYSTEM.capabilities
        assert bug.checker in workload.checkers
        assert bug.claim in GATED | {"boundary"}
        words = command(bug)
        assert f"bug={bug.name}" in words
        assert shlex.split(shlex.join(words)) == words


def test_each_bug_is_in_the_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "toykv.md").read_text()
    for bug in BUGS.values():
        assert f"`{bug.name}`" in page
        assert bug.says in page
        assert bug.kind in page
        assert shlex.join(command(bug)) in page


async def _isolated_leader(where: Path, bug: str) -> tuple[bool, Any]:
    """Was a write at a leader that is cut off acknowledged, and what is read after the heal?"""
    net = Inside(where, bug)
    old = await net.leader()
    others = [name for name in NAMES if name != old]
    assert "ok" in await net.ask(old, "write", key="a", value=1)
    net.isolate(old)
    acknowledged = False
    for _ in range(5):
        said = await net.ask(old, "write", 1.0, key="a", value=2)
        acknowledged = acknowledged or "ok" in said
    new = await net.leader(*others)
    assert "ok" in await net.ask(new, "write", key="b", value=1)
    net.cut = set()

    async def healed() -> Any:
        said = await net.ask(old, "read", key="a")
        return said if net.servers[old].leading is None and "ok" in said else None

    return acknowledged, (await until(healed))["ok"]


@pytest.mark.parametrize(
    ("bug", "expected"),
    [
        ("none", (False, 1)),
        ("acknowledged-before-replicated", (True, 1)),
        ("split-brain-write", (True, 1)),
    ],
)
def test_writes_of_a_leader_that_is_alone(
    bug: str, expected: tuple[bool, Any], tmp_path: Path
) -> None:
    assert asyncio.run(_isolated_leader(tmp_path, bug)) == expected


async def _vote(where: Path, bug: str) -> bool:
    """Is a member elected that lacks what the others have committed?"""
    net = Inside(where, bug)
    leader = await net.leader()
    assert "ok" in await net.ask(leader, "write", key="a", value=1)
    server = net.servers[leader]
    last, term = server.disk.last, server.term
    behind = {"to": server.id, "term": term + 5, "last": [term, last - 1]}
    other = next(s for n, s in net.servers.items() if n != leader)
    return bool(server.on_vote({**behind, "from": other.id})["granted"])


@pytest.mark.parametrize(("bug", "elected"), [("none", False), ("lost-update-on-heal", True)])
def test_who_lacks_entries_gets_no_vote(bug: str, elected: bool, tmp_path: Path) -> None:
    assert asyncio.run(_vote(tmp_path, bug)) is elected


async def _stale(where: Path, bug: str) -> dict[str, Any]:
    """What a follower reads that has the entry, and does not know yet that it is committed."""
    net = Inside(where, bug)
    leader = await net.leader()
    follower = next(name for name in NAMES if name != leader)
    assert "ok" in await net.ask(leader, "write", key="a", value=1)

    async def known() -> bool:
        return await net.ask(follower, "read", key="a") == {"ok": 1}

    await until(known)
    net.isolate(follower)
    assert "ok" in await net.ask(leader, "write", key="a", value=2)
    return await net.ask(follower, "read", key="a")


@pytest.mark.parametrize(("bug", "read"), [("none", None), ("stale-follower-read", 1)])
def test_a_follower_that_is_cut_off_reads_nothing(bug: str, read: Any, tmp_path: Path) -> None:
    assert asyncio.run(_stale(tmp_path, bug)).get("ok") == read


async def _retried(where: Path, bug: str) -> list[str]:
    """The effects of a payment that is sent again after a restart of all."""
    with Processes(where, bug) as cluster:
        leader = await cluster.leader()
        for _ in range(2):
            assert "ok" in await cluster.ask(leader, "credit", key="a", id="p", value=1)
        for name in NAMES:
            cluster.kill(name)
        for name in NAMES:
            cluster.start(name)
        leader = await cluster.leader()
        assert "ok" in await cluster.ask(leader, "credit", key="a", id="p", value=1)
        found: list[str] = (await cluster.ask(leader, "audit", key="a"))["ok"]
        return found


@pytest.mark.parametrize(
    ("bug", "effects"), [("none", ["p"]), ("duplicate-on-retry-after-restart", ["p", "p"])]
)
def test_a_payment_sent_again(bug: str, effects: list[str], tmp_path: Path) -> None:
    assert asyncio.run(_retried(tmp_path, bug)) == effects


async def _next_leader(where: Path, bug: str) -> tuple[list[int], list[Any]]:
    """Ids, and elements of a queue in the order in which they leave it, of two leaders."""
    net = Inside(where, bug)
    old = await net.leader()
    ids = [(await net.ask(old, "generate"))["ok"] for _ in range(3)]
    for element in (1, 2, 3):
        await net.ask(old, "enqueue", key="q", value=element)
    net.isolate(old)
    new = await net.leader(*(name for name in NAMES if name != old))
    ids += [(await net.ask(new, "generate"))["ok"] for _ in range(3)]
    await net.ask(new, "enqueue", key="q", value=4)
    return ids, [(await net.ask(new, "dequeue", key="q"))["ok"] for _ in range(4)]


@pytest.mark.parametrize(
    ("bug", "reused", "elements"),
    [
        ("none", False, [1, 2, 3, 4]),
        ("sequence-reuse", True, [1, 2, 3, 4]),
        ("reorder-in-queue", False, [1, 4, 2, 3]),
    ],
)
def test_what_a_new_leader_goes_on_with(
    bug: str, reused: bool, elements: list[int], tmp_path: Path
) -> None:
    ids, found = asyncio.run(_next_leader(tmp_path, bug))
    assert (len(set(ids)) < len(ids)) == reused
    assert found == elements


async def _renewed(where: Path, bug: str) -> list[Any]:
    """What a server says to the holder of a lease, whom it has let have it, before and after it has
    stood still for longer than the lease."""
    with Processes(where, bug) as cluster:
        leader = await cluster.leader()
        name = next(name for name in NAMES if name != leader)
        got = await cluster.ask(name, "acquire", key="l", value=2 * 10**9)
        lease = [2 * 10**9, got["ok"]["token"]]

        async def renew() -> dict[str, Any] | None:
            said = await cluster.ask(name, "renew", key="l", value=lease)
            return said if "ok" in said or said.get("no") == "not-held" else None

        said = [await renew()]
        cluster.signal(name, signal.SIGSTOP)
        await asyncio.sleep(2.5)
        cluster.signal(name, signal.SIGCONT)
        said.append(await until(renew))
        await asyncio.sleep(2.5)
        said.append(await until(renew))
        return said


@pytest.mark.parametrize(
    ("bug", "said"),
    [("none", {"no": "not-held"}), ("lease-overlap-under-pause", {"ok": None})],
)
def test_a_lease_ends_while_its_server_stands_still(
    bug: str, said: dict[str, Any], tmp_path: Path
) -> None:
    assert asyncio.run(_renewed(tmp_path, bug)) == [{"ok": None}, said, {"no": "not-held"}]


async def _caught_up(where: Path, bug: str) -> list[Any]:
    """What each member itself has, after one of them had much to catch up with."""
    net = Inside(where, bug)
    leader = await net.leader()
    follower = next(name for name in NAMES if name != leader)
    net.isolate(follower)
    moved = {"from": 0, "to": 1, "amount": 1}
    for _ in range(300):
        assert "ok" in await net.ask(leader, "transfer", value=moved, balance=1000)
    net.cut = set()

    async def dump() -> Any:
        said = [await net.ask(n, "dump", accounts=2, balance=1000) for n in NAMES]
        return said if all("ok" in row for row in said) else None

    return [row["ok"]["1"] for row in await until(dump)]


@pytest.mark.parametrize(("bug", "values"), [("none", 1), ("replica-divergence", 2)])
def test_who_catches_up_comes_to_the_same(bug: str, values: int, tmp_path: Path) -> None:
    assert len(set(asyncio.run(_caught_up(tmp_path, bug)))) == values


async def _between(where: Path, bug: str) -> set[int]:
    """Totals that are read while money moves."""
    net = Inside(where, bug)
    await net.leader()
    totals, moved_all = set(), asyncio.Event()

    async def look(name: str) -> None:
        while not moved_all.is_set():
            said = await net.ask(name, "balances", accounts=2, balance=50)
            totals.add(sum(said["ok"].values()))
            await asyncio.sleep(0)

    async def move() -> None:
        for turn in range(200):
            moved = {"from": turn % 2, "to": 1 - turn % 2, "amount": 3}
            await net.ask("n1", "transfer", value=moved, balance=50)
        moved_all.set()

    await asyncio.gather(*map(look, NAMES), move())
    return totals


@pytest.mark.parametrize(("bug", "totals"), [("none", {100}), ("dirty-read", {97, 100})])
def test_no_read_sees_half_of_a_transfer(bug: str, totals: set[int], tmp_path: Path) -> None:
    assert asyncio.run(_between(tmp_path, bug)) == totals


def disk_in(where: Path, bug: str = "none") -> Disk:
    return Disk(real_around(where), bug)


async def _syncs(where: Path, bug: str, monkeypatch: pytest.MonkeyPatch) -> int:
    count = 0

    def counted(_: int) -> None:
        nonlocal count
        count += 1

    disk = disk_in(where, bug)
    monkeypatch.setattr("os.fdatasync", counted)
    running = asyncio.ensure_future(disk.run(lambda: None))
    for number in range(5):
        disk.append((1, number, {"op": "noop"}))
        await disk.wait_durable(disk.last)
    running.cancel()
    return count


@pytest.mark.parametrize(("bug", "syncs"), [("none", 5), ("unsynced-loss", 1)])
def test_an_entry_is_synced_before_it_counts(
    bug: str, syncs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asyncio.run(_syncs(tmp_path, bug, monkeypatch)) == syncs


def test_a_member_that_comes_back_counts_once() -> None:
    members: Members = [[1, "n1", "a:1", True], [2, "n2", "b:1", True], [3, "n3", "c:1", True]]
    back: Member = [3, "n3", "d:1", True]
    now = with_member(members, back, "none")
    assert now == [*members[:2], back]
    twice = with_member(members, back, "membership-double-entry")
    for found, alone in ((now, 0), (twice, 9)):
        assert majority(found) == 2
        assert nth_best({3: 9}, voters(found), majority(found)) == alone


def test_a_log_that_was_cut_short_ends_before(tmp_path: Path) -> None:
    async def fill() -> None:
        disk = disk_in(tmp_path)
        running = asyncio.ensure_future(disk.run(lambda: None))
        for number in range(3):
            disk.append((1, number, {"op": "noop"}))
        await disk.wait_durable(3)
        disk.cut(3)
        disk.append((2, 7, {"op": "noop"}))
        await disk.wait_durable(3)
        running.cancel()

    asyncio.run(fill())
    log = tmp_path / "log"
    whole = log.read_bytes()
    assert [e[:2] for e in disk_in(tmp_path).entries] == [(1, 0), (1, 1), (2, 7)]
    log.write_bytes(whole[:-4])
    assert [e[:2] for e in disk_in(tmp_path).entries] == [(1, 0), (1, 1)]
    log.write_bytes(whole.replace(b"[1,1,", b"[1,5,"))
    with pytest.raises(SystemExit, match="damaged at line 2"):
        disk_in(tmp_path)


def test_a_machine_does_a_request_once() -> None:
    machine, paid = Machine(), {"op": "credit", "key": "a", "id": "p", "value": 1}
    assert machine.apply(1, 0, paid) == {"ok": True}
    assert machine.apply(2, 0, paid) == {"ok": True, "again": True}
    assert machine.query({"op": "audit", "key": "a"}) == {"ok": ["p"]}
