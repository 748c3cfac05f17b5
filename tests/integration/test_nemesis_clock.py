"""Clock skew of a real etcd, process by process: seen in its own answers, undone, or not proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from busy import assert_passed
from runs import (
    CALM,
    assert_not_proven,
    dstest,
    faults_of,
    latest,
    on_nodes,
    run_here,
    start,
    verdict_of,
    wait_for,
)

from clusters.systems.etcd.on_node import PIDFILE
from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.clock.clock import NEMESIS, Clock
from nemeses.tools.clock_tool import TOOL, build, shift

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=5", "quiet_s=8", "scope=minority")


@pytest.mark.parametrize("skew_s", [30.0, -5.0])
def test_an_offset_shows_in_its_answers(lab: LabInfo, tmp_path: Path, skew_s: float) -> None:
    options = (*OPTIONS, f"skew_s={skew_s}")
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=options)
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert fault["landed"] == "yes"
    assert fault["heal_verified"]
    assert all(hits > 0 for hits in fault["injector"]["during"].values())
    for name in fault["targets"]:
        assert abs(fault["victim"]["during"][name] - skew_s) <= max(0.3, 0.1 * abs(skew_s))
        assert abs(fault["victim"]["after"][name]) < 0.6
        assert f"agent of {name}" in fault["control"]["during"]
    assert not any(fault["injector"]["after"].values()), "the vDSO is as it was"
    assert 0 < fault["facts"]["undone_ms"] < 1000


def test_a_rate_shows_in_its_slope(lab: LabInfo, tmp_path: Path) -> None:
    options = ("fault_s=36", "quiet_s=8", "scope=one", "rate=1.05")
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=options, time_limit_s=50.0)
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    (slope,) = fault["facts"]["slopes"].values()
    assert abs(slope - 0.05) <= 0.0075


def test_a_strobe_shows_in_its_answers(lab: LabInfo, tmp_path: Path) -> None:
    options = (*OPTIONS, "skew_s=30", "strobe_ms=200")
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=options)
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert all(jumps >= 2 for jumps in fault["victim"]["during"].values())
    assert all(abs(skew) < 0.6 for skew in fault["victim"]["after"].values())


class Wrapper(Clock):
    """The clock of a process that we started ourselves is shifted instead of the server's."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            node = ctx.node(name)
            other = await node.call("spawn", argv=["/bin/sleep", "60"])
            await shift(node, other["pid"], other["start_time"], ["set", 30_000_000_000, 0, 0, 0])


def test_the_clock_of_another_process(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Wrapper(), options=(*OPTIONS, "skew_s=30"))
    fault = assert_not_proven(done)
    assert fault["landed"] == "no"
    assert "not shifted as asked for" in fault["injector"]["detail"]


class Half(Clock):
    """Half of the offset that was asked for."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        facts = {**record.facts, "skew_s": record.facts["skew_s"] / 2}
        await super().apply(ctx, msgspec.structs.replace(record, facts=facts))


def test_another_offset_than_asked_for(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Half(), options=(*OPTIONS, "skew_s=30"))
    fault = assert_not_proven(done)
    assert "+30.00 s asked for" in fault["victim"]["detail"]


class Undone(Clock):
    """Somebody else restores the clock in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes"
            await self.revert(ctx, msgspec.structs.replace(record, targets=record.targets[:1]))
        return await super().recheck(ctx, record)


def test_restored_in_mid_window(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Undone(), options=OPTIONS)
    fault = assert_not_proven(done)
    assert fault["landed"] == "ambiguous"
    assert any("did not stand" in note for note in fault["notes"])


def test_kill_9_of_ours_in_mid_skew(lab: LabInfo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", "clock", "--time-limit", "60", "-o", "fault_s=30"),
        *("-o", "scope=minority", "--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )

    def shifted() -> int:
        async def ask(nodes: dict[str, Any]) -> int:
            count, tool = 0, await build()
            for node in nodes.values():
                # Healing removes it.
                await node.put(TOOL, tool, mode=0o755)
                pid = int((await node.run(["cat", PIDFILE])).stdout.split()[0])
                info = await node.call("procinfo", pid=pid)
                patch = await shift(node, pid, info["start_time"], ["read"])
                count += bool(patch and patch.patched)
            return count

        found: int = on_nodes(lab, ask)
        return found

    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 60)
    assert shifted() == 2
    process.kill()
    process.wait(timeout=10)
    assert wait_for("healing without us", lambda: not shifted(), 15) <= 15
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")


MONOTONIC = ("fault_s=5", "quiet_s=8", "monotonic=true")


def test_a_monotonic_offset_shows_in_lease_times(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=(*MONOTONIC, "skew_s=30"))
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert_passed(done)
    proof = fault["facts"]["lease"]["proof"]
    assert [proof["node"]] == fault["targets"]
    assert abs(proof["ahead_s"] - 30) <= 3 + proof["doubt_s"]
    assert "lease time of" in fault["victim"]["detail"]


class WallClockOnly(Clock):
    """The monotonic clock is left alone."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        calm = {**record.facts, "monotonic": False}
        await super().apply(ctx, msgspec.structs.replace(record, facts=calm))


def test_a_monotonic_clock_that_is_right(lab: LabInfo, tmp_path: Path) -> None:
    options = (*MONOTONIC, "skew_s=30")
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=WallClockOnly(), options=options))
    assert "monotonic: lease time of" in fault["victim"]["detail"]
    assert "not shifted as asked for" in fault["injector"]["detail"]
