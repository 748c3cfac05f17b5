"""A cluster of etcd that somebody else has started on machines of theirs: attached to, tested, and
left as it was; and what is refused before anything is touched."""

from __future__ import annotations

import base64
import json
import os
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from busy import assert_code
from existing_machines import Machines
from runs import CALM, dstest, faults_of, latest, start, verdict_of, wait_for

from clusters.labs.existing import book
from dstest.core.errors import Exit

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="making nodes needs root"),
    pytest.mark.timeout(600),
]

LAB_ID: Final = f"attached-{os.getpid()}"
NODES: Final = 3
PORT: Final = 12379
HERE: Final = (
    *("--lab", "hosts", "--lab-id", LAB_ID, "--nodes", str(NODES)),
    *("--attach", "--system", "etcd"),
)
SHORT: Final = ("-o", "fault_s=4", "-o", "quiet_s=6", "--time-limit", "21")

SERVER: Final = """\
systemctl disable --now etcd >/dev/null 2>&1
name=$1 at=$2 port=$3 peers=$4
mkdir -p "/srv/site/$name"
cd "/srv/site/$name"
peer=http://$at:$((port + 1)) client=http://$at:$port
setsid -f sh -c "exec /usr/bin/etcd --name $name --data-dir /srv/site/$name/data \
    --listen-peer-urls $peer --initial-advertise-peer-urls $peer \
    --listen-client-urls $client --advertise-client-urls $client \
    --initial-cluster $peers --initial-cluster-token site-$port" </dev/null >log 2>&1
"""
"""A plain shell starts it, at ports and in a directory of its own."""

PID: Final = f"ss -Hltnp 'sport = :{PORT}' | grep -v 127.0.0.1 | grep -o 'pid=[0-9]*' | cut -c 5-"
"""Of the server that is attached to."""

FORWARD: Final = """\
import socket, sys, threading
def copy(a, b):
    while data := a.recv(65536): b.sendall(data)
    b.shutdown(socket.SHUT_WR)
gate = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    one, _ = gate.accept()
    other = socket.create_connection((sys.argv[1], int(sys.argv[3])))
    for pair in ((one, other), (other, one)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""

STATE: Final = """\
for pid in $(pidof etcd); do
    echo "$pid $(sed 's/.*) //' /proc/$pid/stat | cut -d ' ' -f 20)"
    tr '\\0' ' ' </proc/$pid/cmdline
