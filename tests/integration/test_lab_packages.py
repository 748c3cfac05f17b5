"""Packages of a system from a user's own file are on the nodes of its runs, and of no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from busy import assert_code
from runs import CALM, SHORT, SHORT_S, dstest, faults_of, latest, verdict_of

from clusters.labs.lxc import LAB
from dstest.core.errors import Exit

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(600)]

BEANSTALKD = Path(__file__).with_name("beanstalkd_system.py")


@pytest.mark.usefixtures("own_labs")
def test_a_lab_has_the_packages_of_the_system_of_the_run(tmp_path: Path) -> None:
    own, store = ("--system", BEANSTALKD), tmp_path / "store"
    run = (*CALM, *own, "--workload", "queue", "--store", store, "--seed", "3")
    assert dstest("lab", "up", "--lab-id", "b-shared", "--nodes", "1").returncode == 0
    refused = dstest(*run, "--lab-id", "b-shared", "--nodes", "1", "--nemesis", "none")
    assert refused.returncode == Exit.HARNESS
    assert "lab b-shared is up without beanstalkd, which beanstalkd needs" in refused.stderr
    assert not store.exists()

    # The image, where this host has not made it yet, is what takes minutes.
    up = dstest("lab", "up", "--lab-id", "b-own", *own, timeout_s=500.0)
    assert up.returncode == 0, up.stderr
    info = LAB.status("b-own")
    assert info is not None
    assert info.facts["packages"] == ["beanstalkd"]
    shared = LAB.status("b-shared")
    assert shared is not None
    assert shared.facts["image"] != info.facts["image"]
    ssh = ("lab", "ssh", "n1", "--lab-id")
    assert dstest(*ssh, "b-own", "--", "command", "-v", "beanstalkd").returncode == 0
    assert dstest(*ssh, "b-shared", "--", "command", "-v", "beanstalkd").returncode != 0
    dstest("lab", "down", "--lab-id", "b-shared")

    options = [part for option in SHORT for part in ("-o", option)]
    kill = ("--nemesis", "kill", "--time-limit", str(SHORT_S), *options)
    done = dstest(*run, *kill, "--lab-id", "b-own")
    assert_code(done.returncode, latest(store), done.stdout + done.stderr)
    assert verdict_of(latest(store))["verdict"] == "PASS-smoke"
    assert [record["landed"] for record in faults_of(latest(store))] == ["yes"]
