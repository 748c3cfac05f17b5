"""A fault and a workload from files of the user's own: a real run, judged with those files only."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from busy import assert_code
from runs import CALM, SHORT, SHORT_S, dstest, faults_of, latest

from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.core.registry import FILES

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

FAULT = """
from nemeses.network.partition import Partition

class Mine(Partition):
    name = "my-partition"

NEMESIS = Mine()
"""

WORKLOAD = """
from workloads.register import RegisterWorkload

class Mine(RegisterWorkload):
    def __init__(self):
        super().__init__(cas=False)
        self.name = "my-register"

WORKLOAD = Mine()
"""


def test_a_run_and_its_judgement(lab: LabInfo, tmp_path: Path) -> None:
    fault, load, store = tmp_path / "fault.py", tmp_path / "load.py", tmp_path / "store"
    fault.write_text(FAULT)
    load.write_text(WORKLOAD)
    options = [part for option in (*SHORT, "shape=one") for part in ("-o", option)]
    done = dstest(
        *CALM, "--workload", load, "--nemesis", fault, "--seed", "3", "--store", store,
        "--lab-id", lab.lab_id, "--time-limit", str(SHORT_S), *options,
    )  # fmt: skip
    assert_code(done.returncode, latest(store), done.stdout + done.stderr)
    run = latest(store)
    assert run.parent.name == "etcd-my-register-my-partition"
    (record,) = faults_of(run)
    assert (record["nemesis"], record["landed"]) == ("my-partition", "yes")
    assert f"--plugin {fault}" in done.stdout
    assert (run / "plugins" / "fault.py").read_text() == FAULT
    facts = json.loads((run / "run.json").read_text())
    assert facts["plugin_files"].keys() == {str(fault), str(load)}
    assert "heal proven" in (run / "run.log").read_text()

    shown = dstest("report", run)
    assert shown.returncode == 0, shown.stderr
    again = dstest("report", "--deep", run)
    assert again.returncode == Exit.USAGE, "a run directory has no file run unasked"
    assert "and no such file is in use as it was" in again.stderr
    own = {**os.environ, FILES: os.pathsep.join(map(str, (fault, load)))}
    again = dstest("report", "--deep", run, env=own)
    assert again.returncode == 0, again.stderr
    fault.write_text(FAULT + "\n# edited since\n")
    assert dstest("report", "--deep", run, env=own).returncode == Exit.USAGE
    copies = os.pathsep.join(str(run / "plugins" / name) for name in ("fault.py", "load.py"))
    again = dstest("report", "--deep", run, env={**os.environ, FILES: copies})
    assert again.returncode == 0, again.stderr
