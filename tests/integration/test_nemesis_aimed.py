"""aimed on a real etcd, as its package has it: landed by counters, sabotaged, healed without us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from busy import assert_passed
from runs import (
    assert_not_proven,
    dstest,
    faults_of,
    frozen,
    killed_in_mid_fault,
    on_nodes,
    run_here,
)

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from dstest.report.model import load_report
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


def test_a_point_that_is_not_met_is_counted_once_and_not_waited_for_again(
    lab: LabInfo, tmp_path: Path
) -> None:
    at = "function:mvcc.(*store).scheduleCompaction"
    options = ("fault_s=4", "quiet_s=4", f"at={at}", "scope=one", "reach_s=2")
    done = run_here(lab, tmp_path, nemesis=Aimed(), options=options, time_limit_s=30.0)
    first, second, *_ = faults_of(done.path)
    assert [one["landed"] for one in (first, second)] == ["no", "no"]
    counts = first["facts"]["counts"]
    assert len(counts) == 5 and all(row["armed"] > 100 for row in counts.values())
    assert all(row["reached"] and at not in row["reached"] for row in counts.values())
    assert "reached there: function:mvcc.(*store)" in str(first["notes"])
    assert second["injected_at"] is None and "not waited for again" in str(second["notes"])
    commands = [row.command for row in load_report(done.path).remedies if row.command]
    assert commands and all("at=function:mvcc.(*store)." in one for one in commands)
    assert not any(at in one for one in commands)
    assert traced(lab) == []


def test_a_function_is_drawn_among_those_that_are_reached(lab: LabInfo, tmp_path: Path) -> None:
    options = (*WINDOW, "at=any:mvcc.*", "scope=one")
    done = run_here(lab, tmp_path, nemesis=Aimed(), options=options)
    fault = one(done.path)
    assert_passed(done, fault)
    facts = fault["facts"]
    (count,) = facts["counts"].values()
    assert facts["drawn"] in count["reached"] and len(count["reached"]) < count["armed"] <= 250
    assert facts["drawn"] in fault["injector"]["signal"]


def test_none_that_could_be_drawn_is_reached(lab: LabInfo, tmp_path: Path) -> None:
    options = (*WINDOW, "at=any:mvcc.*ompaction*", "scope=one", "reach_s=2")
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=Aimed(), options=options))
    assert fault["landed"] == "no" and "functions was reached in" in str(fault["notes"])
    assert traced(lab) == []


@pytest.mark.parametrize("scope", ["one", "primaries"])
def test_a_call_is_refused_and_the_server_shows_it(
    lab: LabInfo, tmp_path: Path, scope: str
) -> None:
    options = (*WINDOW, "at=syscall:fdatasync:*.wal", "then=errno:ENOSPC", f"scope={scope}")
    done = run_here(lab, tmp_path, nemesis=Aimed(), options=options)
    fault = one(done.path)
    assert_passed(done, fault)
    assert fault["landed"] == "yes" and fault["heal_verified"]
    facts = fault["facts"]
    assert all(row["refused"] >= 1 for row in facts["reached"].values())
    assert set(facts["fates"].values()) <= {"gone", "told"}
    assert traced(lab) == []


class Unfelt(Aimed):
    """The call that is refused is one whose errors nobody notices."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> dict[str, Any]:
        facts = dict(record.facts)
        facts["at"] = "syscall:fallocate"
        return dict(await super().apply(ctx, msgspec.structs.replace(record, facts=facts)))


def test_an_error_that_nobody_was_answered_with(lab: LabInfo, tmp_path: Path) -> None:
    options = (*WINDOW, "at=syscall:fdatasync:*.wal", "then=errno:EIO", "scope=one", "reach_s=2")
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=Unfelt(), options=options))
    assert fault["landed"] == "no"


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


def test_points_are_counted_under_a_load(lab: LabInfo) -> None:
    words = ("--count", "3", "--workload", "register", "--search", "mvcc.*", "--json")
    done = dstest("points", "etcd", *words, "--lab-id", lab.lab_id, timeout_s=120)
    assert done.returncode == 0, done.stderr
    assert "mvcc" in done.stdout
