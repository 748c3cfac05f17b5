"""A follower of a real etcd with a small share of a processor: it falls behind, and catches up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import MUCH, dstest, faults_of, latest, on_nodes, run_here, start, verdict_of, wait_for

from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from dstest.core.verdict import State
from nemeses.process.slow_follower import CPU, NEMESIS, SlowFollower

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=6", "quiet_s=8")


def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=OPTIONS, rate=MUCH, time_limit_s=24.0)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert fault["facts"]["leader_before"] not in fault["targets"]
    assert_passed(done)
    assert groups(lab) == []


class Roomy(SlowFollower):
    """The server is moved into the group, whose quota is two processors."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        facts = {**record.facts, "left_percent": 200.0}
        await super().apply(ctx, LandingRecord(**{**_fields(record), "facts": facts}))


def _fields(record: LandingRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_a_quota_that_is_none(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Roomy(), options=OPTIONS, rate=MUCH, time_limit_s=24.0)
    (fault,) = faults_of(done.path)
    assert fault["landed"] != "yes"
    assert done.verdict is not None
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN


def groups(lab: LabInfo, file: str = "") -> list[str]:
    """Nodes that have our control group, or with `file` those where that file has a line."""

    async def ask(nodes: dict[str, Any]) -> list[str]:
        script = f"[ -d {CPU.path} ]" if not file else f'[ -n "$(cat {CPU.path}/{file})" ]'
        found = []
        for name, node in nodes.items():
            if (await node.run(["sh", "-c", script], check=False)).status == 0:
                found.append(name)
        return found

    found: list[str] = on_nodes(lab, ask)
    return found


def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *("run", "--rate", str(MUCH), "--nemesis", "slow-follower"),
        *("--time-limit", "60", "-o", "fault_s=30"),
        *("--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )
    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 90)
    assert len(groups(lab, "cgroup.procs")) == 1
    process.kill()
    process.wait(timeout=10)
    wait_for("healing without us", lambda: groups(lab, "cgroup.procs") == [], 20)
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")
