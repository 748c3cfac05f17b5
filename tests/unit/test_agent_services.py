"""Services on a node: all their processes are found, whatever they fork; one way to start them."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.remote import agent_groups, agent_probe
from clusters.remote.agent_exec import Refused, process_info
from clusters.remote.agent_groups import Groups
from clusters.remote.agent_services import Services, lock, signal_services, strike, wait_for_end

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

FORKS = """\
import os, sys, time
def child(depth):
    if os.fork() == 0:
        os.setsid()
        if depth:
            child(depth - 1)
            os._exit(0)
        time.sleep(60)
for _ in range(2):
    child(2)
time.sleep(60)
"""
"""Two grandchildren in sessions of their own, whose parents have ended."""


class Node:
    """A member of some services, as the program on a node sees it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.names: list[str] = []

    def put(self, *specs: dict[str, Any]) -> None:
        rows = []
        for spec in specs:
            # Unique: another test on this host may have a group of the same name.
            blank = {"user": "root", "env": {}, "cwd": "/", "files": {}, "directories": []}
            ending = {"ending": {"signal": int(signal.SIGTERM)}}
            rest = {"prepare": [], "data": [], "log": str(self.home / f"{spec['name']}.log")}
            rows.append({**blank, **ending, **rest, **spec})
        self.names = [row["name"] for row in rows]
        (self.home / "member.json").write_text(json.dumps({"services": rows}))

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        program = (
            "import sys; from pathlib import Path; from clusters.remote import agent_services as a;"
            "sys.exit(a.main(sys.argv[2:], Path(sys.argv[1])))"
        )
        argv = [sys.executable, "-c", program, str(self.home), *words]
        return subprocess.run(
            argv, check=check, capture_output=True, text=True, timeout=60, cwd=ROOT
        )

    def rows(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("list").stdout)
        return found

    def pids(self, name: str) -> list[int]:
        return [pid for pid, _ in Services(self.home).all_of(name)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.run("stop")


@pytest.fixture(params=["group", "descent"])
def either(node: Node, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Node:
    """With control groups, and without."""
    if request.param == "group" and agent_groups.Groups().of("x") is None:
        pytest.skip("no control group can be written on this host")
    if request.param == "descent":
        monkeypatch.setattr(agent_groups, "_mounts", list)
        node.run = lambda *words, check=True: _inside(node, words)  # type: ignore[method-assign]
    return node


def _inside(node: Node, words: tuple[str, ...]) -> Any:
    """As the program, in a process of its own that has no control groups either."""
    program = (
        "import sys; from pathlib import Path; from clusters.remote import agent_groups as g;"
        "g._mounts = list; from clusters.remote import agent_services as a;"
        "sys.exit(a.main(sys.argv[2:], Path(sys.argv[1])))"
    )
    argv = [sys.executable, "-c", program, str(node.home), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60, cwd=ROOT)


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def name_of(node: Node, what: str) -> str:
    """A name that no other test on this host has."""
    return f"{what}-{os.getpid()}-{abs(hash(node.home)) % 10**6}"


def test_everything_that_is_forked_is_found_and_killed(node: Node) -> None:
    if agent_groups.Groups().of("x") is None:
        pytest.skip("no control group can be written on this host")
    name = name_of(node, "forks")
    node.put({"name": name, "argv": [sys.executable, "-c", FORKS]})
    node.run("start")
    # The main process and two grandchildren; those in between have ended.
    until(lambda: len(node.pids(name)) == 3)
    (row,) = node.rows().values()
    assert row["main"] == row["processes"][0]
    assert row["exit"] is None
    main = row["main"][0]
    parents = {_parent(pid) for pid in node.pids(name)[1:]}
    assert main not in parents, "they descend from nobody that is left"
    os.kill(main, signal.SIGKILL)
    until(lambda: node.rows()[name]["main"] is None)
    assert len(node.pids(name)) == 2
    assert node.rows()[name]["exit"]["status"] == -9
    assert f"stray server {node.pids(name)[0]} of {name}" in node.run("residue", "look").stdout
    node.run("start")
    assert main not in node.pids(name)
    until(lambda: len(node.pids(name)) == 3)
    node.run("stop")
    assert node.pids(name) == []


def test_signals_reach_all_and_an_end_is_asked_of_the_main_one(either: Node) -> None:
    name = name_of(either, "parent")
    script = "trap 'exit 7' TERM; sleep 60 & while :; do sleep 0.05; done"
    either.put({"name": name, "argv": ["sh", "-c", script]})
    either.run("start")
    until(lambda: len(either.pids(name)) >= 3)
    either.run("signal", str(int(signal.SIGSTOP)))
    rows = Services(either.home).all_of(name)
    until(lambda: all(row["running"] == 0 for row in agent_probe.look(rows)))
    either.run("signal", str(int(signal.SIGCONT)))
    assert any(row["running"] for row in agent_probe.look(Services(either.home).all_of(name)))
    either.run("terminate")
    until(lambda: Services(either.home).main_of(name) is None)
    until(lambda: (either.home / name / "exit").exists())
    assert json.loads((either.home / name / "exit").read_text())["status"] == 7
    either.run("kill")
    assert either.pids(name) == []


def test_each_service_is_asked_to_end_in_its_own_way(node: Node) -> None:
    polite, deaf = name_of(node, "polite"), name_of(node, "deaf")
    script = "trap '' TERM; trap 'exit 7' INT; while :; do sleep 0.05; done"
    argv = ["sh", "-c", script]
    node.put(
        {"name": polite, "argv": argv, "ending": {"signal": int(signal.SIGINT)}},
        {"name": deaf, "argv": argv},
    )
    node.run("start")
    # A shell that has not set its traps yet would end by either.
    time.sleep(0.5)
    node.run("terminate")
    until(lambda: (node.home / polite / "exit").exists())
    assert json.loads((node.home / polite / "exit").read_text())["status"] == 7
    assert Services(node.home).main_of(deaf) is not None


def test_a_group_is_frozen_and_thawed_and_dies_frozen(node: Node) -> None:
    if agent_groups.Groups().of("x") is None:
        pytest.skip("no control group can be written on this host")
    name = name_of(node, "frozen")
    node.put({"name": name, "argv": ["sh", "-c", "while :; do :; done"]})
    node.run("start")
    node.run("freeze")
    (row,) = agent_probe.look(Services(node.home).all_of(name))
    assert row["frozen"].endswith(name)
    assert node.rows()[name]["frozen"]
    assert node.run("residue", "frozen").stdout == f"ours frozen service {name}\n"
    node.run("thaw")
    (row,) = agent_probe.look(Services(node.home).all_of(name))
    assert row["frozen"] == ""
    node.run("freeze")
    node.run("stop")
    assert node.pids(name) == []
    group = agent_groups.Groups().of(name)
    assert group is not None
    assert not Path(group["path"]).exists()


def test_start_does_nothing_to_what_runs_and_brings_back_what_does_not(either: Node) -> None:
    first, second = name_of(either, "first"), name_of(either, "second")
    either.put(*({"name": n, "argv": ["/bin/sleep", "60"]} for n in (first, second)))
    either.run("start")
    before = [either.pids(n) for n in (first, second)]
    either.run("start")
    assert [either.pids(n) for n in (first, second)] == before
    either.run("kill", second)
    assert [either.pids(n) for n in (first, second)] == [before[0], []]
    either.run("start")
    assert either.pids(first) == before[0]
    assert either.pids(second) not in ([], before[1])


def test_what_a_caller_has_set_for_itself_is_not_handed_on(node: Node) -> None:
    name = name_of(node, "limits")
    node.put({"name": name, "argv": ["/bin/sleep", "60"], "env": {"A": "b"}})

    def spoil() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.umask(0o077)
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, resource.getrlimit(7)[1]))
        Path("/proc/self/oom_score_adj").write_text("300")

    program = (
        "import sys; from pathlib import Path; from clusters.remote import agent_services as a;"
        "sys.exit(a.main(sys.argv[2:], Path(sys.argv[1])))"
    )
    argv = [sys.executable, "-c", program, str(node.home), "start"]
    subprocess.run(argv, check=True, timeout=60, cwd=ROOT, preexec_fn=spoil)
    (pid,) = node.pids(name)
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    of_the_c_library = 1 << 31 | 1 << 32  # 32 and 33 are the C library's own, which no program sets
    assert int(status["SigIgn"], 16) & ~of_the_c_library == 0, status["SigIgn"]
    assert status["Umask"].strip() == "0022"
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "0"
    limits = Path(f"/proc/{pid}/limits").read_text()
    soft = next(line.split()[3] for line in limits.splitlines() if "open files" in line)
    assert int(soft) > 300
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    assert b"A=b" in environment
    assert b"HOME=/root" in environment


