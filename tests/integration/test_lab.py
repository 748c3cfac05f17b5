"""The LXC lab on this host: made, shared, broken, removed without a trace."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusters.labs import bridged, container, host, network, state
from clusters.labs.lxc import LAB
from clusters.remote import connect, connect_all
from dstest.core.errors import LabError
from dstest.core.node import LabInfo
from dstest.core.processes import each

pytestmark = pytest.mark.lab

UP = "import sys; from clusters.labs.lxc import LAB; LAB.up(sys.argv[1], 3, packages=sys.argv[2:])"


def traces(lab_id: str, octet: int) -> list[str]:
    """Everything on this host that could be left of a lab."""
    tag = state.tag_of(lab_id)
    left = bridged.leftovers_of(lab_id, container)
    left += network.stray_routes({octet})
    left += [str(p) for p in Path("/sys/fs/cgroup").glob(f"*/lxc*{tag}*")]
    left += [str(p) for p in Path("/sys/fs/cgroup").glob(f"lxc*{tag}*")]
    left += [str(pid) for pid, line in each("cmdline") if tag.encode() in line]
    routes = host.run(["ip", "route"]).stdout + host.run(["ip", "-6", "route"]).stdout
    left += [line for line in routes.splitlines() if f"10.77.{octet}." in line]
    left += [line for line in routes.splitlines() if f"fd77:{octet:x}:" in line]
    return left


def test_nodes_are_what_a_test_needs(lab: LabInfo) -> None:
    async def main() -> None:
        nodes = await connect_all(lab)
        for node in nodes.values():
            assert node.hello["lab_id"] == lab.lab_id
            assert node.hello["hostname"] == node.name
            routes = await node.run(["ip", "-4", "route"])
            routes6 = await node.run(["ip", "-6", "route"])
            assert "default" not in routes.stdout + routes6.stdout
            assert "fe80" not in (await node.run(["ip", "-6", "addr", "show", "eth0"])).stdout
            failed = await node.run(["systemctl", "list-units", "--failed", "--no-legend"])
            assert failed.stdout.strip() == ""
            listening = await node.run(["ss", "-Hltn"])
            ports = {line.split()[3].rpartition(":")[2] for line in listening.stdout.splitlines()}
            # A run that lost this node in an earlier test may have left etcd behind.
            assert ports - {"2379", "2380"} == {"22"}
            for peer in lab.nodes:
                found = await node.run(["getent", "ahosts", peer.name])
                assert peer.address in found.stdout
                assert (await node.run(["ping", "-c1", "-W2", peer.address])).status == 0
                assert (await node.run(["ping", "-c1", "-W2", str(peer.address6)])).status == 0
            plain = await node.exec_channel("echo $0; ls -A /root; tty")
            assert plain.stdout.split("\n")[0] == "sh"
            await node.close()

    asyncio.run(main())


def test_a_running_lab_is_reused(lab: LabInfo, lab_packages: tuple[str, ...]) -> None:
    said: list[str] = []
    again = LAB.up(lab.lab_id, 3, packages=lab_packages, progress=said.append)
    assert again.nodes == lab.nodes[:3]
    assert said == [f"lab {lab.lab_id} is running: reused"]
    with pytest.raises(LabError, match="5 nodes, not 6") as caught:
        LAB.up(lab.lab_id, 6, packages=lab_packages)
    assert caught.value.remedy == f"dstest lab down --lab-id {lab.lab_id}"
    with pytest.raises(LabError, match="without no-such-package"):
        LAB.up(lab.lab_id, 5, packages=["no-such-package"])


@pytest.mark.usefixtures("own_labs")
def test_a_lab_goes_without_a_trace(lab_packages: tuple[str, ...]) -> None:
    started = time.monotonic()
    info = LAB.up("b-down", 5, packages=lab_packages)
    assert time.monotonic() - started < 10
    octet = int(info.control.split(".")[2])
    assert LAB.status("b-down") == info
    removed = LAB.down("b-down")
    assert sum(what.startswith("container") for what in removed) == 5
    assert traces("b-down", octet) == []
    assert LAB.status("b-down") is None
    assert LAB.down("b-down") == []


@pytest.mark.usefixtures("own_labs")
def test_labs_live_side_by_side_and_apart(lab_packages: tuple[str, ...]) -> None:
    one = LAB.up("b-one", 1, packages=lab_packages)
    two = LAB.up("b-two", 1, packages=lab_packages)
    assert one.facts["subnet"] != two.facts["subnet"]

    async def main() -> None:
        node = await connect(one.nodes[0])
        for address in (two.nodes[0].address, str(two.nodes[0].address6), two.control):
            done = await node.run(["ping", "-c1", "-W1", address], check=False)
            assert done.status != 0
        await node.close()

    asyncio.run(main())
    LAB.down("b-one")
    assert LAB.status("b-two") is not None


@pytest.mark.usefixtures("own_labs")
def test_a_half_dead_lab_is_refused_and_can_be_removed(lab_packages: tuple[str, ...]) -> None:
    info = LAB.up("b-half", 2, packages=lab_packages)
    path = str(container.lxc_path("b-half"))
    host.run(["lxc-stop", "-P", path, "-n", info.facts["containers"]["n2"], "-k"])
    assert LAB.status("b-half") is None
    assert LAB.examine("b-half") == ["node n2 does not run"]
    with pytest.raises(LabError, match="half dead: node n2 does not run") as caught:
        LAB.up("b-half", 2, packages=lab_packages)
    assert caught.value.remedy == "dstest lab down --lab-id b-half"
    LAB.down("b-half")
    assert traces("b-half", int(info.control.split(".")[2])) == []


@pytest.mark.usefixtures("own_labs")
def test_a_lab_of_which_nothing_runs_is_made_anew(lab_packages: tuple[str, ...]) -> None:
    info = LAB.up("b-dead", 1, packages=lab_packages)
    path = str(container.lxc_path("b-dead"))
    host.run(["lxc-stop", "-P", path, "-n", info.facts["containers"]["n1"], "-k"])
    host.run(["ip", "link", "del", info.facts["bridge"]])
    again = LAB.up("b-dead", 1, packages=lab_packages)
    assert again.nodes == info.nodes


@pytest.mark.usefixtures("own_labs")
@pytest.mark.parametrize(
    "delay_s", [0.1, 0.3, *(pytest.param(s, marks=pytest.mark.long) for s in (0.2, 0.25, 0.4, 0.6))]
)
def test_what_a_killed_up_leaves_is_collected(
    delay_s: float, lab_packages: tuple[str, ...]
) -> None:
    process = subprocess.Popen([sys.executable, "-c", UP, "b-kill", *lab_packages])
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    time.sleep(0.3)
    known = state.load("b-kill")
    LAB.gc()
    assert LAB.list() == []
    if known is not None:
        assert traces("b-kill", known.octet) == []
    LAB.up("b-kill", 1, packages=lab_packages)


@pytest.mark.usefixtures("own_labs")
def test_gc_spares_labs_that_are_in_use_or_meant_to_stay(lab_packages: tuple[str, ...]) -> None:
    LAB.up("b-mine", 1, packages=lab_packages)
    code = UP.replace("packages=", "persistent=True, packages=")
    subprocess.run([sys.executable, "-c", code, "b-stays", *lab_packages], check=True, timeout=60)
    subprocess.run([sys.executable, "-c", UP, "b-orphan", *lab_packages], check=True, timeout=60)
    removed = LAB.gc()
    assert LAB.list() == ["b-mine", "b-stays"]
    assert all(what.startswith("b-orphan: ") for what in removed)
    assert LAB.status("b-stays") is not None


@pytest.mark.usefixtures("own_labs")
def test_gc_takes_orphaned_links_of_this_directory_only() -> None:
    ours, theirs = "dst0badcafe", "dst0badbeef"
    try:
        for name, alias in ((ours, f"dstest:{state.root_dir()}:x"), (theirs, "dstest:/other:x")):
            host.run(["ip", "link", "add", name, "type", "bridge"])
            host.run(["ip", "link", "set", name, "alias", alias])
        assert f"link {ours}" in LAB.gc()
        assert ours not in network.lab_links()
        assert theirs in network.lab_links()
    finally:
        for name in (ours, theirs):
            host.run(["ip", "link", "del", name], check=False)


@pytest.mark.usefixtures("own_labs")
def test_nothing_leaves_this_host_while_a_lab_exists(lab_packages: tuple[str, ...]) -> None:
    info = LAB.up("b-route", 1, packages=lab_packages)
    host.run(["ip", "link", "set", info.facts["bridge"], "down"])
    for address in (info.nodes[0].address, str(info.nodes[0].address6)):
        found = host.run(["ip", "route", "get", address], check=False)
        assert found.returncode != 0, found.stdout


@pytest.mark.usefixtures("own_labs")
def test_ups_of_one_lab_at_once_make_one_lab(lab_packages: tuple[str, ...]) -> None:
    argv = [sys.executable, "-c", UP.replace("LAB.up", "print(LAB.up", 1) + ".control)"]
    processes = [
        subprocess.Popen([*argv, "b-race", *lab_packages], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    said = {process.communicate(timeout=60)[0] for process in processes}
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(said) == 1
    assert os.path.isdir(state.lab_dir("b-race"))


def dstest(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "dstest", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.usefixtures("own_labs")
def test_the_commands_from_up_to_down() -> None:
    named = ("--lab-id", "b-cli")
    assert dstest("lab", "status", *named).returncode == 4
    up = dstest("lab", "up", *named, "--nodes", "2", "--json")
    assert up.returncode == 0, up.stderr
    assert [node["name"] for node in json.loads(up.stdout)["nodes"]] == ["n1", "n2"]
    status = json.loads(dstest("lab", "status", *named, "--json").stdout)
    assert (status["state"], status["lacks"]) == ("running", [])
    assert status["lab"]["facts"]["persistent"]
    assert dstest("lab", "ssh", *named, "n2", "--", "cat", "/etc/hostname").stdout == "n2\n"
    assert dstest("lab", "ssh", *named, "n3").returncode == 2
    everywhere = dstest("lab", "ssh", *named, "--all", "--", "hostname")
    assert everywhere.stdout == "== n1: status 0\nn1\n== n2: status 0\nn2\n"
    assert dstest("lab", "gc").stdout == ""
    assert dstest("lab", "list").stdout == "b-cli  running  (lxc)\n"
    rows = json.loads(dstest("doctor", "--json").stdout)
    assert [row for row in rows if not row["ok"]] == []
    assert sum("by paramiko" in row["name"] for row in rows) == 2
    down = dstest("lab", "down", *named)
    assert down.returncode == 0
    assert "removed container" in down.stdout
    assert dstest("lab", "list").stdout == ""
