"""Nodes that are virtual machines: kernels, clocks and disks of their own, and nothing stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import dstest, faults_of, latest, on_nodes, start, wait_for

from clusters.labs import network, state, vm_machines
from clusters.labs.vm import LAB
from clusters.labs.vm_boot import MORE_PACKAGES
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from nemeses.process import restart
from nemeses.tools import netem, node_clock

pytestmark = [
    pytest.mark.lab,
    pytest.mark.selftest,
    pytest.mark.skipif(os.geteuid() != 0, reason="making nodes needs root"),
    pytest.mark.skipif(shutil.which(vm_machines.QEMU) is None, reason="qemu is not installed"),
    pytest.mark.timeout(400),
]

LAB_ID = "v-nodes"
SYSTEM = ("--system", "etcd")
UP = ("lab", "up", "--lab", "vm", *SYSTEM)
SLOW = (
    *("-o", "heartbeat_ms=500", "-o", "election_ms=5000"),
    *("--concurrency", "6", "-o", "ops_per_key=20"),
)


def traces(lab_id: str) -> list[str]:
    """What is on this host of a lab."""
    tag = state.tag_of(lab_id)
    left = [f"{pid} {name}" for pid, (_, name) in vm_machines.monitors(lab_id).items()]
    left += [link for link in network.lab_links() if link.startswith(tag)]
    return left + ([str(state.lab_dir(lab_id))] if state.lab_dir(lab_id).exists() else [])


@pytest.fixture(scope="module")
def vms() -> Iterator[LabInfo]:
    try:
        done = dstest(*UP, "--nodes", "3", "--lab-id", LAB_ID, timeout_s=600)
        assert done.returncode == 0, done.stderr
        info = LAB.status(LAB_ID)
        assert info is not None
        yield info
    finally:
        gone = dstest("lab", "down", "--lab-id", LAB_ID)
    assert gone.returncode == 0, gone.stderr
    assert traces(LAB_ID) == []


def test_each_node_is_a_machine_of_its_own(vms: LabInfo) -> None:
    async def ask(nodes: dict[str, Any]) -> dict[str, Any]:
        rows = {}
        for name, node in nodes.items():
            marker = await node.call("marker")
            kernel = (await node.run(["uname", "-r"])).stdout.strip()
            out = await node.run(["ip", "route", "get", "192.0.2.1"], check=False)
            groups = (await node.run(["cat", "/sys/fs/cgroup/cgroup.controllers"])).stdout
            rows[name] = (marker, kernel, out.status, groups)
        return rows

    rows = on_nodes(vms, ask)
    boots = {marker["boot_id"] for marker, *_ in rows.values()}
    assert len({*boots, node_clock.control_boot_id()}) == 4
    assert {kernel for _, kernel, *_ in rows.values()} == {vms.facts["guest_kernel"]}
    for marker, _, way_out, groups in rows.values():
        assert marker["lab_id"] == LAB_ID
        assert way_out != 0
        assert {"cpu", "memory"} <= {*groups.split()}
    assert {*MORE_PACKAGES}.isdisjoint(vms.facts["packages"])
    key = Path(vms.nodes[0].key_path)
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_clock_is_one_nodes_alone(vms: LabInfo) -> None:
    """Set, read on all of them, set right again."""

    async def ask(nodes: dict[str, Any]) -> tuple[dict[str, float], float]:
        async def ahead(node: Any) -> float:
            found: float = (await node.call("ping"))["wall_ns"] / 1e9 - time.time()
            return found

        await node_clock.install(nodes["n2"])
        try:
            await node_clock.ask(nodes["n2"], "step", 300 * 10**9)
            seen = {name: await ahead(node) for name, node in nodes.items()}
        finally:
            back = await node_clock.ask(nodes["n2"], "back")
            await node_clock.remove(nodes["n2"])
        assert back.true_ns is None
        return seen, await ahead(nodes["n2"])

    seen, after = on_nodes(vms, ask)
    assert seen["n2"] == pytest.approx(300, abs=1)
    assert seen["n1"] == pytest.approx(0, abs=1)
    assert seen["n3"] == pytest.approx(0, abs=1)
    assert after == pytest.approx(0, abs=1)


def test_packets_of_one_peer_are_delayed_and_counted(vms: LabInfo) -> None:
    async def ask(nodes: dict[str, Any]) -> tuple[list[float], int, list[str]]:
        n1, n2, n3 = nodes.values()
        peers = {"n1": n2, "n2": n1, "n3": n1}
        addresses = {name: peer.info.address for name, peer in peers.items()}
        assert await netem.is_supported([n1, n2, n3], addresses)

        async def ping(node: Any) -> float:
            done = await node.run(["ping", "-qc", "5", "-i", "0.2", n1.info.address])
            return float(done.stdout.rpartition("=")[2].split("/")[0])

        try:
            await netem.start(n1, [n2.info], "delay 400ms")
            waits = [await ping(n2), await ping(n3)]
            senders = (await netem.take_snapshot(n1)).senders
            counted = sum(senders[a].delayed for a in (n2.info.address, n2.info.address6))
        finally:
            await netem.clear(n1)
        left = await n1.run(["sh", "-c", netem.RESIDUE.look])
        return waits, counted, left.stdout.split()

    (slow_ms, other_ms), counted, left = on_nodes(vms, ask)
    assert slow_ms >= 400 > other_ms
    assert counted >= 5
    assert left == []


def test_a_power_cut_takes_what_was_not_synced(vms: LabInfo) -> None:
    async def lay(nodes: dict[str, Any]) -> bool:
        return await restart.lay(nodes["n3"], "token", "/opt")

    async def left(nodes: dict[str, Any]) -> dict[str, bool]:
        return await restart.left_on(nodes["n3"], "token")

    assert on_nodes(vms, lay)
    before = LAB.boots(LAB_ID)
    LAB.cut(LAB_ID, ["n3"])
    assert LAB.boots(LAB_ID) == {**before, "n3": None}
    LAB.boot(LAB_ID, ["n3"])
    assert LAB.boots(LAB_ID)["n3"] not in (None, before["n3"])
    assert on_nodes(vms, left) == {"synced": True, "unsynced": False}


def test_clocks_of_their_own_in_a_run(vms: LabInfo, tmp_path: Path) -> None:
    words = ("run", "--lab", "vm", "--lab-id", LAB_ID, "--nodes", "3", *SLOW, "--store", tmp_path)
    faults = ("--nemesis", "clock-step,clock-steer", "-o", "fault_s=6", "--time-limit", "40")
    done = dstest(*words, *faults, "--seed", "7", timeout_s=350)
    found = faults_of(latest(tmp_path))
    assert {fault["nemesis"] for fault in found} == {"clock-step", "clock-steer"}, done.stderr
    assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in found), done.stderr
    residue = json.loads((latest(tmp_path) / "run.json").read_text())["residue"]
    assert not any(residue.values())


def test_the_main_job(vms: LabInfo, tmp_path: Path) -> None:
    words = ("run", "--lab", "vm", "--lab-id", LAB_ID, "--nodes", "3", *SLOW, "--store", tmp_path)
    faults = ("--nemesis", "partition", "-o", "fault_s=5", "--time-limit", "20", "--seed", "7")
    done = dstest(*words, *faults, timeout_s=300)
    assert done.returncode == Exit.PASS, done.stderr
    assert json.loads((latest(tmp_path) / "run.json").read_text())["lab"] == "vm"
    found = faults_of(latest(tmp_path))
    assert found
    assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in found)


def test_what_a_killed_command_left_is_collected(tmp_path: Path) -> None:
    lab_id = "v-dies"
    making = start(tmp_path / "log", *UP, "--nodes", "2", "--lab-id", lab_id)
    try:
        wait_for("machines", lambda: len(vm_machines.monitors(lab_id)) == 2, 120)
        os.killpg(making.pid, signal.SIGKILL)
    finally:
        making.wait(30)
    assert traces(lab_id)
    dstest("lab", "gc")
    assert traces(lab_id) == []
