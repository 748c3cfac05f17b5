"""Members of a real etcd are removed and join anew; without us their own nodes see to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs import deployed, etcd, killed_in_mid_fault, landed_and_healed, not_proven, run_here

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.member.membership import NEMESIS, Membership

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


@pytest.mark.parametrize(
    ("scope", "join"), [("one", "voter"), ("primaries", "learner")], ids=["voter", "leader"]
)
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, scope: str, join: str) -> None:
    options = (*OPTIONS, f"scope={scope}", f"join={join}")
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=options, time_limit_s=24.0)
    fault = landed_and_healed(done)
    (target,) = fault["targets"]
    assert (fault["facts"]["leader_before"] == target) or scope == "one"
    assert {len(row) for n, row in fault["facts"]["members"].items() if n != target} == {4}


class OnlyKilled(Membership):
    """The server is killed and stays a member."""

    async def apply(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await etcd(ctx).kill(record.targets)


def test_a_member_that_was_only_killed(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=OnlyKilled(), options=OPTIONS, time_limit_s=24.0)
    assert "still lists" in not_proven(done)["injector"]["detail"]


def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    def whole() -> bool:
        listed = deployed(lab, lambda deployment: deployment.listed())
        return all(row and len(row) == 5 for row in listed.values())

    args = ("--nemesis", "membership", "-o", "fault_s=30", "-o", "join=voter")
    killed_in_mid_fault(lab, tmp_path, args, whole, 45)
