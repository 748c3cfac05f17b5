"""Transactions on real etcd: guarded ones are strictly serializable, unguarded ones are caught."""

from __future__ import annotations

from pathlib import Path

import pytest
from busy import assert_passed
from runs import SHORT, SHORT_S, run_here

from dstest.core.node import LabInfo
from nemeses.none import NoNemesis

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

LONG = pytest.mark.long


@pytest.mark.parametrize("workload", ["list-append", pytest.param("rw-register", marks=LONG)])
def test_guarded_transactions_pass_under_partition(
    lab: LabInfo, tmp_path: Path, workload: str
) -> None:
    done = run_here(lab, tmp_path, workload=workload, rate=None)
    assert_passed(done)
    result = done.verdict.checkers[workload]
    assert result["valid"] is True
    assert result["model"] == "strict-serializable"
    canary = done.verdict.evidence.checker
    assert canary.canary_killed == canary.canary_total > 0


@pytest.mark.parametrize(
    ("workload", "guard"),
    [
        pytest.param("list-append", "none", marks=LONG),
        pytest.param("rw-register", "written", marks=LONG),
        pytest.param("list-append", "written", marks=LONG),
        pytest.param("rw-register", "none", marks=LONG),
    ],
)
def test_missing_guards_are_caught(lab: LabInfo, tmp_path: Path, workload: str, guard: str) -> None:
    done = run_here(
        lab, tmp_path, workload=workload, nemesis=NoNemesis(), rate=None,
        time_limit_s=SHORT_S, stop_on_violation=True,
        options=(f"guard={guard}", "key_count=3", "key_dist=uniform", "txn_length_min=2"),
    )  # fmt: skip
    assert done.exit_code == 1, done.verdict.reason
    result = done.verdict.checkers[workload]
    assert result["anomaly_types"]
    if workload == "list-append" and guard == "none":
        assert set(result["anomaly_types"]) & {"lost-update", "incompatible-order"}


@pytest.mark.long
def test_stale_reads_break_strictness_alone(lab: LabInfo, tmp_path: Path) -> None:
    options = (*SHORT, "reads=serializable", "shape=one", "direction=both")
    done = run_here(lab, tmp_path, workload="list-append", options=options, rate=None)
    assert done.exit_code == 1, done.verdict.reason
    types = done.verdict.checkers["list-append"]["anomaly_types"]
    assert types
    assert all(name.endswith("-realtime") for name in types), types
    assert SHORT
