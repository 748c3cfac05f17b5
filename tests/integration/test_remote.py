"""Connections, agents and leases on real nodes."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clusters.remote import RemoteNode, connect, connect_all
from clusters.remote.chores import run_everywhere, second_opinion
from dstest.core.errors import LabError, NotALabNode, RemoteError, RemoteLost, RemoteTimeout
from dstest.core.limits import LEASE_RENEW_S, PROBE_UDP_PORT
from dstest.core.node import LabInfo

pytestmark = pytest.mark.lab

Nodes = dict[str, RemoteNode]


def on_nodes(lab: LabInfo, body: Callable[[Nodes], Awaitable[None]]) -> None:
    async def main() -> None:
        nodes = await connect_all(lab)
        try:
            await body(nodes)
        finally:
            await asyncio.gather(*(node.close() for node in nodes.values()))

    asyncio.run(main())


async def gone(node: RemoteNode, path: str) -> bool:
    return not (await node.call("stat", path=path))["exists"]


async def within(seconds: float, done: Callable[[], Awaitable[bool]]) -> bool:
    async with asyncio.timeout(seconds):
        while not await done():  # noqa: ASYNC110 (the event is on another machine)
            await asyncio.sleep(0.05)
    return True


def test_commands_run_everywhere_at_once(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        started = time.monotonic()
        await asyncio.gather(*(n.run(["sleep", "0.5"]) for n in nodes.values() for _ in range(4)))
        assert time.monotonic() - started < 2.0
        with pytest.raises(RemoteError, match="ended with status 3: why") as caught:
            await nodes["n1"].run(["sh", "-c", "echo why >&2; exit 3"])
        assert caught.value.node == "n1"
        assert (await nodes["n1"].run(["false"], check=False)).status == 1
        assert (await nodes["n1"].run(["cat"], stdin="word")).stdout == "word"

    on_nodes(lab, body)


def test_files_of_all_sizes_travel(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        node = nodes["n1"]
        for size in (0, 10, (1 << 20) + 1, 9_000_000):
            data = os.urandom(size)
            await node.put("/tmp/new/file", data, mode=0o640)
            assert await node.get("/tmp/new/file") == data
            assert await node.get("/tmp/new/file", bytes_max=7) == data[-7:]
            assert await node.get("/tmp/new/file", bytes_max=7, from_start=True) == data[:7]
            tail = await node.get("/tmp/new/file", bytes_max=2_000_000)
            assert tail == data[-2_000_000:]
            assert (await node.call("stat", path="/tmp/new/file"))["mode"] & 0o777 == 0o640
        assert b"Tcp:" in await node.get("/proc/net/snmp")
        with pytest.raises(RemoteError):
            await node.get("/no/such")
        await node.run(["rm", "-r", "/tmp/new"])

    on_nodes(lab, body)


def test_raw_channels_never_exceed_what_sshd_allows(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        done = await asyncio.gather(*(nodes["n1"].exec_channel(f"echo {i}") for i in range(40)))
        assert [d.stdout for d in done] == [f"{i}\n" for i in range(40)]
        with pytest.raises(RemoteTimeout):
            await nodes["n1"].exec_channel("sleep 3", timeout_s=0.2)
        assert (await nodes["n1"].run(["true"])).status == 0

    on_nodes(lab, body)


def test_a_frozen_agent_times_out_and_comes_back(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        node = nodes["n2"]
        pid = node.hello["pid"]
        await node.exec_channel(f"kill -STOP {pid}")
        with pytest.raises(RemoteTimeout):
            await node.call("ping", timeout_s=0.3)
        await node.exec_channel(f"kill -CONT {pid}")
        await node.call("ping")

    on_nodes(lab, body)


def test_a_lost_connection_fails_what_is_under_way(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        node = nodes["n3"]
        call = asyncio.create_task(node.run(["sleep", "30"], timeout_s=40))
        await asyncio.sleep(0.1)
        other = await connect(node.info)
        parent = await other.call("procinfo", pid=node.hello["pid"])
        await other.run(["kill", "-9", str(parent["ppid"])])
        with pytest.raises(RemoteLost):
            await call
        with pytest.raises(RemoteLost):
            await node.run(["true"])
        assert (await other.run(["true"])).status == 0
        await other.close()

    on_nodes(lab, body)


def test_probes_tell_directions_apart(lab: LabInfo) -> None:
    rules = """
    table inet dstest_probe { chain input { type filter hook input priority -10;
      ip saddr %s udp dport %d counter drop
      ip6 saddr %s udp dport %d counter drop;
    }; }"""

    async def body(nodes: Nodes) -> None:
        one, two = nodes["n1"], nodes["n2"]
        targets = {n.name: [n.info.address, str(n.info.address6)] for n in nodes.values()}
        await asyncio.gather(*(n.call("probe_listen", port=PROBE_UDP_PORT) for n in nodes.values()))
        cut = rules % (targets["n1"][0], PROBE_UDP_PORT, targets["n1"][1], PROBE_UDP_PORT)
        await two.run(["nft", "-f", "-"], stdin=cut)
        try:
            args: dict[str, Any] = {
                "port": PROBE_UDP_PORT,
                "token": "cut",
                "count": 3,
                "spacing_ms": 1,
            }
            sent = await one.call("probe_send", targets=targets["n2"] + targets["n3"], **args)
            await two.call("probe_send", targets=targets["n1"], **args)
            assert {row["sent"] for row in sent.values()} == {3}
            await asyncio.sleep(0.1)
            assert await two.call("probe_counts", token="cut") == {}
            back = await one.call("probe_counts", token="cut")
            assert back == dict.fromkeys(targets["n2"], 3)
            third = await nodes["n3"].call("probe_counts", token="cut")
            assert third == dict.fromkeys(targets["n1"], 3)
        finally:
            await two.run(["nft", "delete", "table", "inet", "dstest_probe"])

    on_nodes(lab, body)


def test_leases_are_renewed_until_released(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        node = nodes["n1"]
        await node.run(["rm", "-f", "/tmp/kept"])
        await node.arm_lease("kept", [["touch", "/tmp/kept"]], ttl_s=LEASE_RENEW_S)
        await asyncio.sleep(LEASE_RENEW_S * 2.5)
        assert (await node.call("lease_list"))["armed"] == ["kept"]
        await node.release_lease("kept")
        await asyncio.sleep(LEASE_RENEW_S + 1)
        assert await gone(node, "/tmp/kept")
        assert node.lost_leases == set()

    on_nodes(lab, body)


def test_leases_run_out_after_close(lab: LabInfo) -> None:
    async def arm(nodes: Nodes) -> None:
        await nodes["n1"].run(["touch", "/tmp/fault"])
        await nodes["n1"].arm_lease("closed", [["rm", "/tmp/fault"]], ttl_s=1)

    async def look(nodes: Nodes) -> None:
        assert await within(4, lambda: gone(nodes["n1"], "/tmp/fault"))

    on_nodes(lab, arm)
    on_nodes(lab, look)


CONTROL = """
import asyncio, sys, msgspec
from clusters.remote import connect
from dstest.core.node import NodeInfo
info = msgspec.json.decode(sys.argv[1], type=NodeInfo)
async def main():
    node = await connect(info)
    heal = ["nft", "delete", "table", "inet", "dstest_lease"]
    await node.arm_lease("killed", [heal], ttl_s=3)
    table = "table inet dstest_lease { chain c { type filter hook input priority 0; }; }"
    await node.run(["nft", "-f", "-"], stdin=table)
    print("armed", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["control", "control and agent", "control and sshd"])
