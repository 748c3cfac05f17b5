"""Compaction on a real etcd: all members drop versions under load, and keep one state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import (
    deployed,
    healed_by_all,
    killed_in_mid_fault,
    landed_and_healed,
    not_proven,
    run_here,
)

from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.member.compaction import NEMESIS, Compaction

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


@pytest.mark.parametrize("workload", ["register", "watch"])
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, workload: str) -> None:
    done = run_here(
        lab, tmp_path, nemesis=NEMESIS, options=OPTIONS, time_limit_s=22.0, workload=workload
    )
    fault = landed_and_healed(done)
    assert set(fault["facts"]["old_reads_before"].values()) == {"served"}
    assert all(fault["facts"]["served_meanwhile"].values())


class Nothing(Compaction):
    """Compacts to where the cluster has been compacted to already, at best: nothing is dropped."""

    async def compact(self, ctx: NemesisContext, revision: int) -> None:
        await super().compact(ctx, 2)


def test_nothing_to_compact(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Nothing(), options=OPTIONS, time_limit_s=22.0)
    assert "dropped nothing" in not_proven(done)["victim"]["detail"]


class Silent(Compaction):
    """Asks for nothing."""

    async def compact(self, ctx: NemesisContext, revision: int) -> None:
        return None


def test_no_compaction(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Silent(), options=OPTIONS, time_limit_s=22.0)
    assert not_proven(done)["landed"] == "no"


def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    """A compaction needs nobody to end it; the members agree afterwards."""

    async def agree(deployment: Any) -> bool:
        head = min((await deployment.revisions()).values())
        hashes = await deployment.hashes(head)
        return None not in hashes.values() and len(set(hashes.values())) == 1

    args = ("--nemesis", "compaction", "-o", "fault_s=30")
    killed_in_mid_fault(lab, tmp_path, args, lambda: healed_by_all(lab), 30)
    assert deployed(lab, agree)
