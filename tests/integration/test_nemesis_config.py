"""One member of a real etcd with other settings than the rest, and all alike again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from runs import deployed, killed_in_mid_fault, landed_and_healed, not_proven, run_here

from clusters.systems.etcd.admin import QUOTA_BYTES
from dstest.core.node import LabInfo
from dstest.core.protocols import NemesisContext
from nemeses.member.config import NEMESIS, Config

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

OPTIONS = ("fault_s=4", "quiet_s=8")


def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=NEMESIS, options=OPTIONS, time_limit_s=24.0)
    facts = landed_and_healed(done)["facts"]
    assert sorted(facts["settings"].values())[-2:] == [2 << 30, QUOTA_BYTES]


class Unwritten(Config):
    """The member is restarted and has what all others have."""

    async def configure(self, ctx: NemesisContext, name: str, flags: Sequence[str]) -> None:
        return None


def test_settings_that_are_the_same(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Unwritten(), options=OPTIONS, time_limit_s=24.0)
    assert not_proven(done)["landed"] == "no"


class Ignored(Config):
    """Another quota and nothing else: it reads back and changes nothing."""

    async def configure(self, ctx: NemesisContext, name: str, flags: Sequence[str]) -> None:
        await super().configure(ctx, name, flags[:1])


def test_settings_that_change_nothing(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(lab, tmp_path, nemesis=Ignored(), options=OPTIONS, time_limit_s=24.0)
    assert not_proven(done)["landed"] == "ambiguous"


def test_kill_9_of_ours_in_mid_fault(lab: LabInfo, tmp_path: Path) -> None:
    def alike() -> bool:
        quotas = deployed(lab, lambda deployment: deployment.settings())
        return len(set(quotas.values())) == 1 and None not in quotas.values()

    killed_in_mid_fault(lab, tmp_path, ("--nemesis", "config", "-o", "fault_s=30"), alike, 30)
