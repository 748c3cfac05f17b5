"""The lab that Vagrant makes: a whole run on it, and nothing of it stays, however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from busy import assert_code
from runs import CALM, dstest, faults_of, latest, start

from clusters.labs import network, state, vagrant_machines
from clusters.labs.vagrant import LAB
from dstest.core.errors import ConfigError, Exit
from dstest.core.node import LabInfo

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="making nodes needs root"),
    pytest.mark.skipif(shutil.which("vagrant") is None, reason="vagrant is not installed"),
    pytest.mark.timeout(600),
]


def traces(lab_id: str) -> list[str]:
    """What is on this host of a lab."""
    left = [f"{pid} {name}" for pid, (_, name) in vagrant_machines.monitors(lab_id).items()]
    left += [name for name in os.listdir("/var/lib/lxc") if name.startswith(state.tag_of(lab_id))]
    left += [link for link in network.lab_links() if link.startswith(state.tag_of(lab_id))]
    return left + ([str(state.lab_dir(lab_id))] if state.lab_dir(lab_id).exists() else [])


def wait_for(what: str, there: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not there():
        assert time.monotonic() < deadline, f"no {what} within {timeout_s:g} s"
        time.sleep(0.1)


def test_the_main_job_on_nodes_of_vagrant(tmp_path: Path) -> None:
    """Made for the run and removed after it; it logs in as a user who may use sudo."""
    words = ("--lab", "vagrant", "--nodes", "3", "--nemesis", "partition")
    more = ("-o", "fault_s=4", "-o", "quiet_s=8", "--time-limit", "21", "--seed", "7")
    done = dstest(*CALM, *words, *more, "--store", tmp_path, timeout_s=500)
    assert_code(done.returncode, latest(tmp_path), done.stderr)
    run = latest(tmp_path)
    facts = json.loads((run / "run.json").read_text())
    assert facts["lab"] == "vagrant"
    faults = faults_of(run)
    assert {fault["nemesis"] for fault in faults} == {"partition"}
    assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in faults)
    assert not any(facts["residue"].values())
    assert traces(facts["lab_id"]) == []


def test_a_lab_that_died_while_vagrant_made_it_is_removed(tmp_path: Path) -> None:
    lab_id = "vagrant-dies"
    packages = ("lab", "up", "--lab", "vagrant", "--system", "etcd", "--nodes", "2")
    log, here = tmp_path / "log", sorted(os.listdir())
    making = start(log, *packages, "--lab-id", lab_id)
    try:
        wait_for("container", lambda: bool(vagrant_machines._names(lab_id)), 300)
        os.killpg(making.pid, signal.SIGKILL)
    finally:
        making.wait(30)
    # What Vagrant had started goes on for a while.
    wait_for(
        "end of Vagrant", lambda: dstest("lab", "gc").returncode == 0 and not traces(lab_id), 90
    )
    assert dstest("lab", "status", "--lab-id", lab_id).returncode == Exit.HARNESS
    assert sorted(os.listdir()) == here


@pytest.mark.selftest
def test_up_again_uses_it_and_another_kind_may_not(tmp_path: Path) -> None:
    lab_id = "vagrant-up"
    up = ("lab", "up", "--system", "etcd", "--nodes", "2", "--lab-id", lab_id)
    try:
        assert dstest(*up, "--lab", "vagrant", timeout_s=400).returncode == 0
        again = dstest(*up)
        assert f"lab {lab_id} is running: reused" in again.stderr
        other = dstest(*up, "--lab", "lxc")
        assert other.returncode == Exit.USAGE
        assert f"lab {lab_id} is of kind vagrant" in other.stderr
        listed = json.loads(dstest("lab", "list", "--json").stdout)
        assert {"lab_id": lab_id, "kind": "vagrant", "state": "running"} in listed
        said = dstest("lab", "ssh", "--lab-id", lab_id, "n2", "--", "cat", "/etc/dstest-lab")
        assert said.stdout.strip() == lab_id
    finally:
        done = dstest("lab", "down", "--lab-id", lab_id)
    assert done.returncode == 0, done.stderr
    assert traces(lab_id) == []


def test_an_lxc_lab_keeps_its_id(lab: LabInfo) -> None:
    with pytest.raises(ConfigError, match="is of kind lxc"):
        LAB.up(lab.lab_id, 5, packages=[])
