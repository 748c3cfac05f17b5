"""Leases and the janitor, with the real processes and a directory of their own."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from polling import wait_for

from clusters.remote import agent_lease, agent_main
from clusters.remote.agent_exec import Refused
from clusters.remote.connection import end_janitors, local_agent
from dstest.core.errors import LabError

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A directory with a janitor."""
    folder = tmp_path / "run"
    agent_lease.ensure_janitor(folder, "v1")
    yield folder
    kill_janitor(folder)


def janitor_pid(run: Path) -> int:
    return int(json.loads((run / "janitor.json").read_text())["pid"])


def kill_janitor(run: Path) -> None:
    end_janitors(run)
    wait_for(lambda: not agent_lease.janitor_alive(run))


def healed(run: Path, lease_id: str) -> Any:
    path = run / "healed" / f"{lease_id}.json"
    wait_for(path.exists)
    return json.loads(path.read_text())


def test_a_lease_that_nobody_renews_heals(run: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    agent_lease.arm(run, "f1", [["touch", str(tmp_path / "healed")]], 0.3)
    record = healed(run, "f1")
    assert 0.3 <= time.monotonic() - started < 0.3 + 2
    assert (tmp_path / "healed").exists()
    assert [row["status"] for row in record["commands"]] == [0]
    assert agent_lease.list_all(run)["armed"] == []


def test_who_looks_for_a_janitor_keeps_none_from_starting(tmp_path: Path) -> None:
    """A look takes its lock for a moment; one that meets this moment ends, and no other came."""
    for name in ("firing", "healed"):
        (tmp_path / name).mkdir()
    with (tmp_path / "janitor.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        agent_lease._start(tmp_path, "v1")
        wait_for((tmp_path / "leases").is_dir)
        time.sleep(0.3)
        fcntl.flock(lock, fcntl.LOCK_UN)
    wait_for((tmp_path / "janitor.json").exists)
    kill_janitor(tmp_path)


def test_a_janitor_that_ends_at_once_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, ended = agent_lease._start, subprocess.Popen(["true"])
    ended.wait()
    begun: list[str] = []

    def once_in_vain(run: Path, version: str) -> subprocess.Popen[bytes]:
        begun.append(version)
        return ended if len(begun) == 1 else start(run, version)

    monkeypatch.setattr(agent_lease, "_start", once_in_vain)
    agent_lease.ensure_janitor(tmp_path, "v1", slowness=4.0)
    assert len(begun) == 2
    kill_janitor(tmp_path)


def test_a_slow_node_has_longer_to_start_its_janitor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And to confirm a lease: emulated machines that have just booted need more than 10 s."""
    armed: list[tuple[bool, float]] = []
    monkeypatch.setattr(agent_lease, "JANITOR_START_TIMEOUT_S", 0.05)
    agent = agent_main.Agent(tmp_path, tmp_path / "marker", "v1", slowness=40.0)

    def arm(*words: Any) -> dict[str, Any]:
        armed.append((agent._janitor_ready.is_set(), words[-1]))
        return {}

    monkeypatch.setattr(agent_lease, "arm", arm)
    ready = threading.Timer(0.5, agent._janitor_ready.set)
    ready.start()
    agent.lease_arm("f1", [["true"]], 60.0)
    ready.join()
    assert armed == [(True, 40 * agent_lease.ACK_TIMEOUT_S)]


def test_arming_returns_as_soon_as_the_janitor_has_seen_it(run: Path) -> None:
    started = time.monotonic()
    agent_lease.arm(run, "f1", [["true"]], 60)
    assert time.monotonic() - started < agent_lease.ACK_TIMEOUT_S
    assert (run / "leases" / "f1" / "ack").exists()


def test_a_failing_heal_command_does_not_stop_the_next(run: Path, tmp_path: Path) -> None:
    last = tmp_path / "last"
    agent_lease.arm(run, "f1", [["no-such-program"], ["false"], ["touch", str(last)]], 0.1)
    assert [row["status"] for row in healed(run, "f1")["commands"]] == [127, 1, 0]
    assert last.exists()


def test_a_heal_command_may_take_as_long_as_its_lease_says(run: Path, tmp_path: Path) -> None:
    slow = ["sh", "-c", 'sleep 0.4; touch "$0"', str(tmp_path / "slow")]
    agent_lease.arm(run, "hurried", [slow, ["true"]], 0.1, 0.1)
    assert [row["status"] for row in healed(run, "hurried")["commands"]] == [None, 0]
    assert not (tmp_path / "slow").exists()
    agent_lease.arm(run, "patient", [slow], 0.1, 5.0)
    assert [row["status"] for row in healed(run, "patient")["commands"]] == [0]
    with pytest.raises(Refused, match="cannot be waited for"):
        agent_lease.arm(run, "endless", [slow], 0.1, 1e9)


def test_a_hanging_heal_command_delays_no_other_lease(run: Path) -> None:
    agent_lease.arm(run, "slow", [["sleep", "5"]], 0.1)
    agent_lease.arm(run, "quick", [["true"]], 0.1)
    healed(run, "quick")
    assert "slow" in agent_lease.list_all(run)["firing"]


def test_heartbeats_keep_a_lease(run: Path, tmp_path: Path) -> None:
    agent_lease.arm(run, "f1", [["touch", str(tmp_path / "healed")]], 0.6)
    agent_lease.arm(run, "left-alone", [["true"]], 0.6)

    def keep() -> bool:
        assert agent_lease.renew(run, ["f1"]) == {"renewed": ["f1"], "lost": []}
        return (run / "healed" / "left-alone.json").exists()

    wait_for(keep)
    assert agent_lease.renew(run, ["f1"]) == {"renewed": ["f1"], "lost": []}
    assert not (tmp_path / "healed").exists()


def test_a_released_lease_never_fires(run: Path, tmp_path: Path) -> None:
    agent_lease.arm(run, "f1", [["touch", str(tmp_path / "healed")]], 0.3)
    assert agent_lease.release(run, "f1") == {"released": True, "fired": False}
    agent_lease.arm(run, "later", [["true"]], 0.3)
    healed(run, "later")
    assert not (tmp_path / "healed").exists()
    assert agent_lease.renew(run, ["f1"]) == {"renewed": [], "lost": ["f1"]}


def test_releasing_what_fired_waits_for_its_commands_and_says_so(run: Path, tmp_path: Path) -> None:
    done = tmp_path / "done"
    agent_lease.arm(run, "f1", [["sh", "-c", f"sleep 1; touch {done}"]], 0.1)
    wait_for(lambda: agent_lease.list_all(run)["firing"])
    assert agent_lease.release(run, "f1") == {"released": False, "fired": True}
    assert done.exists()


def test_an_id_is_armed_once_and_free_again_afterwards(run: Path) -> None:
    agent_lease.arm(run, "f1", [["true"]], 60)
    with pytest.raises(Refused, match="armed already"):
        agent_lease.arm(run, "f1", [["true"]], 60)
    agent_lease.release(run, "f1")
    agent_lease.arm(run, "f1", [["true"]], 60)


@pytest.mark.parametrize("lease_id", ["", "../f1", "a/b", ".hidden", "x" * 65])
def test_ids_stay_inside_their_directory(run: Path, lease_id: str) -> None:
    with pytest.raises(Refused, match="cannot be a lease id"):
        agent_lease.arm(run, lease_id, [["true"]], 1)


@pytest.mark.parametrize(
    ("heal", "ttl_s"), [([], 1), ([[]], 1), ([["true"]], 0), ([["true"]], 1e9)]
)
def test_a_lease_that_would_not_heal_is_refused(run: Path, heal: Any, ttl_s: float) -> None:
    with pytest.raises(Refused):
        agent_lease.arm(run, "f1", heal, ttl_s)


def test_without_a_janitor_nothing_can_be_armed(run: Path) -> None:
    kill_janitor(run)
    with pytest.raises(Refused, match="not running"):
        agent_lease.arm(run, "f1", [["true"]], 10)
    assert agent_lease.list_all(run)["armed"] == []


def test_a_stopped_janitor_confirms_nothing(run: Path) -> None:
    os.kill(janitor_pid(run), signal.SIGSTOP)
    with pytest.raises(Refused, match="did not confirm"):
        agent_lease.arm(run, "f1", [["true"]], 10)
    assert agent_lease.list_all(run)["armed"] == []


def test_the_next_janitor_takes_over_armed_and_broken_off_leases(run: Path, tmp_path: Path) -> None:
    agent_lease.arm(run, "armed", [["touch", str(tmp_path / "armed")]], 0.5)
    agent_lease.arm(run, "broken-off", [["sh", "-c", f"sleep 1; touch {tmp_path / 'late'}"]], 0.1)
    wait_for(lambda: agent_lease.list_all(run)["firing"])
    kill_janitor(run)
    agent_lease.ensure_janitor(run, "v1")
    healed(run, "armed")
    healed(run, "broken-off")
    assert (tmp_path / "armed").exists()
    assert (tmp_path / "late").exists()


def test_there_is_one_janitor_and_a_new_version_replaces_it(run: Path) -> None:
    first = janitor_pid(run)
    agent_lease.ensure_janitor(run, "v1")
    assert janitor_pid(run) == first
    agent_lease.arm(run, "f1", [["true"]], 60)
    agent_lease.ensure_janitor(run, "v2")
    wait_for(lambda: janitor_pid(run) != first)
    assert agent_lease.list_all(run)["armed"] == ["f1"]


def test_the_janitor_outlives_its_agent_and_heals(tmp_path: Path) -> None:
    run, marker, flag = tmp_path / "run", tmp_path / "marker", tmp_path / "healed"
    marker.write_text("lab-7")

    async def arm_and_die() -> None:
        async with local_agent("lab-7", run=run, marker=marker) as (client, pid):
            args = {"id": "f1", "heal": [["touch", str(flag)]], "ttl_s": 0.5}
            await client.call("lease_arm", args, 60.0)
            os.kill(pid, signal.SIGKILL)

    async def look() -> Any:
        async with local_agent("lab-7", run=run, marker=marker) as (client, _):
            return await client.call("lease_list", {}, 5.0)

    try:
        asyncio.run(arm_and_die())
        healed(run, "f1")
        assert flag.exists()
        assert list(asyncio.run(look())["healed"]) == ["f1"]
    finally:
        kill_janitor(run)


def test_a_dead_janitor_is_replaced_when_the_next_agent_comes(tmp_path: Path) -> None:
    run, marker = tmp_path / "run", tmp_path / "marker"
    marker.write_text("lab-7")
    args = {"heal": [["true"]], "ttl_s": 60}

    async def main() -> None:
        async with local_agent("lab-7", run=run, marker=marker) as (client, _):
            await client.call("lease_arm", {"id": "f1", **args}, 60.0)
            kill_janitor(run)
            with pytest.raises(LabError, match="not running"):
                await client.call("lease_arm", {"id": "f2", **args}, 60.0)
        async with local_agent("lab-7", run=run, marker=marker) as (client, _):
            await client.call("lease_arm", {"id": "f2", **args}, 60.0)
            found = await client.call("lease_list", {}, 5.0)
            # The agent that armed f1 has ended: it may run out already.
            assert "f1" in {*found["armed"], *found["firing"], *found["healed"]}
            assert "f2" in found["armed"]

    try:
        asyncio.run(main())
    finally:
        kill_janitor(run)