def test_files_and_preparation(node: Node, tmp_path: Path) -> None:
    """Files are laid where they are missing; commands run on empty data alone."""
    name, data, conf = name_of(node, "prepared"), tmp_path / "data", tmp_path / "etc" / "conf"
    node.put(
        {
            "name": name,
            "argv": ["/bin/sleep", "60"],
            "user": "nobody",
            "data": [str(data)],
            "files": {str(conf): base64.b64encode(b"as given").decode()},
            "prepare": [["sh", "-c", f"id -un >>{data}/ran"]],
        }
    )
    os.chmod(tmp_path, 0o755)
    for part in tmp_path.parents:
        if part.stat().st_uid == os.getuid() and part != Path("/"):
            part.chmod(0o755)
    node.run("start")
    assert (data / "ran").read_text() == "nobody\n"
    (pid,) = node.pids(name)
    assert "Uid:\t65534" in Path(f"/proc/{pid}/status").read_text()
    conf.write_text("changed by the server itself")
    node.run("stop")
    node.run("start")
    assert conf.read_text() == "changed by the server itself"
    assert (data / "ran").read_text() == "nobody\n"


def test_a_preparation_that_was_cut_off_begins_again_on_empty_data(
    node: Node, tmp_path: Path
) -> None:
    """As an initdb refuses a directory that is not empty."""
    name, data, gate = name_of(node, "halfway"), tmp_path / "data", tmp_path / "gate"
    script = f'[ -z "$(ls -A {data})" ] && touch {data}/half && [ -e {gate} ]'
    node.put(
        {
            "name": name,
            "argv": ["/bin/sleep", "60"],
            "data": [str(data)],
            "prepare": [["sh", "-c", script]],
        }
    )
    assert node.run("start", check=False).returncode == 1
    gate.touch()
    node.run("start")
    (data / "kept").touch()
    node.run("stop")
    node.run("start")
    assert sorted(p.name for p in data.iterdir()) == ["half", "kept"]


