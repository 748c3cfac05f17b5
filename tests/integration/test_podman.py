"""The lab that podman makes: a whole run on it, and nothing of it stays, however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from busy import assert_code
from runs import CALM, dstest, faults_of, latest, start, wait_for

from clusters.labs import host, hostcheck, network, podman_host, podman_machines, state
from clusters.labs.image import shared_packages
from clusters.labs.podman import LAB
from dstest.core.errors import LabError
from dstest.core.node import LabInfo

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="making nodes needs root"),
    pytest.mark.skipif(shutil.which("podman") is None, reason="podman is not installed"),
    pytest.mark.timeout(300),
]

FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


@pytest.fixture(scope="module", autouse=True)
def _can() -> None:
    try:
        hostcheck.trial()
    except LabError as error:
        pytest.skip(f"podman cannot run nodes here: {error.message}")


@pytest.fixture
def lab_id() -> Iterator[str]:
    name = f"podman-{os.getpid()}"
    yield name
    LAB.down(name)


def traces(lab_id: str) -> list[str]:
    """What is on this host of a lab."""
    folder, tag = state.lab_dir(lab_id), state.tag_of(lab_id)
    left = [f"process {pid}" for pid in podman_host.helpers(folder)]
    left += [f"process {pid}" for pid in podman_host.firsts(folder)]
    left += [f"link {name}" for name in network.lab_links() if name.startswith(tag)]
    left += [f"mount {point}" for point in host.mounts_below(folder)]
    left += [f"cgroup {path}" for path in podman_machines._groups(tag)]
    return left + ([str(folder)] if folder.exists() else [])


def named_spaces() -> set[str]:
    folder = Path("/run/netns")
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def test_the_main_job_on_nodes_of_podman(tmp_path: Path) -> None:
    """Made for the run and removed after it; this host forwards no more than before."""
    forwards, spaces = FORWARD.read_text(), named_spaces()
    words = ("--lab", "podman", "--nodes", "3", "--nemesis", "partition,kill")
    more = ("-o", "fault_s=4", "-o", "quiet_s=2", "--time-limit", "22", "--seed", "7")
    done = dstest(*CALM, *words, *more, "--store", tmp_path, timeout_s=200)
    assert_code(done.returncode, latest(tmp_path), done.stderr)
    run = latest(tmp_path)
    facts = json.loads((run / "run.json").read_text())
    assert facts["lab"] == "podman"
    faults = faults_of(run)
    assert {fault["nemesis"] for fault in faults} == {"partition", "kill"}
    assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in faults)
    assert not any(facts["residue"].values())
    assert traces(facts["lab_id"]) == []
    assert (FORWARD.read_text(), named_spaces()) == (forwards, spaces)


def test_a_node_keeps_its_address_and_its_disk(lab_id: str) -> None:
    LAB.up(lab_id, 2, packages=shared_packages())
    said = dstest("lab", "exec", "--lab-id", lab_id, "--", "echo kept >/root/x; sync; ip -br a")
    before = LAB.boots(lab_id)
    LAB.cut(lab_id, ["n2"])
    assert LAB.boots(lab_id)["n2"] is None
    assert LAB.status(lab_id) is None
    assert "node n2 does not run" in LAB.examine(lab_id)
    LAB.boot(lab_id, ["n2"])
    after = LAB.boots(lab_id)
    assert after["n1"] == before["n1"]
    assert after["n2"] not in (None, before["n2"])
    again = dstest("lab", "exec", "--lab-id", lab_id, "--", "cat /root/x; ip -br a")
    lines = [line.split()[2:] for line in said.stdout.splitlines() if line.startswith("eth0")]
    assert [row.split()[2:] for row in again.stdout.splitlines() if row[:4] == "eth0"] == lines
    assert again.stdout.count("kept") == 2
    key = state.lab_dir(lab_id) / "id_ed25519"
    assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("moment", ["prepared", "running"])
def test_what_a_killed_process_leaves_is_collected(
    tmp_path: Path, lab_id: str, moment: str
) -> None:
    """kill -9 while containers are made, and while they run."""
    spec = ("--lab", "podman", "--nodes", "3", "--lab-id", lab_id, "--store", tmp_path)
    run = start(tmp_path / "log", *CALM, *spec, "--nemesis", "none", "--time-limit", "60")
    store = state.lab_dir(lab_id) / "podman"
    try:
        if moment == "prepared":
            wait_for("store", (store / "storage" / "overlay").is_dir, 60)
        else:
            wait_for("load", lambda: "[load]" in (tmp_path / "log").read_text(), 60)
        os.killpg(run.pid, signal.SIGKILL)
    finally:
        run.wait(30)
    assert state.lab_dir(lab_id).is_dir()
    assert any(what.startswith(f"{lab_id}: ") for what in LAB.gc())
    assert traces(lab_id) == []


def test_a_killed_monitor_does_not_hide_its_container(lab_id: str) -> None:
    LAB.up(lab_id, 1, packages=shared_packages())
    monitors = podman_host.helpers(state.lab_dir(lab_id))
    assert monitors
    for pid in monitors:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    assert LAB.status(lab_id) is not None
    assert [name for _, name in podman_machines.monitors(lab_id).values()] == [
        f"{state.tag_of(lab_id)}-n1"
    ]
    removed = LAB.down(lab_id)
    assert any(what.startswith("container ") for what in removed)
    assert traces(lab_id) == []


def test_other_containers_on_this_host_are_not_seen(lab_id: str) -> None:
    LAB.up(lab_id, 1, packages=shared_packages())
    listed = subprocess.run(
        ["podman", "ps", "--all", "--format", "{{.Names}}"],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    assert state.tag_of(lab_id) not in listed.stdout


def test_nodes_of_other_kinds_are_none_of_its_own(lab: LabInfo) -> None:
    """They stand on overlays in the same directory."""
    assert lab.lab_id not in {owner for owner, _ in podman_machines.monitors().values()}
    assert lab.lab_id not in LAB.list()


def test_the_doctor_tries_it_and_leaves_nothing() -> None:
    done = dstest("doctor", "--json")
    (row,) = [one for one in json.loads(done.stdout) if one["name"] == "podman"]
    assert row["ok"], row
    assert "a container ran" in row["detail"]
    # Another process may be trying it right now.
    wait_for("end", lambda: not list(state.root_dir().glob(".dstest-podman-*")), 30)
