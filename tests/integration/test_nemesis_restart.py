"""Whole nodes of a real etcd go down and come up: seen from outside, or it did not happen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from busy import assert_passed
from runs import (
    CALM,
    assert_not_proven,
    dstest,
    etcd,
    faults_of,
    from_outside,
    latest,
    on_nodes,
    run_here,
    start,
    verdict_of,
    wait_for,
)

from clusters.labs.lxc import LAB
from clusters.systems.etcd.on_node import PIDFILE
from dstest.core.errors import Exit, LabError
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.process.restart import NEMESIS, Restart

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


@pytest.mark.parametrize(("scope", "flaps"), [("primaries", 1), ("all", 1), ("one", 2)])
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, scope: str, flaps: int) -> None:
    options = (*OPTIONS, f"scope={scope}", f"flaps={flaps}")
    before = LAB.boots(lab.lab_id)
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=options)
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert fault["landed"] == "yes"
    assert fault["heal_verified"], fault["notes"]
    assert len(fault["facts"]["lives_between"]) == flaps - 1
    assert fault["facts"]["readiness_gap_ms"] >= 4000
    assert all(fault["facts"]["data_before"].values())
    after = LAB.boots(lab.lab_id)
    assert {n for n in before if before[n] != after[n]} == set(fault["targets"])
    assert None not in after.values()


class Nothing(Restart):
    """The nodes are left alone."""

    async def take_down(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        pass


def test_nodes_that_never_go_down(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Nothing(), options=(*OPTIONS, "scope=one"))
    fault = assert_not_proven(done)
    assert fault["landed"] == "no"
    assert "never went down" in fault["injector"]["detail"]


class OnlyServer(Restart):
    """The server is killed, its node stays up."""

    async def take_down(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await etcd(ctx).kill(names)


def test_a_server_killed_is_no_node_restarted(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=OnlyServer(), options=(*OPTIONS, "scope=one"))
    assert "never went down" in assert_not_proven(done)["injector"]["detail"]


class Reversed(Restart):
    """Somebody starts the nodes again in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes", record
            LAB.boot(ctx.lab.lab_id, record.targets)
        return await super().recheck(ctx, record)


def test_started_again_in_mid_window(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Reversed(), options=(*OPTIONS, "scope=one"))
    fault = assert_not_proven(done)
    assert fault["landed"] == "ambiguous"
    assert any("was started again" in note for note in fault["notes"])


class Elsewhere(Restart):
    """Another node than the target goes down."""

    async def take_down(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await super().take_down(ctx, [n for n in ctx.nodes if n not in names][:1])

    async def bring_up(self, ctx: NemesisContext, names: Sequence[str]) -> None:
        await super().bring_up(ctx, list(ctx.nodes))


def test_the_wrong_node(lab: LabInfo, tmp_path: Path) -> None:
    options = (*OPTIONS, "targets=n5")
    done = run_here(lab, tmp_path, nemesis=Elsewhere(), options=options)
    assert done.exit_code != Exit.PASS
    (fault,) = faults_of(done.path)
    assert fault["landed"] != "yes"


def test_kill_9_of_ours_while_a_node_is_down(lab: LabInfo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", "restart", "--time-limit", "60", "-o", "fault_s=30"),
        *("-o", "scope=minority", "--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )
    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 90)
    assert list(LAB.boots(lab.lab_id).values()).count(None) == 2
    process.kill()
    process.wait(timeout=10)
    wait_for("nodes started without us", lambda: None not in LAB.boots(lab.lab_id).values(), 40)

    def servers() -> int:
        async def ask(nodes: dict[str, Any]) -> int:
            script = f"read -r pid _ <{PIDFILE} && grep -qx etcd /proc/$pid/comm"
            found = [await n.run(["sh", "-c", script], check=False) for n in nodes.values()]
            return [row.status for row in found].count(0)

        try:
            found: int = on_nodes(lab, ask)
        except LabError:  # a node whose sshd is not up yet
            return 0
        return found

    wait_for("servers started without us", lambda: servers() == 5, 40)
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")


def test_a_node_lost_to_somebody_else_ends_the_run(lab: LabInfo, tmp_path: Path) -> None:
    """Only what a fault has down on purpose may be silent."""
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", "none", "--time-limit", "40"),
        *("--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )
    wait_for("load", lambda: "load   " in log.read_text(), 60)
    from_outside(lab, "n3", "lxc-stop", "-k")
    assert process.wait(timeout=120) == Exit.HARNESS
    assert "n3 is lost" in log.read_text()
    LAB.boot(lab.lab_id, ["n3"])
