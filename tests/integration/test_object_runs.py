"""Single objects on real etcd: guarded ones pass under partitions, unguarded ones are caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from busy import assert_passed
from runs import run_here

from dstest.core.node import LabInfo
from nemeses.none import NoNemesis

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.long
@pytest.mark.parametrize("workload", ["queue", "bank-replicas", "watch"])
def test_they_pass_under_partition(lab: LabInfo, tmp_path: Path, workload: str) -> None:
    done = run_here(lab, tmp_path, workload=workload, rate=None)
    assert_passed(done)
    assert all(result["valid"] is True for result in done.verdict.checkers.values())
    canary = done.verdict.evidence.checker
    assert canary.canary_killed == canary.canary_total > 0


def test_without_guards_the_run_ends_at_the_violation(lab: LabInfo, tmp_path: Path) -> None:
    done = run_here(
        lab, tmp_path, workload="counter", nemesis=NoNemesis(), time_limit_s=60.0,
        stop_on_violation=True, rate=None, options=("guard=none",),
    )  # fmt: skip
    assert done.exit_code == 1, done.verdict.reason
    types = {t for result in done.verdict.checkers.values() for t in result["anomaly_types"]}
    assert "lost-increment" in types
    assert done.verdict.evidence.budget.measured["duration_s"] < 55
