"""Two members of a real etcd claim to lead at once, or the attempt does not count."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import (
    CALM,
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
from dstest.core.verdict import State
from nemeses.network.split_brain import NEMESIS, SplitBrain
from nemeses.tools import nft

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


def test_two_claim_to_lead(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=OPTIONS)
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "yes", fault
    assert fault["heal_verified"], fault["notes"]
    assert done.verdict is not None
    assert not done.verdict.verdict.failed
    found = fault["facts"]["rivals"]
    assert found["old"] == fault["targets"][0] != found["new"]
    assert found["at_ns"] <= found["until_ns"]
    assert fault["facts"]["new_term"] > fault["facts"]["term_before"]
    assert fault_tables(lab) == []


class NoSecond(SplitBrain):
    """The network is mended before anybody else can be elected."""

    async def apply_to(
        self, ctx: NemesisContext, record: LandingRecord, name: str, sources: object
    ) -> None:
        pass


@pytest.mark.parametrize("kind", ["wrong chain", "no cut"])
def test_one_leader_only(lab: LabInfo, tmp_path: Path, kind: str) -> None:
    nemesis = NoSecond() if kind == "no cut" else SplitBrain(hook="forward")
    done = run_here(lab, tmp_path, nemesis=nemesis, options=(*OPTIONS, "rounds=1"))
    assert done.verdict is not None, done
    assert done.verdict.verdict is State.INCONCLUSIVE_FAULT, done.verdict.reason
    assert done.exit_code == Exit.NOT_PROVEN
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "no"
    assert fault["facts"]["rivals"] is None


class Undone(SplitBrain):
    """Somebody else removes the rules of one node in the middle of the window."""

    async def recheck(self, ctx: NemesisContext, record: LandingRecord) -> LandingRecord:
        if not record.facts["rechecks"]:
            assert record.landed == "yes"
            await nft.delete(ctx.node(record.facts["affected"][0]), nft.FAULT_TABLE)
        return await super().recheck(ctx, record)


def test_rules_removed_in_mid_window(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Undone(), options=OPTIONS)
    assert done.exit_code == Exit.NOT_PROVEN
    (fault,) = faults_of(done.path)
    assert fault["landed"] == "ambiguous"


def test_kill_9_of_ours(lab: LabInfo, tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start(
        log,
        *(*CALM, "--nemesis", "split-brain", "--time-limit", "60", "-o", "fault_s=30"),
        *("--lab-id", lab.lab_id, "--store", tmp_path / "store"),
    )
    wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 90)
    assert fault_tables(lab)
    process.kill()
    process.wait(timeout=10)
    assert wait_for("healing without us", lambda: not fault_tables(lab), 15) <= 15
    run = latest(tmp_path / "store")
    assert dstest("recover", run).returncode == Exit.NOT_PROVEN
    assert not verdict_of(run)["verdict"].startswith("PASS")
