"""Nodes that are slow, or were cut off from power: deadlines, lost writes, limits of version 2."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from third_party import context

from clusters.remote.agent_groups import Groups
from clusters.remote.bundle import first_frame
from clusters.remote.connection import RemoteNode
from dstest.core.errors import FaultRefused, RemoteLost
from dstest.core.evidence import LandingRecord
from dstest.core.node import NodeInfo
from dstest.core.protocols import Timing
from dstest.judge.evidence import _fault
from dstest.runner.answers import allow_for_slowness
from nemeses.base.path_fault import landing_s
from nemeses.process import restart
from nemeses.process.memory import MEMORY, Memory


def test_times_of_slow_nodes() -> None:
    usual = Timing(start_s=10.0, failover_s=7.0, keepalive_s=2.0)
    slow = usual.slower(3.0)
    assert (slow.start_s, slow.answer_s, slow.slowness) == (30.0, 3 * usual.answer_s, 3.0)
    # Timeouts of the system itself do not change.
    assert (slow.failover_s, slow.keepalive_s) == (7.0, 2.0)


@pytest.mark.parametrize(("slowness", "start_s"), [(1.0, 10.0), (4.0, 40.0)])
def test_a_deployment_is_given_the_time_of_its_slowest_node(
    slowness: float, start_s: float
) -> None:
    deployment: Any = SimpleNamespace(timing=Timing(start_s=10.0))
    infos = [NodeInfo(name="n", address="-", slowness=s) for s in (1.0, slowness)]
    allow_for_slowness(deployment, cast(Any, [SimpleNamespace(info=i) for i in infos]))
    assert deployment.timing.start_s == start_s
    assert landing_s(context(deployment)) == 5.0 * slowness


class Agent:
    """Notes how long it is waited for."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    async def call(self, verb: str, args: Any, timeout_s: float) -> Any:
        self.waited.append(timeout_s)
        return {"status": 0, "stdout": "", "stderr": "", "duration_ns": 0}


def test_calls_to_a_slow_node_and_to_one_that_is_away() -> None:
    agent = Agent()
    info = NodeInfo(name="n1", address="-", slowness=4.0)
    node = RemoteNode(info, cast(Any, None), cast(Any, agent), {}, cast(Any, None))
    asyncio.run(node.call("ping", timeout_s=5.0))
    asyncio.run(node.run(["true"], timeout_s=5.0))
    assert agent.waited == [20.0, 22.0]
    node.away = True
    for ask in (node.call("ping"), node.run(["true"])):
        with pytest.raises(RemoteLost, match="down on purpose"):
            asyncio.run(ask)
    assert b'"slowness":4.0' in first_frame("lab", slowness=4.0)


LOST = {"synced": True, "unsynced": False}
KEPT = {"synced": True, "unsynced": True}


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({}, ""),
        ({"n1": LOST, "n2": LOST}, "lost"),
        ({"n1": LOST, "n2": KEPT}, "kept"),
        # A disk that lost what was synced says nothing of what was not.
        ({"n1": {"synced": False, "unsynced": False}}, ""),
    ],
)
def test_what_became_of_unsynced_writes(rows: Any, found: str) -> None:
    assert restart.what_became(rows) == found


@pytest.mark.parametrize(("facts", "said"), [({}, "kept"), ({"page_cache": "lost"}, "lost")])
def test_what_a_record_saw_goes_before_what_its_nemesis_says(
    facts: dict[str, Any], said: str
) -> None:
    record = LandingRecord(
        fault_id="f1", nemesis="restart", targets=[], scheduled_at=0, epoch="f1", facts=facts
    )
    assert _fault(record, "kept").page_cache == said


def test_limits_of_version_2_hold_for_all_services(tmp_path: Path) -> None:
    groups = Groups()
    groups._mount = ("v2", str(tmp_path))
    (tmp_path / "dstest").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "dstest")
    assert groups.holds(str(tmp_path / "link"))
    assert not groups.holds(str(tmp_path))
    groups._mount = ("v1", str(tmp_path))
    assert not groups.holds(str(tmp_path / "link"))


def test_version_2_lets_no_task_wait_for_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def made(*_: Any) -> None:
        return

    async def second(*_: Any) -> str:
        return "cgroup v2"

    monkeypatch.setattr(type(MEMORY), "make", made)
    monkeypatch.setattr(type(MEMORY), "version", second)

    class Grouped:
        timing = Timing()

        async def start_in(self, group: str) -> None:
            return

    nodes = {"n1": SimpleNamespace(name="n1")}
    for mode, refused in (("stall", True), ("oom", False)):
        ctx = context(Grouped(), nodes=nodes, node=nodes.__getitem__, options={"mode": mode})
        nemesis = Memory()
        if refused:
            with pytest.raises(FaultRefused, match="version 1"):
                asyncio.run(nemesis.prepare(ctx))
        else:
            asyncio.run(nemesis.prepare(ctx))
            assert nemesis._versions == {"n1": "cgroup v2"}


def test_a_slow_node_is_written_down() -> None:
    info = NodeInfo(name="n1", address="-", slowness=4.0)
    assert msgspec.json.decode(msgspec.json.encode(info), type=NodeInfo) == info
