"""Packet loss on a real etcd: the share that was asked for, on both sides, or it did not land."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from busy import assert_passed
from runs import (
    CALM,
    assert_not_proven,
    dstest,
    fault_tables,
    faults_of,
    latest,
    run_here,
    start,
    verdict_of,
    wait_for,
)

from dstest.core.errors import Exit
from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.network.loss import NEMESIS, Loss
from nemeses.tools import nft

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=6", "quiet_s=8", "shape=halves", "direction=both")


def test_the_share_asked_for_is_lost(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=(*OPTIONS, "loss_percent=20"))
    (fault,) = faults_of(done.path)
    assert_passed(done, fault)
    assert fault["landed"] == "yes"
    assert fault["heal_verified"]
    assert abs(fault["facts"]["measured_share"] - 0.2) < 0.06
    arrived = [n for pair in fault["victim"]["during"].values() for n in pair]
    assert abs(sum(arrived) / (100 * len(arrived)) - 0.8) < 0.04
    assert all(min(pair) >= 95 for pair in fault["victim"]["after"].values())
    assert all(min(pair) >= 95 for pair in fault["control"]["during"].values())


def test_rules_in_the_wrong_chain(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Loss(hook="forward"), options=OPTIONS)
    assert assert_not_proven(done)["landed"] == "no"


class TooLittle(Loss):
    """Loses a third of what was asked for."""

    def rules(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: Sequence[str]
    ) -> str:
        infos = [ctx.node(source).info for source in sources]
        return nft.loss_rules(infos, ctx.lab, record.facts["share"] / 3)


def test_less_is_lost_than_asked_for(lab: LabInfo, tmp_path: Path) -> None:
    options = (*OPTIONS, "loss_percent=40")
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=TooLittle(), options=options))
    assert 0 < fault["facts"]["measured_share"] < 0.25


class Undone(Loss):
    """Somebody else removes the rules of one node in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            await nft.delete(ctx.node(record.facts["affected"][0]), nft.FAULT_TABLE)
        return await super().recheck(ctx, record)


def test_rules_removed_in_mid_window(lab: LabInfo, tmp_path: Path) -> None:
    fault = assert_not_proven(run_here(lab, tmp_path, nemesis=Undone(), options=OPTIONS))
    assert any("vanished" in note for note in fault["notes"])


def test_kill_9_of_ours_in_mid_loss(lab: LabInfo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", "loss", "--time-limit", "60", "-o", "fault_s=30"),
        *("--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )
    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 60)
    assert fault_tables(lab)
    process.kill()
    process.wait(timeout=10)
    assert wait_for("healing without us", lambda: not fault_tables(lab), 15) <= 15
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")
