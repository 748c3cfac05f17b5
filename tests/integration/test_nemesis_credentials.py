"""A member of a real etcd with another secret than the rest refuses its clients, it alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from runs import deployed, etcd, killed_in_mid_fault, landed_and_healed, not_proven, run_here

from dstest.core.evidence import LandingRecord
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.member.credentials import NEMESIS, Credentials

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8", "auth=true")


@pytest.mark.parametrize("workload", ["register", "list-append", "watch"])
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, workload: str) -> None:
    done = run_here(
        lab, tmp_path, nemesis=NEMESIS, options=OPTIONS, time_limit_s=24.0, workload=workload
    )
    fault = landed_and_healed(done)
    (target,) = fault["targets"]
    refusing = {n for n, why in fault["facts"]["refuses"].items() if why}
    assert refusing == {target}


class SameSecret(Credentials):
    """The member is restarted with the secret that it had."""

    async def rotate(self, ctx: NemesisContext, name: str) -> None:
        await etcd(ctx).bounce(name)


def test_a_rotation_that_was_none(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=SameSecret(), options=OPTIONS, time_limit_s=24.0)
    assert not_proven(done)["landed"] == "no"


class Everywhere(Credentials):
    """All members get the other secret, which is no divergence."""

    async def rotate(self, ctx: NemesisContext, name: str) -> None:
        for other in ctx.nodes:
            await super().rotate(ctx, other)

    async def revert(self, ctx: NemesisContext, record: LandingRecord) -> None:
        await super().revert(ctx, msgspec.structs.replace(record, targets=list(ctx.nodes)))


def test_a_rotation_of_all(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Everywhere(), options=OPTIONS, time_limit_s=24.0)
    assert not_proven(done)["control"]["moved"]


def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    def all_take_it() -> bool:
        said = deployed(lab, lambda deployment: deployment.refused_tokens(), auth=True)
        return not any(said.values())

    args = ("--nemesis", "credentials", "-o", "fault_s=30", "-o", "auth=true")
    killed_in_mid_fault(lab, tmp_path, args, all_take_it, 30)
