"""What dead runs leave is found by whoever comes next, removed where it is ours, and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs import deployed, dstest, on_nodes, run_here

from clusters.supervise.member_set import GROUPS, MEMBER, PROGRAM, override_of, programs, spec
from clusters.systems.etcd import on_node
from clusters.systems.toykv import deployment as toykv
from dstest.core.errors import Exit, LabError
from dstest.core.node import LabInfo
from dstest.core.protocols import Probe, Service
from dstest.runner import adoption
from nemeses.disk import disk_fault
from nemeses.none import NoNemesis
from nemeses.process.memory import MEMORY
from nemeses.process.slow_follower import CPU
from nemeses.tools import aim, netem, netqueue, nft, node_clock
from nemeses.tools.compiled import HOME
from nemeses.tools.netem import cap_rules

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

Nodes = dict[str, Any]


class _Only:
    """As much of a context as laying a file system asks for."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    def node(self, name: str) -> Any:
        return self.nodes[name]

    def need(self, capability: type) -> Any:
        return self

    def data_dir(self) -> str:
        return on_node.DATA


async def _plant(nodes: Nodes, lab: LabInfo) -> None:
    """One of everything on n1."""
    node = nodes["n1"]
    await nft.load(node, nft.account_rules([nodes["n2"].info]))
    await nft.load(node, nft.fault_rules([nodes["n2"].info], lab, "drop"))
    await aim.install("aimed", [node])
    traced = await node.call("spawn", argv=["/bin/sleep", "600"])
    number, fd, at = aim.CALLS["fsync"]
    step = f"step syscall {number} {fd} {at} -"
    await aim.start(node, f"process {traced['pid']} 0\n{step}\nthen count\n")
    await netqueue.install("latency", [node])
    await netqueue.start(node, netqueue.rules([nodes["n2"].info], hook="FORWARD"), {"delay_us": 1})
    await node.run(["tc", "-batch", "-"], stdin=cap_rules("eth0", lab, 5000))
    await node_clock.install(node)
    await node.run(["ip", "link", "add", f"{netem.DEVICE}1", "type", "veth"])
    await MEMORY.make(node, "memory")
    await CPU.make(node, "slow-follower")
    data = on_node.DATA
    await node.run(["sh", "-c", f"mkdir -p {data}/member && echo old >{data}/member/of-before"])
    await disk_fault.lay(_Only({"n1": node}), "power")  # type: ignore[arg-type]
    await node.run(["sh", "-c", f"mkdir {data}/member && echo new >{data}/member/of-the-run"])
    sleeper = await node.call("spawn", argv=["/bin/sleep", "60"], cwd=on_node.DATA)
    await node.run(["prlimit", "--pid", str(sleeper["pid"]), "--nofile=3:"])
    stopped = await node.call("spawn", argv=["/bin/sleep", "60"])
    await node.call("signal", **stopped, signum=19)
    await _servers(node)
    await node.run(["mkdir", "-p", on_node.OTHER_HOME, on_node.BACKUP, toykv.HOME])
    removed = (on_node.REMOVED, toykv.REMOVED)
    for path in (override_of("toy"), *removed, on_node.OTHER_BINARY, GROUPS):
        await node.run(["touch", path])
    await node.arm_lease("f9", [["touch", "/tmp/kept-its-promise"]], ttl_s=600)


async def _servers(node: Any) -> None:
    """A service that is frozen, one that runs, and one whose child has outlived it."""
    sleep = ("/bin/sleep", "600")
    kinds = {"toy": sleep, "frozen": sleep, "gone": ("sh", "-c", "sleep 600 & exec sleep 0.1")}
    services = [
        Service(name=name, argv=argv, probe=Probe(1), log=f"/tmp/{name}.log")
        for name, argv in kinds.items()
    ]
    for path, data in programs().items():
        await node.put(path, data, mode=0o755)
    await node.put(MEMBER, spec(services))
    await node.run([PROGRAM, "start"])
    await node.run([PROGRAM, "freeze", "frozen"])