def test_an_override_holds_until_it_is_taken_back(node: Node) -> None:
    name = name_of(node, "other")
    node.put({"name": name, "argv": ["/bin/sleep", "60"]})
    node.run("start")
    override = node.home / name / "override.json"
    override.write_text(json.dumps({"program": "/usr/bin/tail", "argv": ["-f", "/dev/null"]}))
    argv = ["hold", "sh", "-c"]
    script = "from clusters.remote import agent_services as a; from pathlib import Path; "
    script += f"a.main(['stop'], Path('{node.home}')); a.main(['start'], Path('{node.home}'))"
    node.run(*argv, f'{sys.executable} -c "{script}"')
    (pid,) = node.pids(name)
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    assert words[:-1] == [b"/usr/bin/tail", b"60", b"-f", b"/dev/null"]
    override.unlink()
    node.run("stop")
    node.run("start")
    (pid,) = node.pids(name)
    assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"/bin/sleep\x0060\x00"


def test_one_after_the_other(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody holds the node, nobody starts anything; a fault does not wait."""
    from clusters.remote import agent_services

    monkeypatch.setattr(agent_services, "LOCK_S", 0.2)
    node.put({"name": name_of(node, "held"), "argv": ["/bin/sleep", "60"]})
    held = lock(node.home)
    with pytest.raises(Refused, match="another one starts or stops"):
        lock(node.home)
    node.run("kill")
    held.close()
    lock(node.home).close()


def test_what_cannot_be_started_says_why(node: Node) -> None:
    name = name_of(node, "wrong")
    node.put({"name": name, "argv": ["/no/such/program"]})
    done = node.run("start", check=False)
    assert done.returncode == 1
    assert f"{name} cannot be started" in done.stderr
    assert "No such file" in done.stderr
    assert node.rows()[name]["main"] is None
    done = node.run("start", "nobody-of-that-name", check=False)
    assert "no service nobody-of-that-name" in done.stderr


MOUNTS = """\
tmpfs /sys/fs/cgroup tmpfs ro,nosuid 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,nosuid,relatime 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,nosuid,freezer 0 0
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MOUNTS, {"kind": "v1", "path": "/sys/fs/cgroup/freezer/dstest-service-x"}),
        (
            MOUNTS.replace("rw,nosuid,freezer", "ro,freezer"),
            {"kind": "v2", "path": "/sys/fs/cgroup/unified/dstest/dstest-service-x"},
        ),
        ("cgroup2 /sys/fs/cgroup cgroup2 ro 0 0\n", None),
    ],
)
def test_which_hierarchy(text: str, found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    assert agent_groups.Groups().of("x") == found


def _parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text.rpartition(")")[2].split()[1])


