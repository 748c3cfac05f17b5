"""Machines that exist already: adopted, tested, released as they were; and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from busy import assert_code
from existing_machines import PASSWORD, Machines
from runs import CALM, dstest, faults_of, latest

from clusters.labs import state
from clusters.labs.existing import book
from clusters.systems.etcd.on_node import HOME, REMOVED
from dstest.core.errors import Exit
from dstest.core.node import LabInfo
from dstest.extend.scaffold.write import KINDS, write

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(os.geteuid() != 0, reason="making nodes needs root"),
    pytest.mark.timeout(600),
]

LAB_ID = f"hosted-{os.getpid()}"


@pytest.fixture(scope="module")
def machines(
    tmp_path_factory: pytest.TempPathFactory, lab_packages: tuple[str, ...]
) -> Iterator[Machines]:
    found = Machines(tmp_path_factory.mktemp("machines"), lab_packages, f"bed-{os.getpid()}")
    yield found
    book.forget(LAB_ID)
    found.down()


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    yield
    if book.folder_of(LAB_ID).exists():
        dstest("lab", "release", "--lab-id", LAB_ID, "--forget", timeout_s=120)


def adopt(machines: Machines, *words: str, **changes: str) -> tuple[int, str]:
    path = machines.list(**changes)
    done = dstest("lab", "adopt", path, *words, "--lab-id", LAB_ID, "--yes", timeout_s=120)
    return done.returncode, done.stderr


def test_the_main_job_and_the_machines_are_as_they_were(machines: Machines, tmp_path: Path) -> None:
    code, said = adopt(machines)
    assert code == 0, said
    assert "n1  db-1  " in said
    assert "sudo with a password, through " in said
    assert "there already, left alone: table inet site" in said
    try:
        folder = book.folder_of(LAB_ID)
        modes = {p.name: p.stat().st_mode & 0o777 for p in (folder, *folder.iterdir())}
        assert modes.pop(LAB_ID) == 0o700
        assert set(modes.values()) == {0o600}
        listed = dstest("lab", "list", "--json")
        assert listed.returncode == 0, listed.stderr
        mine = {"lab_id": LAB_ID, "kind": "hosts", "state": "running"}
        assert mine in json.loads(listed.stdout)
        words = ("--lab", "hosts", "--lab-id", LAB_ID, "--nemesis", "partition,kill")
        more = (
            "--workload",
            "register",
            "-o",
            "fault_s=4",
            "-o",
            "quiet_s=8",
            "--time-limit",
            "33",
            "--seed",
            "7",
        )
        done = dstest(*CALM, *words, *more, "--store", tmp_path, timeout_s=300)
        assert_code(done.returncode, latest(tmp_path), done.stderr)
        run = latest(tmp_path)
        faults = faults_of(run)
        assert {fault["nemesis"] for fault in faults} == {"partition", "kill"}
        assert all(fault["landed"] == "yes" and fault["heal_verified"] for fault in faults)
        told = [p for p in run.rglob("*") if p.is_file() and PASSWORD.encode() in p.read_bytes()]
        assert told == []
        status = dstest("lab", "status", "--lab-id", LAB_ID, "--json")
        assert PASSWORD not in status.stdout
        down = dstest("lab", "down", "--lab-id", LAB_ID)
        assert down.returncode == Exit.USAGE
        assert "machines of yours" in down.stderr
    finally:
        released = dstest("lab", "release", "--lab-id", LAB_ID, timeout_s=120)
    assert released.stderr.strip() == f"lab {LAB_ID} is released"
    assert released.returncode == 0
    assert not book.folder_of(LAB_ID).exists()


@pytest.mark.selftest
def test_fewer_nodes_than_machines(machines: Machines, tmp_path: Path) -> None:
    """What a larger cluster has left on those that the next run leaves out is taken away first; a
    node is found by either of its names."""
    assert adopt(machines)[0] == 0
    here = ("--lab-id", LAB_ID)
    words = ("--lab", "hosts", *here, "--nemesis", "none", "--time-limit", "5")
    left = f"mkdir -p {HOME}; cp /etc/dstest-lab {HOME}/.dstest-lab; touch {REMOVED}"
    assert dstest("lab", "exec", *here, "--node", "db-5", "--", left).returncode == 0
    done = dstest(*CALM, *words, "--nodes", "3", "--store", tmp_path, timeout_s=200)
    assert done.returncode in (Exit.PASS, Exit.NOT_PROVEN), done.stderr
    assert "n3 (db-3)" in done.stderr
    assert "n4" not in json.loads((latest(tmp_path) / "run.json").read_bytes())["nodes"]
    seen = dstest("lab", "exec", *here, "--node", "n5", "--", f"ls -A {HOME}")
    assert seen.stdout.startswith("== n5 (db-5): status 0")
    assert seen.stdout.splitlines()[1:] == [".dstest-lab"]
    assert "n5: removed what an earlier run had left" in done.stderr
    released = dstest("lab", "release", *here, timeout_s=120)
    assert released.stderr.strip() == f"lab {LAB_ID} is released"


def test_a_system_of_ones_own_takes_nothing_over_and_leaves_nothing(
    machines: Machines, tmp_path: Path
) -> None:
    """Its directories are those of its services; the adoption has never heard of it."""
    system, _ = write(KINDS["system"], "own-store", tmp_path)
    machines.on(0, "mkdir -p /opt/own-store/data; echo precious >/opt/own-store/data/orders.db")
    code, said = adopt(machines, "--system", str(system))
    assert code == Exit.HARNESS, said
    assert "own-store cannot run on these machines: n1 (db-1): /opt/own-store is there" in said
    assert adopt(machines)[0] == 0
    command: list[str | Path] = [
        *CALM, "--system", system, "--workload", "register", "--nemesis", "none", "--lab", "hosts",
        "--lab-id", LAB_ID, "--seed", "3", "--time-limit", "6", "--store", tmp_path / "store",
    ]  # fmt: skip
    refused = dstest(*command)
    assert refused.returncode == Exit.HARNESS, refused.stderr
    assert "stands where the system would write: n1 has /opt/own-store" in refused.stderr
    assert machines.on(0, "cat /opt/own-store/data/orders.db") == "precious\n"
    assert [machines.on(i, "ls -A /opt") for i in range(1, 5)] == [""] * 4
    machines.on(0, "mv /opt/own-store /srv/theirs")
    ran = dstest(*command)
    assert ran.returncode in (Exit.PASS, Exit.NOT_PROVEN), ran.stderr  # six seconds prove little
    assert latest(tmp_path / "store").joinpath("verdict.json").is_file()
    machines.on(0, "echo mine >/opt/own-store/notes.txt")
    # Somebody moves the data to another disk: neither a run nor a release touches what is there.
    machines.on(0, "mkdir /srv/disk; echo ledger >/srv/disk/db")
    for there, gone, why in (
        ("mv data was; ln -s /srv/disk data", "rm data; mv was data", "a link leads from there"),
        ("mount --bind /srv/disk data", "umount data", "/opt/own-store/data is mounted"),
    ):
        machines.on(0, f"cd /opt/own-store; {there}")
        refused = dstest(*command)
        assert refused.returncode == Exit.HARNESS, refused.stderr
        assert "n1 has /opt/own-store/data (data of " in refused.stderr, refused.stderr[-700:]
        assert f"; {why})" in refused.stderr
        if "mount" in there:
            half = dstest("lab", "release", "--lab-id", LAB_ID)
            assert half.returncode == Exit.HARNESS, half.stderr
            assert "mounted in what is to be removed: /opt/own-store/data;" in half.stderr
        assert machines.on(0, "cat /srv/disk/db") == "ledger\n"
        machines.on(0, f"cd /opt/own-store; {gone}")
    machines.on(0, "rm -r /srv/disk")
    released = dstest("lab", "release", "--lab-id", LAB_ID)
    assert released.returncode == 0, released.stderr
    assert "left by dstest" not in released.stderr
    assert "n1 (db-1): changed by somebody else: /opt/own-store/notes.txt was" in released.stderr
    assert machines.on(0, "ls -A /opt/own-store; cat /opt/own-store/notes.txt") == (
        "notes.txt\nmine\n"
    )
    assert [machines.on(i, "ls -A /opt") for i in range(1, 5)] == [""] * 4
    machines.on(0, "rm -r /srv/theirs /opt/own-store")


def test_chores_go_the_same_way(machines: Machines, tmp_path: Path) -> None:
    """Through the jump host, by another port and by IPv6, with the password of sudo."""
    assert adopt(machines)[0] == 0

    def chore(word: str, *words: str | Path) -> dict[str, Any]:
        done = dstest("lab", word, "--lab-id", LAB_ID, "--json", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        nodes: dict[str, Any] = json.loads(done.stdout)["nodes"]
        assert len(nodes) == 5
        return nodes

    for words, who in (((), "root\n"), (("--no-root",), "ops\n")):
        said = chore("exec", *words, "--", "id -un")
        assert {row["stdout"] for row in said.values()} == {who}
        assert {row["stderr"] for row in said.values()} == {""}
    file = tmp_path / "file"
    file.write_bytes(os.urandom(1 << 20))
    chore("put", file, "/run/chore")
    chore("get", "/run/chore", tmp_path / "got")
    for name in said:
        assert (tmp_path / "got" / name / "chore").read_bytes() == file.read_bytes()
    chore("exec", "--", "rm /run/chore")
    shell = dstest("lab", "ssh", "--lab-id", LAB_ID, "n3", "--", "id", "-un")
    assert shell.stdout == "ops\n", shell.stderr
    released = dstest("lab", "release", "--lab-id", LAB_ID, timeout_s=120)
    assert released.returncode == 0, released.stderr


def test_what_somebody_else_has_changed_is_told(machines: Machines, tmp_path: Path) -> None:
    assert adopt(machines)[0] == 0
    """Among it a directory where a system of ours would write: it stays, and no run writes there.
    With --strict all of that is asked about again; without it is no fault of ours."""
    begin = "echo more >>/etc/motd; mkdir -p /srv/theirs /opt/etcd; nft add table ip theirs"
    machines.on(1, f"{begin}; echo theirs >/opt/etcd/data; echo '10.9.9.9 more' >>/etc/hosts")
    words = ("--lab", "hosts", "--lab-id", LAB_ID, "--nemesis", "none")
    run = dstest(*CALM, *words, "--store", tmp_path, timeout_s=120)
    assert run.returncode == Exit.HARNESS, run.stderr
    assert "n2 has /opt/etcd" in run.stderr
    strict = dstest("lab", "release", "--lab-id", LAB_ID, "--strict", timeout_s=120)
    assert strict.returncode == Exit.NOT_PROVEN, strict.stderr
    done = dstest("lab", "release", "--lab-id", LAB_ID, timeout_s=120)
    theirs = machines.on(1, "cat /opt/etcd/data; tail -n 1 /etc/hosts")
    machines.on(1, "rm -rf /etc/motd /srv/theirs /opt/etcd; nft delete table ip theirs")
    machines.on(1, "sed -i '/10.9.9.9 more/d' /etc/hosts")
    assert theirs == "theirs\n10.9.9.9 more\n"
    assert done.returncode == 0, done.stderr
    for what in (
        "/etc/motd is new",
        "/etc/hosts differs",
        "places: /srv/theirs is new",
        "places: /opt/etcd is new",
        "nft: table ip theirs { is new",
    ):
        assert f"n2 (db-2): changed by somebody else: {what}" in done.stderr
        assert f"n2 (db-2): changed by somebody else: {what}" in strict.stderr
    assert "n1 (db-1):" not in done.stderr
    assert "left by dstest" not in done.stderr + strict.stderr
    assert not book.folder_of(LAB_ID).exists()


def test_what_cannot_be_trusted_or_entered(machines: Machines, tmp_path: Path) -> None:
    """Nothing is changed on the machines, and nothing is kept here."""
    empty = tmp_path / "empty"
    empty.touch()
    code, said = adopt(machines, known_hosts=str(empty))
    assert code == Exit.HARNESS
    assert "a host key that nobody knows: SHA256:" in said
    text = machines.known.read_text().splitlines()
    other = Path(f"{machines.folder}/stranger.pub").read_text().split()
    lies = tmp_path / "lies"
    lies.write_text("".join(f"{line.split()[0]} {other[0]} {other[1]}\n" for line in text))
    for words in ((), ("--accept-host-keys",)):
        code, said = adopt(machines, *words, known_hosts=str(lies))
        assert code == Exit.HARNESS
        assert "shows another host key than the known one" in said
    code, said = adopt(machines, key=str(machines.folder / "stranger"))
    assert code == Exit.HARNESS
    assert "lets nobody in" in said
    code, said = adopt(machines, key="/nowhere/key")
    assert (code, "there is no key /nowhere/key" in said) == (Exit.HARNESS, True)
    code, said = adopt(machines, user="nobody-there")
    assert code == Exit.HARNESS
    machines.password.write_text("wrong\n")
    try:
        code, said = adopt(machines)
    finally:
        machines.password.write_text(PASSWORD + "\n")
    assert code == Exit.HARNESS
    assert "sudo refuses the password" in said
    assert not book.folder_of(LAB_ID).exists()
    assert machines.on(0, "ls -A /opt; ls /etc/dstest-lab 2>/dev/null; :").strip() == ""


def test_what_is_no_machine_of_its_own(machines: Machines, tmp_path: Path, lab: LabInfo) -> None:
    def refused(text: str, why: str, code: int = Exit.HARNESS) -> None:
        path = tmp_path / "nodes.toml"
        path.write_text(text)
        done = dstest("lab", "adopt", path, "--lab-id", LAB_ID, "--yes", "--accept-host-keys")
        assert done.returncode == code, done.stderr
        assert why in done.stderr

    way = f'key = "{machines.folder}/ops"\nuser = "ops"\n'
    jump = machines.info.nodes[5]
    way += (
        f'jump = {{ host = "{jump.address}", user = "jump", key = "{machines.folder}/jump" }}\n'
        f'sudo_password = {{ file = "{machines.password}" }}\n'
    )
    one, two = machines.info.nodes[:2]
    twice = f'[[node]]\nname="a"\naddress="{one.address}"\n[[node]]\nname="b"\n'
    refused(f'{way}{twice}address="{two.address}"\nssh="{one.address6}"\n', "are one machine")
    other = f'[[node]]\nname="a"\naddress="{jump.address}"\nssh="{one.address6}"\n'
    refused(way + other, f"a does not have {jump.address} itself")
    key = lab.nodes[0].key_path
    refused(
        f'key = "{key}"\n[[node]]\nname = "x"\naddress = "{lab.nodes[0].address}"\n',
        f"x belongs to lab '{lab.lab_id}' already",
    )
    refused('[[node]]\nname = "x"\naddress = "127.0.0.1"\n', "is this machine")


def test_without_an_adoption_or_an_answer(machines: Machines, tmp_path: Path) -> None:
    done = dstest(*CALM, "--lab", "hosts", "--nemesis", "partition", "--store", tmp_path)
    assert done.returncode == Exit.USAGE
    assert "no machines are adopted as lab" in done.stderr
    path = machines.list()
    done = dstest("lab", "adopt", path, "--lab-id", LAB_ID)
    assert done.returncode == Exit.USAGE
    assert "nobody is there to be asked" in done.stderr
    assert not book.folder_of(LAB_ID).exists()
    assert dstest("lab", "release", "--lab-id", LAB_ID).returncode == Exit.USAGE
    assert state.load(LAB_ID) is None


HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
NEW_HOST_KEY = f"""\
mv {HOST_KEY} /root/kept
ssh-keygen -q -t ed25519 -N '' -f /root/new
mv /root/new {HOST_KEY}
rm /root/new.pub
systemctl restart ssh
"""
TROUBLES = {
    "host key": (
        1,
        NEW_HOST_KEY,
        f"mv /root/kept {HOST_KEY}; systemctl restart ssh",
        "n2 (ops@fd77",
        "shows another host key than the pinned one",
    ),
    "key": (
        2,
        "mv /home/ops/.ssh/authorized_keys /root/kept",
        "mv /root/kept /home/ops/.ssh/authorized_keys",
        "n3 (ops@10",
        "refuses the login",
    ),
    "hung": (
        3,
        "kill -STOP $(cat /run/sshd.pid)",
        "kill -CONT $(cat /run/sshd.pid)",
        "n4 (10",
        "is not usable: no agent within",
    ),
    "password": (
        0,
        "cp -a /etc/shadow /root/kept; echo 'ops:another' | chpasswd",
        "mv /root/kept /etc/shadow",
        "n1",
        "sudo refuses the password",
    ),
    "disk": (
        4,
        "mount -t tmpfs -o size=4k tmpfs /opt; dd if=/dev/zero of=/opt/full bs=4k count=9 || :",
        "umount /opt",
        "n5",
        "No space left on device",
    ),
    "marker": (
        4,
        "mv /etc/dstest-lab /root/kept; echo another >/etc/dstest-lab",
        "mv /root/kept /etc/dstest-lab",
        "n5",
        "belongs to lab 'another'",
    ),
}
"""Index of the machine, how to make the trouble, how to end it, who and what is named."""


def test_machines_in_trouble_are_named_and_left_alone(machines: Machines, tmp_path: Path) -> None:
    """Each within a bounded time, with the exit code of the harness; the others stay clean."""
    assert adopt(machines)[0] == 0
    for kind, (index, begin, end, who, what) in TROUBLES.items():
        machines.on(index, begin)
        began = time.monotonic()
        try:
            words = ("--lab", "hosts", "--lab-id", LAB_ID, "--nemesis", "partition")
            done = dstest(*CALM, *words, "--store", tmp_path, "--seed", "7", timeout_s=120)
        finally:
            machines.on(index, end)
        assert done.returncode == Exit.HARNESS, (kind, done.stderr)
        assert who in done.stderr, (kind, done.stderr)
        assert what in done.stderr, (kind, done.stderr)
        assert time.monotonic() - began < 60, kind
        clean = dstest("lab", "status", "--lab-id", LAB_ID, "--clean", timeout_s=60)
        assert clean.returncode == 0, (kind, clean.stdout, clean.stderr)
    released = dstest("lab", "release", "--lab-id", LAB_ID, timeout_s=120)
    assert released.returncode == 0, released.stderr


def test_the_other_two_forms_of_lists_and_an_agent(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ssh_config with jump host and a key that only an agent has; an Ansible inventory."""
    jump, nodes = machines.info.nodes[5], machines.info.nodes[:2]
    said = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(SSH_\w+)=([^;]+);", said))
    monkeypatch.setenv("SSH_AUTH_SOCK", found["SSH_AUTH_SOCK"])
    monkeypatch.setenv("SSH_AGENT_PID", found["SSH_AGENT_PID"])
    try:
        subprocess.run(["ssh-add", "-q", machines.folder / "ops"], check=True)
        hosts = "".join(
            f"Host db{i}\n  HostName {node.address}\n  ProxyJump bastion\n  User ops\n"
            for i, node in enumerate(nodes, 1)
        )
        config = tmp_path / "ssh_config"
        config.write_text(
            f"{hosts}Host bastion\n  HostName {jump.address}\n  User jump\n"
            f"  IdentityFile {machines.folder}/jump\n"
            f"Host *\n  UserKnownHostsFile {machines.known}\n  IdentityFile /nowhere\n"
        )
        words = ("--lab-id", LAB_ID, "--yes")
        done = dstest("lab", "adopt", config, "db1", "db2", *words, timeout_s=120)
        assert done.returncode == Exit.HARNESS, done.stderr
        assert "sudo asks ops for a password, and none is given" in done.stderr
        for index in (0, 1):
            machines.on(index, "echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops")
        done = dstest("lab", "adopt", config, "db1", "db2", *words, timeout_s=120)
        assert done.returncode == 0, done.stderr
        ssh = dstest("lab", "ssh", "--lab-id", LAB_ID, "n2", "--", "id", "-un")
        assert ssh.stdout.strip() == "ops", ssh.stderr
        released = dstest("lab", "release", "--lab-id", LAB_ID, timeout_s=120)
        assert released.returncode == 0, released.stderr
    finally:
        subprocess.run(["ssh-agent", "-k"], check=True, stdout=subprocess.DEVNULL)
        for index in (0, 1):
            machines.on(index, "echo 'ops ALL=(ALL) ALL' >/etc/sudoers.d/ops")
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(
        "[db]\n"
        + "".join(f"db{i} ansible_host={node.address}\n" for i, node in enumerate(nodes, 1))
        + "[db:vars]\nansible_user=ops\n"
        f"ansible_ssh_private_key_file={machines.folder}/ops\n"
        f"ansible_become_password='{PASSWORD}'\n"
        f"ansible_ssh_common_args='-J jump@{jump.address} -F {tmp_path}/ssh_config'\n"
    )
    # Ansible names one key: the jump host takes it as well here, and its files know the hosts.
    key = (machines.folder / "ops.pub").read_text()
    machines.on(5, 'echo "$1" >>/home/jump/.ssh/authorized_keys', key)
    # Ansible goes by ssh, which has no other home than the user's.
    (tmp_path / "ssh_config").write_text(f"Host *\n  UserKnownHostsFile {machines.known}\n")
    done = dstest("lab", "adopt", inventory, "--lab-id", LAB_ID, "--yes", timeout_s=120)
    assert done.returncode == 0, done.stderr
    released = dstest("lab", "release", "--lab-id", LAB_ID, timeout_s=120)
    assert released.returncode == 0, released.stderr
