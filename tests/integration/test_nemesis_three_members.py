"""Every fault on an etcd whose members are three of five nodes: the other two only look on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from runs import MUCH, SHORT, faults_of
from systems_table import faults_on

from dstest.core.node import LabInfo
from dstest.core.run_record import RunSpec
from dstest.runner.plugins import resolve
from dstest.runner.screen import Quiet
from dstest.runner.session import run_session

OTHER = os.environ.get("DSTEST_OTHER_ETCD", "")
MEMBERS = {"n1", "n2", "n3"}

OPTIONS = {
    "credentials": ("auth=true",),
    "mixed-versions": (f"other_build={OTHER}",),
    "upgrade": (f"other_build={OTHER}",),
}
"""What a fault cannot do without."""


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("nemesis", faults_on("etcd"))
def test_it_lands_and_heals(lab: LabInfo, tmp_path: Path, nemesis: str) -> None:
    if "other_build=" in OPTIONS.get(nemesis, ()):
        pytest.skip("DSTEST_OTHER_ETCD names no second build")
    wanted = RunSpec(nemesis=nemesis, time_limit_s=24.0, seed=11, rate=MUCH)
    plugins = resolve(wanted, [*SHORT, "members=3", *OPTIONS.get(nemesis, ())])
    done = run_session(plugins, store=tmp_path, lab_id=lab.lab_id, ui=Quiet())
    for fault in faults_of(done.path):
        told = (fault["notes"], fault["injector"], fault["victim"], fault["control"])
        assert fault["landed"] == "yes", told
        assert fault["heal_verified"], fault["notes"]
        assert set(fault["targets"]) <= MEMBERS
        assert not fault["residue"]
    assert faults_of(done.path)
    run = json.loads((done.path / "run.json").read_text())
    assert set(run["members"]) == MEMBERS
    assert not any(run["residue"].values()), run["residue"]
