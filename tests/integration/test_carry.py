"""What a simulation has found, looked for on real nodes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from clusters.systems.toykv.bugs import BUGS
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.replay import carry, carrying
from dstest.runner.screen import Progress, Quiet
from dstest.runner.session import run_session

pytestmark = [pytest.mark.lab, pytest.mark.selftest, pytest.mark.timeout(400)]


@pytest.mark.parametrize("name", ["sequence-reuse", "stale-follower-read"])
def test_the_violation_of_a_simulation_comes_again_on_nodes(
    lab: LabInfo, tmp_path: Path, name: str
) -> None:
    bug = BUGS[name]
    spec = RunSpec(
        system="toykv",
        lab="sim",
        workload=bug.workload,
        nemesis=bug.nemesis,
        time_limit_s=bug.time_limit_s,
        seed=1,
    )
    plugins = resolve(spec, [*bug.options, f"bug={name}"])
    found = run_session(plugins, store=tmp_path, ui=Progress(io.StringIO()))
    assert found.exit_code == Exit.FAIL, found.verdict.reason
    asked = carrying(found.path, lab.kind, None)
    (done,), came = carry(asked, 1, store=tmp_path / "nodes", lab_id=lab.lab_id, ui=Quiet())
    assert (came.again, done.exit_code) == (1, Exit.FAIL), done.verdict.reason
    evidence = done.verdict.evidence
    assert evidence.transport == "network"
    assert [fault.landed for fault in evidence.faults] == ["yes"] * len(asked.plugins.plans)