def test_what_was_never_deployed_cannot_be_struck(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no member was deployed"):
        strike("kill", [], str(tmp_path))
    with pytest.raises(Refused, match="no member was deployed"):
        signal_services(int(signal.SIGSTOP), [], str(tmp_path))


def test_a_strike_is_what_the_program_does(node: Node) -> None:
    name = name_of(node, "struck")
    node.put({"name": name, "argv": ["/bin/sleep", "60"]})
    node.run("start")
    strike("kill", [name], str(node.home))
    assert node.pids(name) == []


def test_a_signal_ends_nothing_by_itself(node: Node) -> None:
    name = name_of(node, "signalled")
    node.put({"name": name, "argv": ["/bin/sleep", "60"]})
    node.run("start")
    with pytest.raises(Refused, match="SIGKILL is sent by `kill`"):
        signal_services(int(signal.SIGKILL), [name], str(node.home))
    signal_services(int(signal.SIGSTOP), [name], str(node.home))
    rows = Services(node.home).all_of(name)
    until(lambda: agent_probe.look(rows)[0]["running"] == 0)
    assert agent_probe.look(rows)[0]["alive"]
    signal_services(int(signal.SIGCONT), [name], str(node.home))
    strike("kill", [name], str(node.home))


def test_processes_of_other_pid_namespaces_are_no_members(tmp_path: Path) -> None:
    """They read 0, and a signal to 0 is for whoever sends it."""
    groups = Groups()
    groups._mount = ("v2", str(tmp_path))
    made = groups.of("db")
    assert made is not None
    Path(made["path"]).mkdir(parents=True)
    Path(made["path"], "cgroup.procs").write_text("0\n17\n0\n")
    assert groups.members("db") == [17]


def test_the_end_of_a_process_is_that_of_its_last_thread(tmp_path: Path) -> None:
    """A main thread that has ended leaves a zombie that still holds its ports."""
    script = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(0.5,)).start();"
        "print(flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    started = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        row = (process.pid, process_info(process.pid)["start_time"])
        until(lambda: not process_info(process.pid)["alive"])
        assert len(os.listdir(f"/proc/{process.pid}/task")) > 1
        wait_for_end([row], 0.05)
        assert len(os.listdir(f"/proc/{process.pid}/task")) > 1, "it waits no longer than it may"
        wait_for_end([row], 60.0)
        assert len(os.listdir(f"/proc/{process.pid}/task")) == 1
        wait_for_end([(row[0], row[1] + 1), (2**22 - 1, 1)], 60.0)
    assert time.monotonic() - started < 9.0
