"""aimed on a real etcd, as its package has it: landed by counters, sabotaged, healed without us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import (
    assert_not_proven,
    faults_of,
    frozen,
    killed_in_mid_fault,
    on_nodes,
    run_here,
)

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.process.aimed import Aimed
from nemeses.tools import aim

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

APPLY = "function:etcdserver.(*EtcdServer).applyEntryNormal"
WINDOW = ("fault_s=4", "quiet_s=8")


def traced(lab: LabInfo) -> list[int]:
    """Pids of our program on any node."""

    async def ask(nodes: dict[str, Any]) -> list[int]:
        return [pid for node in nodes.values() for pid in await aim.traces(node)]

    found: list[int] = on_nodes(lab, ask)
    return found


def lease_is_over(lab: LabInfo) -> bool:
    """Has it run out on the node that was aimed at?"""

    async def ask(nodes: dict[str, Any]) -> bool:
        leases = [await node.call("lease_list") for node in nodes.values()]
        standing = any("f1" in (*row["armed"], *row["firing"]) for row in leases)
        return not standing and any("f1" in row["healed"] for row in leases)

    found: bool = on_nodes(lab, ask)
    return found


def one(path: Path) -> dict[str, Any]:
    (fault,) = faults_of(path)
    return fault


@pytest.mark.parametrize(
    ("at", "then", "scope"),
    [
        (APPLY, "kill", "one"),
        (f"{APPLY} > return:mvcc.(*storeTxnWrite).put", "kill", "primaries"),
        ("syscall:fdatasync:*.wal:5", "kill-all", "one"),
        (APPLY, "pause", "minority"),
        (APPLY, "delay", "one"),
    ],
)
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, at: str, then: str, scope: str) -> None:
    options = (*WINDOW, f"at={at}", "hit=5", f"then={then}", f"scope={scope}", "delay_ms=300")
    done = run_here(lab, tmp_path, nemesis=Aimed(), options=options)
    fault = one(done.path)
    assert_passed(done, fault)
    assert fault["landed"] == "yes" and fault["heal_verified"]
    facts = fault["facts"]
    for name in facts["aimed_at"]:
        reached = facts["reached"][name]
        assert reached["fired"] >= 1 and reached["hits"] >= 5 and not reached["lost"]
        assert reached["root"] in {row[1] for row in facts["processes"][name]}
        if at == APPLY:
            assert reached["callers"][0].endswith("applyEntryNormal")
    if then == "kill-all":
        assert len(fault["targets"]) == 5 and len(facts["aimed_at"]) == 1
    assert traced(lab) == [] and frozen(lab) == []


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("function:mvcc.(*store).scheduleCompaction", "never reached in 2 s"),
        ("function:mvcc.(*store).nonesuch", "none is mvcc.(*store).nonesuch"),
        ("syscall:fdatasync:*.nonesuch", "never reached in 2 s"),
    ],
)
def test_a_point_that_is_not_met(lab: LabInfo, tmp_path: Path, at: str, why: str) -> None:
    options = (*WINDOW, f"at={at}", "scope=one", "reach_s=2")
    done = run_here(lab, tmp_path, nemesis=Aimed(), options=options)
    fault = assert_not_proven(done)
    assert fault["landed"] == "no"
    assert why in str(fault["notes"]) + str(fault["injector"])
    assert traced(lab) == []


class Elsewhere(Aimed):
    """Aims at a process of our own that runs the same program, and not at the server."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        for name in record.targets:
            sight = record.facts["sights"][name]
            argv = [sight["exe"], "--data-dir", "/tmp/dstest-elsewhere", "--force-new-cluster"]
            argv += ["--listen-client-urls", "http://127.0.0.1:3379"]
            argv += ["--advertise-client-urls", "http://127.0.0.1:3379"]
            argv += ["--listen-peer-urls", "http://127.0.0.1:3380"]
            other = await ctx.node(name).call("spawn", argv=argv)
            sight["biases"] = {str(other["pid"]): "0"}
        await super().apply(ctx, record)
        return {}

    async def teardown(self, ctx: NemesisContext) -> None:
        await super().teardown(ctx)
        for name in ctx.nodes:
            argv = ["sh", "-c", "pkill -9 -f dstest-elsewhere; rm -rf /tmp/dstest-elsewhere"]
            await ctx.node(name).run(argv, check=False)


def test_the_wrong_process_comes_there(lab: LabInfo, tmp_path: Path) -> None:
    options = (*WINDOW, f"at={APPLY}", "scope=one")
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=Elsewhere(), options=options))
    assert fault["landed"] == "no"
    assert "none of its server" in fault["injector"]["detail"]


class LetGo(Aimed):
    """Somebody else ends the tracer before the point is met."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        facts = await super().apply(ctx, record)
        for name in record.targets:
            await ctx.node(name).run([aim.OFF])
        return dict(facts)


def test_detached_by_somebody_else(lab: LabInfo, tmp_path: Path) -> None:
    options = (*WINDOW, f"at={APPLY}", "scope=one", "hit=100000", "reach_s=2")
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=LetGo(), options=options))
    assert fault["landed"] == "no"


@pytest.mark.parametrize("then", ["kill", "pause", "delay"])
def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path, then: str) -> None:
    words = ("--nemesis", "aimed", "-o", f"at={APPLY}", "-o", "scope=one", "-o", f"then={then}")

    def healed() -> bool:
        return not traced(lab) and not frozen(lab) and lease_is_over(lab)

    killed_in_mid_fault(lab, tmp_path, (*words, "-o", "fault_s=30"), healed, within_s=60)
    assert on_nodes(lab, lambda nodes: etcd_serves(nodes)) == []


async def etcd_serves(nodes: dict[str, Any]) -> list[str]:
    """Nodes on which no etcd runs that nobody traces."""
    look = "pid=$(pgrep -x etcd) && grep -q '^TracerPid:.0$' /proc/$pid/status"
    found = []
    for node in nodes.values():
        done = await node.run(["sh", "-c", look], check=False)
        found += [node.name] if done.status else []
    return found
