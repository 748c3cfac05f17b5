"""A bandwidth cap on a real etcd: measured by transfers, beside our own connections, undone."""

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

from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.network.bandwidth import NEMESIS, Bandwidth
from nemeses.tools.netem import cap_rules, device_of, shape_of

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=6", "quiet_s=8", "scope=minority", "kbit=1000")


def test_a_cap_shows_in_transfers(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=OPTIONS, time_limit_s=24.0)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert_passed(done)
    assert all(n > 0 for n in fault["injector"]["during"].values())
    assert all(0 < kbit <= 1200 for kbit in fault["victim"]["during"].values())
    assert all(kbit >= 3000 for kbit in fault["victim"]["after"].values())
    assert all(kbit >= 3000 for kbit in fault["control"]["during"].values())


class Elsewhere(Bandwidth):
    """The cap is put on the loopback interface."""

    def rules(self, device: str, ctx: NemesisContext, record: LandingRecord) -> str:
        return cap_rules("lo", ctx.lab, record.facts["kbit"])

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        for name in record.targets:
            await ctx.node(name).run(["tc", "qdisc", "del", "dev", "lo", "root"], check=False)


def test_a_cap_on_the_wrong_interface(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Elsewhere(), options=OPTIONS, time_limit_s=24.0)
    fault = assert_not_proven(done)
    assert fault["landed"] == "no"
    assert "no cap" in fault["injector"]["detail"]


class Wide(Bandwidth):
    """A cap that nothing fills."""

    def rules(self, device: str, ctx: NemesisContext, record: LandingRecord) -> str:
        return cap_rules(device, ctx.lab, 4_000_000)


def test_a_cap_that_caps_nothing(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Wide(), options=OPTIONS, time_limit_s=24.0)
    assert "asked for" in assert_not_proven(done)["injector"]["detail"]


class Undone(Bandwidth):
    """Somebody else removes one cap in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes"
            await self.revert(ctx, msgspec.structs.replace(record, targets=record.targets[:1]))
        return await super().recheck(ctx, record)


def test_removed_in_mid_window(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Undone(), options=OPTIONS, time_limit_s=24.0)
    assert assert_not_proven(done)["landed"] == "ambiguous"


def test_kill_9_of_ours_in_mid_cap(lab: LabInfo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", "bandwidth", "--time-limit", "60", "-o", "fault_s=30"),
        *("-o", "scope=minority", "--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )

    def caps() -> int:
        async def ask(nodes: dict[str, Any]) -> int:
            devices = {n: await device_of(n, lab.control) for n in nodes.values()}
            return sum([await shape_of(n, d) is not None for n, d in devices.items()])

        found: int = on_nodes(lab, ask)
        return found

    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 60)
    assert caps() == 2
    process.kill()
    process.wait(timeout=10)
    assert wait_for("healing without us", lambda: not caps(), 20) <= 20
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")