done | sort
nft list ruleset | sed 's/counter packets.*bytes [0-9]*/counter/'
ip -o link | sed 's/ state .*//'
tc qdisc show
ls -A /opt /srv /srv/site /etc/systemd/system
"""
"""Pids, start times and arguments of servers, rules, devices, directories."""


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, lab_packages: tuple[str, ...]
) -> Iterator[Machines]:
    found = Machines(tmp_path_factory.mktemp("machines"), lab_packages, f"site-{os.getpid()}")
    done = dstest("lab", "adopt", found.list(), "--lab-id", LAB_ID, "--yes")
    assert done.returncode == 0, done.stderr
    yield found
    dstest("lab", "release", "--lab-id", LAB_ID, "--forget")
    book.forget(LAB_ID)
    found.down()


@pytest.fixture(scope="module")
def site(machines: Machines) -> Machines:
    """Their cluster runs, and holds what is theirs."""
    begin(machines, "db", PORT)
    wait_for("a cluster that serves", lambda: put(machines, "/orders/1", "precious"), 40)
    for i in range(NODES):  # somebody else's, at the same port of an address that nobody asks
        machines.on(i, SERVER, "dev", "127.0.0.1", str(PORT), f"dev=http://127.0.0.1:{PORT + 1}")
    # Where our clients of other labs have their keys.
    assert put(machines, "/dstest/1", "not of dstest")
    return machines


def begin(machines: Machines, name: str, port: int, nodes: int = NODES) -> None:
    at = [node.address for node in machines.info.nodes[:nodes]]
    peers = ",".join(f"{name}{i}=http://{one}:{port + 1}" for i, one in enumerate(at))
    for i, one in enumerate(at):
        machines.on(i, SERVER, f"{name}{i}", one, str(port), peers)


def ask(machines: Machines, path: str, **body: Any) -> Any:
    url = f"http://{machines.info.nodes[0].address}:{PORT}{path}"
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def put(machines: Machines, key: str, value: str) -> bool:
    try:
        ask(machines, "/v3/kv/put", key=b64(key), value=b64(value))
    except OSError:
        return False
    return True


def held(machines: Machines) -> list[tuple[str, str, str]]:
    """All keys with values and the revisions of their last change."""
    rows = ask(machines, "/v3/kv/range", key=b64("\0"), range_end=b64("\0")).get("kvs", [])
    return [
        (*(base64.b64decode(row[word]).decode() for word in ("key", "value")), row["mod_revision"])
        for row in rows
    ]


def state(machines: Machines) -> list[str]:
    return [machines.on(i, STATE) for i in range(NODES)]


def test_a_cluster_that_runs_is_tested_and_left_as_it_was(site: Machines, tmp_path: Path) -> None:
    before, data = state(site), held(site)
    assert {key for key, _, _ in data} == {"/orders/1", "/dstest/1"}
    words = ("--workload", "register", "--nemesis", "partition", "--seed", "7")
    done = dstest(*CALM, *HERE, *words, *SHORT, "--store", tmp_path, timeout_s=200)
    assert_code(done.returncode, latest(tmp_path), done.stderr)
    run = latest(tmp_path)
    faults = faults_of(run)
    assert faults
    assert all(one["landed"] == "yes" and one["heal_verified"] for one in faults)
    assert state(site) == before
    assert held(site) == data
    told = json.loads((run / "run.json").read_bytes())
    assert told["spec"]["attach"] is True
    assert not told["residue"] or not any(told["residue"].values())
    assert "clean_up_problems" not in told
    pids = [site.on(i, PID).strip() for i in range(NODES)]
    found = [told["attached"][f"n{i + 1}"] for i in range(NODES)]
    assert [str(one["pid"]) for one in found] == pids
    assert {one["port"] for one in found} == {PORT}
    assert all(one["version"] == told["system_version"] for one in found)
    assert f"n1: process {pids[0]} at port {PORT}" in done.stderr
    assert "--attach" in done.stdout
    assert "attached, n1" in (run / "report.html").read_text()
    assert "no logs are offered" in (run / "verdict.json").read_text()


@pytest.mark.selftest
def test_a_control_host_that_dies_leaves_nothing_cut(site: Machines, tmp_path: Path) -> None:
    """And a run right after it works, and says which keys are left of the one that died."""
    before, log = state(site), tmp_path / "log"
    words = ("--workload", "register", "--nemesis", "partition", "--seed", "7")
    long = ("-o", "fault_s=20", "--time-limit", "60")
    process = start(log, *CALM, *HERE, *words, *long, "--store", tmp_path / "store")
    try:
        wait_for("a landed fault", lambda: "landed yes" in log.read_text(), 90)
        assert state(site) != before
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    wait_for("healed nodes", lambda: state(site) == before, 60)
    again = ("--workload", "set", "--nemesis", "none", "--time-limit", "4")
    done = dstest(*CALM, *HERE, *again, "--store", tmp_path / "again", timeout_s=120)
    assert done.returncode in (Exit.PASS, Exit.NOT_PROVEN), done.stderr
    assert "keys begin with /dstest-run- and are left alone" in done.stderr
    assert verdict_of(latest(tmp_path / "again"))["evidence"]["checker"]["result"] == "clean"
    assert state(site) == before
    dead = ask(site, "/v3/kv/deleterange", key=b64("/dstest-run-"), range_end=b64("/dstest-run."))
    assert int(dead["deleted"]) > 0
    assert [key for key, _, _ in held(site)] == ["/dstest/1", "/orders/1"]


@pytest.mark.selftest
def test_a_kill_ends_that_server_and_none_beside_it(site: Machines, tmp_path: Path) -> None:
    at = [node.address for node in site.info.nodes[:NODES]]
    peers = ",".join(f"db{i}=http://{one}:{PORT + 1}" for i, one in enumerate(at))
    for i, one in enumerate(at):
        text = SERVER.replace("$1", f"db{i}").replace("$2", one).replace("$3", str(PORT))
        site.on(i, "printf '%s' \"$1\" >/srv/begin.sh", text.replace("$4", peers))
    others = [site.on(i, "pgrep -f '^/usr/bin/etcd --name dev '") for i in range(NODES)]
    before = [site.on(i, PID) for i in range(NODES)]
    words = ("--nemesis", "kill", "-o", "scope=one", "-o", "start=sh /srv/begin.sh", "--seed", "7")
    done = dstest(*CALM, *HERE, *words, *SHORT, "--store", tmp_path, timeout_s=200)
    assert_code(done.returncode, latest(tmp_path), done.stderr)
    assert all(one["landed"] == "yes" for one in faults_of(latest(tmp_path)))
    assert [site.on(i, PID) for i in range(NODES)] != before
    assert [site.on(i, "pgrep -f '^/usr/bin/etcd --name dev '") for i in range(NODES)] == others
    group = site.on(0, f"cat /proc/$({PID})/cgroup")
    assert "ssh" not in group


@pytest.mark.selftest
def test_what_cannot_be_attached_to_is_refused_untouched(site: Machines, tmp_path: Path) -> None:
    before, data = state(site), held(site)

    def refused(code: Exit, why: str, *words: str) -> None:
        done = dstest(*CALM, *HERE, *words, "--store", tmp_path / "store", timeout_s=60)
        assert done.returncode == code, done.stderr
        assert why in done.stderr, done.stderr
        assert state(site) == before
        assert held(site) == data

    refused(Exit.HARNESS, "there is no server of etcd that fits -o client_port=4", "-o",
            "client_port=4")  # fmt: skip
    refused(Exit.USAGE, "--nemesis membership needs servers that", "--nemesis", "membership")
    refused(Exit.USAGE, "would not be as before: n1: process", "--nemesis", "kill")
    few = ("--nodes", "2", "--nemesis", "none")
    refused(Exit.HARNESS, "the cluster has 3 members, and db2 are on no node", *few)
    for i, node in enumerate(site.info.nodes[:NODES]):
        words = (node.address, "32379", str(PORT))
        run = 'setsid -f python3 -c "$1" "$2" "$3" "$4" forward </dev/null >/dev/null 2>&1'
        site.on(i, run, FORWARD, *words)
        site.on(i, "until ss -Hltn | grep -q :32379; do sleep 0.2; done")
    proxy = ("-o", "client_port=32379", "-o", "process=forward", "--nemesis", "pause")
    refused(Exit.HARNESS, "answers for a member, but does not listen at its peer port", *proxy)
    refused(Exit.HARNESS, "there is no server of etcd that fits", *proxy[:2])
    begin(site, "other", 22379, nodes=1)
    site.on(0, "until ss -Hltn | grep -q :22379; do sleep 0.2; done")
    before = state(site)
    try:
        refused(Exit.HARNESS, "n1: more than one server could be meant: process")
    finally:
        stop = "kill $(ss -Hltnp 'sport = :22379' | grep -o 'pid=[0-9]*' | cut -d = -f 2)"
        site.on(0, f"{stop}; sleep 0.5; rm -r /srv/site/other0")


@pytest.mark.selftest
def test_a_member_that_its_owner_stops_meanwhile_is_told(site: Machines, tmp_path: Path) -> None:
    log = tmp_path / "log"
    words = ("--workload", "register", "--nemesis", "none", "--time-limit", "20")
    process = start(log, *CALM, *HERE, *words, "--store", tmp_path / "store")
    wait_for("load", lambda: "ok/s" in log.read_text(), 60)
    time.sleep(3)
    site.on(2, "kill $(pidof etcd)")
    code = process.wait(timeout=240)
    assert code == Exit.NOT_PROVEN, log.read_text()
    audit = json.dumps(verdict_of(latest(tmp_path / "store")))
    assert "ends of processes that no fault explains: n3: process" in audit
    assert site.on(2, "pidof etcd; :") == ""