def test_one_of_everything_is_found_removed_and_said(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        await deployed_stop(nodes)
        await adoption.begin_clean(nodes, adoption.residues())
        await _plant(nodes, lab)
        kinds = adoption.residues()
        found = await adoption.look(nodes, kinds)
        seen = {row.residue for row in found["n1"]}
        places = {k.name for k in kinds if k.name.startswith("place of ports")}
        assert seen == {k.name for k in kinds} - {"clock", *places}, seen
        assert all(row.ours for row in found["n1"]), found["n1"]
        assert [found[n] for n in nodes if n != "n1"] == [[], [], [], []]
        cleaned = await adoption.begin_clean(nodes, kinds)
        assert len(cleaned["n1"]) >= len(seen)
        assert not any((await adoption.look(nodes, kinds)).values())
        data = await nodes["n1"].run(["ls", f"{on_node.DATA}/member"])
        assert data.stdout.split() == ["of-the-run"], "what the run wrote, and nothing older"
        assert (await nodes["n1"].call("stat", path="/tmp/kept-its-promise"))["exists"]
        assert not (await nodes["n1"].call("stat", path=HOME))["exists"]
        await nodes["n1"].run(["sh", "-c", "rm -rf /tmp/kept-its-promise /tmp/*.log"])

    on_nodes(lab, body)


async def deployed_stop(nodes: Nodes) -> None:
    from clusters.systems.etcd.system import SYSTEM

    await SYSTEM.deploy(list(nodes.values()), {}).stop()


FOREIGN = [
    ("nft add table inet firewall", "nft delete table inet firewall", "table inet firewall"),
    ("iptables -A INPUT -s 192.0.2.1 -j DROP", "iptables -D INPUT -s 192.0.2.1 -j DROP", "DROP"),
    (
        "tc qdisc add dev eth0 root handle 1: tbf rate 1gbit burst 1mb latency 50ms",
        "tc qdisc del dev eth0 root",
        "queueing discipline tbf",
    ),
    (
        "mkdir -p /opt/etcd && mount -t tmpfs none /opt/etcd",
        "umount /opt/etcd",
        "mount of none at /opt/etcd",
    ),
]


@pytest.mark.parametrize(("make", "undo", "named"), FOREIGN, ids=[row[2] for row in FOREIGN])
def test_what_is_not_ours_refuses_the_run(
    lab: LabInfo, tmp_path: Path, make: str, undo: str, named: str
) -> None:
    def on_n3(script: str) -> None:
        on_nodes(lab, lambda nodes: nodes["n3"].run(["sh", "-c", script]))

    on_nodes(lab, deployed_stop)
    on_n3(make)
    try:
        done = run_here(lab, tmp_path)
        status = dstest("lab", "status", "--lab-id", lab.lab_id)
    finally:
        on_n3(undo)
    assert done.exit_code == Exit.HARNESS
    assert isinstance(done.failure, LabError)
    assert "n3" in done.failure.message and named in done.failure.message
    assert named in status.stdout and "not ours" in status.stdout


def test_a_shifted_clock_is_found_and_put_right(lab: LabInfo) -> None:
    from nemeses.tools.clock_tool import TOOL, build, shift

    async def body(nodes: Nodes) -> None:
        node = nodes["n2"]
        await node.put(TOOL, await build(), mode=0o755)
        sleeper = await node.call(
            "spawn", argv=["/usr/bin/python3", "-c", "import time\ntime.sleep(60)"]
        )
        await shift(node, sleeper["pid"], sleeper["start_time"], ["set", 5_000_000_000, 0, 0, 0])
        cleaned = await adoption.begin_clean(nodes, adoption.residues())
        assert f"shifted clock of process {sleeper['pid']}" in cleaned["n2"]
        await node.call("signal", **sleeper, signum=9)

    on_nodes(lab, deployed_stop)
    on_nodes(lab, body)


def test_a_run_says_what_it_has_removed(lab: LabInfo, tmp_path: Path) -> None:
    on_nodes(lab, deployed_stop)

    async def leave(nodes: Nodes) -> None:
        await nft.load(nodes["n4"], nft.account_rules([nodes["n2"].info]))

    on_nodes(lab, leave)
    done = run_here(lab, tmp_path, nemesis=NoNemesis(), options=(), time_limit_s=2.0)
    facts = json.loads((done.path / "run.json").read_text())
    assert facts["cleaned"] == {"n4": ["table inet dstest"]}
    assert not any(facts["residue"].values())
    assert all(deployed(lab, lambda deployment: _no_server(deployment)).values())


async def _no_server(deployment: Any) -> dict[str, bool]:
    running = await deployment.processes()
    return {f"n{i + 1}": f"n{i + 1}" not in running for i in range(5)}
