"""Faults of the disk on real servers that survive them: refusing, waiting, slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runs import CALM, dstest, faults_of, latest, verdict_of

from dstest.core.node import LabInfo

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

SYSTEM = Path(__file__).with_name("survivor_system.py")


WRONG_DISK = """
import errno
import msgspec
from nemeses.disk.disk_error import DiskErrorFault

class Elsewhere(DiskErrorFault):
    async def apply(self, ctx, record):
        other = next(n for n in ctx.nodes if n not in record.targets)
        await super().apply(ctx, msgspec.structs.replace(record, targets=[other]))

    async def revert(self, ctx, record):
        await super().revert(ctx, msgspec.structs.replace(record, targets=list(ctx.nodes)))

NEMESIS = Elsewhere(
    "wrong-disk", "N16", "another disk", "write_errno", errno.ENOSPC, "refused_writes", "refused"
)
"""


def run(lab: LabInfo, store: Path, nemesis: str | Path, *options: str) -> dict[str, Any]:
    """The landing record of a run's only fault. What the registers show must be clean."""
    told = [part for option in ("fault_s=5", "quiet_s=8", *options) for part in ("-o", option)]
    done = dstest(
        *CALM, "--system", SYSTEM, "--workload", "register", "--nemesis", nemesis,
        "--store", store, "--lab-id", lab.lab_id, "--time-limit", "25", "--seed", "5", *told,
    )  # fmt: skip
    assert verdict_of(latest(store))["checkers"]["linearizable"]["valid"] is True, done.stderr
    fault: dict[str, Any] = faults_of(latest(store))[0]
    return fault


@pytest.mark.parametrize("nemesis", ["disk-full", "fsync-error", "io-error"])
@pytest.mark.parametrize("waits", [False, True], ids=["refuses", "waits"])
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, nemesis: str, waits: bool) -> None:
    fault = run(lab, tmp_path, nemesis, "scope=minority", f"waits={str(waits).lower()}")
    assert fault["landed"] == "yes", (fault["notes"], fault)
    assert fault["heal_verified"], fault["notes"]
    assert set(fault["facts"]["fates"].values()) <= {"refusing", "waiting"}
    assert "runs" in fault["injector"]["detail"]
    assert any(count > 0 for count in fault["victim"]["during"].values())


def test_the_disk_of_a_server_that_was_not_meant(lab: LabInfo, tmp_path: Path) -> None:
    nemesis = tmp_path / "wrong_disk.py"
    nemesis.write_text(WRONG_DISK)
    fault = run(lab, tmp_path / "store", nemesis, "scope=one")
    assert fault["landed"] == "no", fault
    assert "refuses nothing" in fault["injector"]["detail"]
    assert "fare as before" in fault["victim"]["detail"]


def test_slow_syncs_are_sampled(lab: LabInfo, tmp_path: Path) -> None:
    fault = run(lab, tmp_path, "slow-disk", "scope=one")
    assert fault["landed"] == "yes", (fault["notes"], fault)
    assert fault["heal_verified"], fault["notes"]
    assert "by samples" in fault["victim"]["signal"]
