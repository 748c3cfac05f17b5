"""toykv on real nodes: as it is it passes, and each bug is found by the run of its table."""

from __future__ import annotations

from pathlib import Path

import pytest
from busy import assert_passed

from clusters.systems.toykv.bugs import BUGS
from dstest.core.node import LabInfo
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import Finished, run_session

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(400)]

FAULTS = [
    ("register", "partition", ()),
    ("set", "kill", ()),
    ("lease", "pause", ("scope=primaries",)),
    ("set", "power", ("scope=all",)),
    ("ledger", "kill", ("scope=all",)),
    ("queue", "partition", ("shape=leader",)),
    ("list-append", "membership", ()),
]


def run_of(
    lab: LabInfo, store: Path, workload: str, nemesis: str, options: tuple[str, ...], limit_s: float
) -> Finished:
    spec = RunSpec(system="toykv", workload=workload, nemesis=nemesis, time_limit_s=limit_s, seed=1)
    return run_session(resolve(spec, list(options)), store=store, lab_id=lab.lab_id, ui=Quiet())


@pytest.mark.parametrize(("workload", "nemesis", "options"), FAULTS)
def test_it_passes(
    lab: LabInfo, tmp_path: Path, workload: str, nemesis: str, options: tuple[str, ...]
) -> None:
    done = run_of(lab, tmp_path, workload, nemesis, options, 30.0)
    assert_passed(done)
    assert all(result["valid"] is True for result in done.verdict.checkers.values())


@pytest.mark.parametrize("name", BUGS)
def test_each_bug_is_found(lab: LabInfo, tmp_path: Path, name: str) -> None:
    bug = BUGS[name]
    options = (*bug.options, f"bug={name}", f"members={bug.nodes}")
    done = run_of(lab, tmp_path, bug.workload, bug.nemesis, options, bug.time_limit_s)
    assert done.exit_code == 1, done.verdict.reason
    assert {*done.verdict.checkers[bug.checker]["anomaly_types"]} & {*bug.anomalies}