def test_a_node_heals_itself_when_control_is_killed(lab: LabInfo, how: str) -> None:
    """The fault is a table of ours; three seconds after the last heartbeat it is gone."""
    info = lab.nodes[4]
    argv = [sys.executable, "-c", CONTROL, msgspec.json.encode(info).decode()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as control:
        assert control.stdout is not None
        assert control.stdout.readline() == "armed\n"
        control.send_signal(signal.SIGKILL)
        control.wait(10)
    killed = time.monotonic()

    async def table_is_gone(node: RemoteNode) -> bool:
        tables = await node.run(["nft", "list", "tables"])
        return "dstest_lease" not in tables.stdout

    async def is_recorded(node: RemoteNode) -> bool:
        return "killed" in (await node.call("lease_list"))["healed"]

    async def main() -> None:
        node = await connect(info)
        assert not await table_is_gone(node)
        if how == "control and agent":
            done = await node.exec_channel("pgrep -f 'agent_main[.]main' | xargs kill -9")
            assert done.status == 0
            await node.close()
            node = await connect(info)
        if how == "control and sshd":
            await node.run(["systemctl", "restart", "ssh"])
            await node.close()
            node = await connect(info)
        assert await within(7, lambda: table_is_gone(node))
        assert time.monotonic() - killed < 3 + 2
        # The janitor writes its record once the commands are done, so after the table is gone.
        assert await within(2, lambda: is_recorded(node))
        healed = (await node.call("lease_list"))["healed"]["killed"]
        assert [row["status"] for row in healed["commands"]] == [0]
        await node.close()

    asyncio.run(main())


def test_without_a_janitor_no_lease_and_the_next_connection_brings_one(lab: LabInfo) -> None:
    async def body(nodes: Nodes) -> None:
        node = nodes["n4"]
        await node.arm_lease("first", [["true"]], ttl_s=30)
        await node.run(["pkill", "-9", "-f", "agent_janitor"])
        with pytest.raises(LabError, match="nobody would heal"):
            await node.arm_lease("second", [["true"]], ttl_s=30)
        other = await connect(node.info)
        await other.arm_lease("second", [["true"]], ttl_s=30)
        for lease_id in ("first", "second"):
            await other.release_lease(lease_id)
        await other.close()

    on_nodes(lab, body)


def test_hosts_that_are_not_nodes_are_refused(lab: LabInfo, tmp_path: Path) -> None:
    first = lab.nodes[0]
    other_key = tmp_path / "known_hosts"
    known = Path(first.known_hosts_path).read_text().splitlines()
    pinned_for_second = shlex.split(known[1])[2]
    other_key.write_text(f"{first.address} ssh-ed25519 {pinned_for_second}\n")

    async def refused(match: str, error: type[LabError], **changed: str) -> None:
        with pytest.raises(error, match=match):
            await connect(msgspec.structs.replace(first, **changed), deadline_s=3)

    async def main() -> None:
        await refused(f"belongs to lab '{lab.lab_id}'", NotALabNode, lab_id="production")
        await refused("this machine itself", NotALabNode, address=lab.control)
        await refused("another host key", LabError, known_hosts_path=str(other_key))
        await refused("no pinned host key", LabError, known_hosts_path="")
        silent = first.address.rpartition(".")[0] + ".77"
        await refused("cannot be reached|not usable", LabError, address=silent)

    asyncio.run(main())


def test_two_more_ssh_libraries_agree(lab: LabInfo) -> None:
    for info in lab.nodes:
        seen = second_opinion(info)
        assert seen["lab_id"] == lab.lab_id
        assert seen["host_key"] == "ssh-ed25519"
    wrong = msgspec.structs.replace(lab.nodes[0], known_hosts_path=lab.nodes[0].key_path)
    with pytest.raises(LabError):
        second_opinion(wrong)
    said = run_everywhere(lab.nodes, "hostname; exit 3")
    assert {n: (r.stdout, r.status) for n, r in said.items()} == {
        info.name: (f"{info.name}\n", 3) for info in lab.nodes
    }
