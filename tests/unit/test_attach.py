"""Clusters that run already: how servers are found on a node, what is refused before anything is
touched, and how a command says it."""

from __future__ import annotations

import asyncio
import base64
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from clusters.supervise import attached
from clusters.supervise.attached import AttachedDeployment, candidate_of, heard_by, masked
from clusters.systems.etcd.attached import AttachedEtcd
from clusters.systems.etcd.system import SYSTEM
from clusters.systems.zookeeper.attached import _ELECTION
from dstest.core import registry
from dstest.core.attach import system_of
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Completed, NodeInfo
from dstest.core.protocols import FaultPlan, Probe, RunningServer
from dstest.core.run_record import RunMeta, RunSpec
from dstest.core.run_words import command_of
from dstest.runner.attached_run import AttachedRun
from dstest.runner.plugins import resolve
from dstest.runner.requirements import deployment_of, why_lacking
from nemeses.process.kill import NEMESIS as KILL
from nemeses.process.pause import NEMESIS as PAUSE

SHOWN = "MainPID=7\nLoadState=loaded\nTransient=no\nExecStop=\nNeedDaemonReload=no\n"
NOTHING = {"client_port": 0, "unit": "", "process": "", "start": ""}


class Machine:
    """A node on which processes listen: rows of (pid, parent, program, group, arguments, ports)."""

    def __init__(self, name: str, *rows: Any, unit: str = SHOWN) -> None:
        self.name, self.rows, self.unit = name, rows, unit
        self.info = NodeInfo(name=name, address="10.0.0.1", lab_id="x")
        self.ran: list[list[str]] = []

    async def run(self, argv: list[str], **_: Any) -> Completed:
        self.ran.append(argv)
        said = ""
        if argv[0] == "systemctl":
            said = self.unit
        elif argv[0] == "ss":
            said = "".join(
                f'LISTEN 0 128 {at} *:* users:(("x",pid={pid},fd=3))\n'
                for pid, _, _, _, _, ports in self.rows
                for at in ports
            )
        elif "readlink" in argv[2]:
            said = "".join(map(_line, self.rows))
        return Completed(status=0, stdout=said, stderr="")


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _line(row: Any) -> str:
    pid, parent, program, group, arguments, _ = row
    stat = f"{pid} (a) b) S {parent} {' '.join('0' * 17)} {1000 + pid} 0\n"
    words = "\0".join(arguments) + "\0"
    return f"{_b64(program)} {_b64(stat)} {_b64(group)} {_b64(words)}\n"


def etcd_at(pid: int, *ports: str, unit: str = "") -> Any:
    group = f"/system.slice/{unit} " if unit else "/user.slice/session-3.scope "
    return (pid, 1, "/usr/bin/etcd", group, ["etcd", "--name", f"m{pid}"], ports)


class Asked(AttachedDeployment):
    """Servers at even ports answer clients."""

    program = "etcd"
    service = "etcd"
    unwell = "is ill"
    well = True

    async def serves(self, node: Any, port: int) -> bool:
        return port % 2 == 0

    def probe_at(self, port: int) -> Probe:
        return Probe(port)

    async def healthy(self) -> dict[str, bool]:
        return dict.fromkeys(self.nodes, self.well)

    async def version_at(self, name: str) -> str:
        return "3.4.23" if name != "n2" else "3.5.0"

    async def take_away(self) -> None:
        return


def looked(*machines: Machine, **options: Any) -> Asked:
    made = Asked(machines, {**NOTHING, **options})  # type: ignore[arg-type]
    asyncio.run(made.look())
    return made


def test_a_server_is_found_by_its_program_and_the_port_that_answers() -> None:
    other = (9, 1, "/usr/sbin/sshd", "/", ["sshd"], ("0.0.0.0:22",))
    child = (8, 7, "/usr/bin/etcd", "/", ["etcd"], ("10.0.0.1:4000",))
    ours = etcd_at(7, "10.0.0.1:2400", "10.0.0.1:2381", "127.0.0.1:2402", unit="my.service")
    made = looked(Machine("n1", other, ours, child))
    server = made.found()["n1"]
    assert (server.pid, server.start_time, server.port) == (7, 1007, 2400)
    assert (server.unit, server.program, server.version) == (
        "my.service",
        "/usr/bin/etcd",
        "3.4.23",
    )
    assert server.arguments == ("etcd", "--name", "m7")
    (end,) = made.endpoints()
    assert (end.node, end.address, end.port) == ("n1", "10.0.0.1", 2400)
    assert end.prefix.startswith("/dstest-run-")
    assert end.prefix != looked(Machine("n1", ours)).endpoints()[0].prefix
    assert made.log_files() == {"n1": []}


def test_a_cluster_that_is_not_well_is_not_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, "well", False)
    with pytest.raises(LabError, match="n1 is ill"):
        looked(Machine("n1", etcd_at(7, "*:2400")))


def test_a_server_that_does_not_say_its_version_is_not_tested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(_: Asked, name: str) -> str:
        return ""

    monkeypatch.setattr(Asked, "version_at", nothing)
    with pytest.raises(LabError, match="n1 does not say its version"):
        looked(Machine("n1", etcd_at(7, "*:2400")))


def test_a_run_that_finds_no_server_says_that_it_has_touched_nothing() -> None:
    run = AttachedRun.__new__(AttachedRun)
    with pytest.raises(LabError, match=r"no server of etcd .*; nothing was touched\n *remedy: "):
        asyncio.run(run._look(Asked([Machine("n1")], NOTHING)))  # type: ignore[list-item]


def test_where_none_or_two_could_be_meant_nothing_is_touched() -> None:
    nobody = Machine("n1")
    with pytest.raises(LabError, match=r"n1: there is no server of etcd "):
        looked(nobody)
    local = Machine("n1", etcd_at(7, "127.0.0.1:2400"))
    with pytest.raises(LabError, match=r"no server of etcd that answers clients at 10.0.0.1"):
        looked(local)
    rows = (etcd_at(7, "*:2400", unit="a.service"), etcd_at(9, "[::]:3400", unit="b.service"))
    two = Machine("n1", *rows)
    with pytest.raises(LabError, match=r"more than one server.*process 7 of a.*process 9 of b"):
        looked(two)
    for machine in (nobody, local, two):
        said = [argv for argv in machine.ran if argv[0] != "ss" and "readlink" not in argv[2]]
        assert said == []
    for options in ({"client_port": 3400}, {"unit": "b.service"}, {"process": "--name m9"}):
        assert looked(two, **options).found()["n1"].pid == 9
    with pytest.raises(LabError, match=r"that fits -o unit=c\.service"):
        looked(two, unit="c.service")


def test_another_program_is_taken_where_an_option_names_it_and_it_answers() -> None:
    wrapped = (7, 1, "/opt/site/kv", "/", ["kv"], ("10.0.0.1:2400", "10.0.0.1:2401"))
    assert looked(Machine("n1", wrapped), process="kv").found()["n1"].program == "/opt/site/kv"
    with pytest.raises(LabError, match="there is no server"):
        looked(Machine("n1", wrapped), client_port=2401, process="kv")
    with pytest.raises(LabError, match="there is no server"):  # it may pass on what others answer
        looked(Machine("n1", wrapped), client_port=2400)


def test_addresses_of_both_families_are_the_same_ones() -> None:
    line = 'LISTEN 0 128 [::ffff:10.0.0.1]:2400 *:* users:(("java",pid=7,fd=3))'
    assert heard_by(line) == {7: {("10.0.0.1", 2400)}}


def test_members_of_different_versions_are_told() -> None:
    one, two = Machine("n1", etcd_at(7, "*:2400")), Machine("n2", etcd_at(7, "*:2400"))
    said = asyncio.run(looked(one, two).remarks())
    assert "the members are of different versions: n1 3.4.23, n2 3.5.0" in said
    assert asyncio.run(looked(one, two).version()) == "3.4.23, 3.5.0"
    assert not any("different" in line for line in asyncio.run(looked(one).remarks()))


@pytest.mark.parametrize(
    ("unit", "shown", "options", "why"),
    [
        ("a.service", SHOWN, {}, ""),
        ("", "", {}, "process 7 is in no unit of systemd"),
        ("a.service", SHOWN.replace("t=no", "t=yes"), {}, "a.service was made by systemd-run"),
        (
            "a.service",
            SHOWN.replace("=loaded", "=not-found"),
            {},
            "systemd does not know a.service",
        ),
        (
            "a.service",
            SHOWN.replace("7", "5"),
            {},
            "process 7 is not the main process of a.service",
        ),
        ("a.service", SHOWN + "RequiredBy=app.service\n", {}, "systemd would end app.service"),
        ("a.service", SHOWN + "ExecStop={ path=/bin/x }\n", {}, "has an ExecStop"),
        ("a.service", SHOWN + "ExecStopPost={ path=/bin/x }\n", {}, "has an ExecStopPost"),
        ("a.service", SHOWN + "NeedDaemonReload=yes\n", {}, "was changed"),
        ("a.service", SHOWN + "FailureAction=none\nOnFailure=\n", {}, ""),
        ("a.service", SHOWN + "FailureAction=reboot\n", {}, "FailureAction=reboot"),
        ("a.service", SHOWN + "OnFailure=mend.service\n", {}, "OnFailure=mend.service"),
        (
            "a.service",
            SHOWN + "FailureAction=reboot\n",
            {"start": "/srv/start"},
            "FailureAction=reboot",
        ),
        ("", "", {"start": "/srv/start"}, ""),
    ],
)
def test_a_kill_needs_somebody_who_starts_the_server(
    unit: str, shown: str, options: dict[str, Any], why: str
) -> None:
    made = looked(Machine("n1", etcd_at(7, "*:2400", unit=unit), unit=shown), **options)
    facts: dict[str, Any] = {"way": "signal"}
    kills, pauses = (
        [FaultPlan(fault_id="f1", nemesis=name, start_ns=0, duration_ns=1, facts=facts)]
        for name in ("kill", "pause")
    )
    said = [*why_lacking(made, KILL, kills)]
    assert [why in line for line in said] == ([True] if why else [])
    assert not [*why_lacking(made, PAUSE, pauses)]
    if not why:
        words = made.restart_command("n1")
        if options:
            assert words[3:] == ["* 0.0.0.0 :: 10.0.0.1", "/srv/start"]
            assert '[ -z "$(at 2400 "$0")" ] || exit 0' in words[2]
        else:
            assert words[2].endswith("systemctl start --no-block a.service")


def test_what_is_heard_of_listeners() -> None:
    text = (
        'LISTEN 0 4096 127.0.0.53%lo:53 0.0.0.0:* users:(("r",pid=5,fd=1))\n'
        'LISTEN 0 4096 [fd00::1]:2380 [::]:* users:(("e",pid=7,fd=1),("e",pid=8,fd=1))\n'
        "LISTEN 0 4096 *:9 *:*\n"
    )
    v6 = {("fd00::1", 2380)}
    assert heard_by(text) == {5: {("127.0.0.53", 53)}, 7: v6, 8: v6}


def test_a_process_whose_program_was_replaced_or_that_has_no_arguments() -> None:
    row = (7, 1, "/usr/bin/etcd (deleted)\n", "0::/ ", [""], ())
    found = candidate_of(_line(row).strip("\n"), {7: {("*", 1)}})
    assert (found.program, found.unit, found.pid, found.parent) == ("/usr/bin/etcd", "", 7, 1)


def test_secrets_among_arguments_are_not_kept() -> None:
    given = ["kv", "--password=hunter2", "--auth-token", "abc", "--name", "passive", "-x"]
    words = masked(("java", "DB_PASSWORD=hunter2", "x", "trustStore=/etc/secrets/x"))
    assert words == ("java", "DB_PASSWORD=***", "x", "trustStore=/etc/secrets/x")
    shell = masked(("sh", "-c", "etcd --password hunter2 --basic-auth=root:pw"))
    assert shell == ("sh", "-c", "etcd --password *** --basic-auth=***")
    assert masked(given) == ("kv", "--password=***", "--auth-token", "***", "--name", "passive",
                             "-x")  # fmt: skip


def spec(**fields: Any) -> RunSpec:
    return RunSpec(**{"lab": "hosts", "nemesis": "partition", "attach": True, **fields})


def test_only_faults_that_spare_servers_are_planned() -> None:
    plugins = resolve(spec(nemesis="partition,kill,pause"), [])
    assert deployment_of(plugins.system) is AttachedEtcd
    assert plugins.system.name == "etcd"
    spared = {
        name for name in registry.names("nemeses") if registry.load("nemeses", name).spares_servers
    }
    assert {"partition", "latency", "pause", "kill"} <= spared
    injecting = {
        name for name in registry.names("nemeses") if registry.load("nemeses", name).injects
    }
    for name in sorted(injecting - spared):
        with pytest.raises(ConfigError, match=rf"--attach: --nemesis {name} needs servers that"):
            resolve(spec(nemesis=name), [])
    for name in ("membership", "disk-full", "bit-rot", "clock", "restart", "backup", "memory"):
        assert name in injecting - spared


def test_a_unit_whose_name_the_shell_would_read_is_started_as_it_is_called() -> None:
    unit = r"etcd-\x2d$HOME.service"
    made = looked(Machine("n1", etcd_at(7, "*:2400", unit=unit)))
    script = f'systemctl() {{ echo "$@"; }}\n{made.restart_command("n1")[2]}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"reset-failed {unit}", f"start --no-block {unit}"]


@pytest.mark.parametrize("at", ["function:a", "syscall:fsync", "log:became leader"])
def test_no_fault_waits_for_a_moment_of_a_server_that_others_run(at: str) -> None:
    with pytest.raises(ConfigError, match=r"partition\.at=.*: --attach: .* others have started"):
        resolve(spec(), [f"partition.at={at}"])


def test_what_cannot_be_attached_to() -> None:
    with pytest.raises(ConfigError, match=r"toykv does not say how its servers are found"):
        system_of("toykv", attach=True)
    with pytest.raises(ConfigError, match="another build"):
        resolve(spec(builds=("x",)), [])
    with pytest.raises(ConfigError, match="revisions"):
        resolve(spec(workload="revisions"), [])
    with pytest.raises(ConfigError, match="heartbeat_ms"):
        resolve(spec(), ["heartbeat_ms=5"])
    with pytest.raises(ConfigError, match=r"way=freezer"):
        resolve(spec(nemesis="pause"), ["way=freezer"])
    assert system_of("etcd", attach=False) is SYSTEM


def test_the_record_and_the_command_say_it() -> None:
    server = RunningServer(port=1, pid=2, start_time=3, program="/e", arguments=("e",), version="9")
    plain = {"spec": {"attach": True}, "model": "m", "checkers": [], "nodes": ["n1"],
             "faults_planned": 0, "clock": {"name": "c", "resolution_ns": 1}}  # fmt: skip
    meta = RunMeta.of(plain)
    meta.attached = {"n1": server}
    assert RunMeta.of(meta.plain).attached == {"n1": server}
    assert "--attach" in command_of({"system": "etcd", "attach": True}, []).split()
    assert "--attach" not in command_of({"system": "etcd", "attach": False}, []).split()


class Members:
    """Answers of etcd members: (cluster, id, ids of all)."""

    def __init__(self, *rows: tuple[int, int, list[int]]) -> None:
        machines = [Machine(f"n{i + 1}") for i in range(len(rows))]
        self.made = AttachedEtcd(machines, NOTHING)  # type: ignore[arg-type]
        self.rows = dict(zip([m.name for m in machines], rows, strict=True))
        self.made._ask = self.ask  # type: ignore[method-assign]
        server = RunningServer(port=1, pid=2, start_time=3, program="/e", arguments=("e",))
        self.made._servers = dict.fromkeys(self.rows, server)
        self.made._heard = dict.fromkeys(self.rows, frozenset({2379, 2380}))
        self.alarms: list[str] = []

    async def ask(self, node: Any, method: str, request: Any, timeout_s: float) -> Any:
        cluster, own, every = self.rows[node.name]
        head = SimpleNamespace(cluster_id=cluster, member_id=own)
        urls = ["http://10.0.0.1:2380"]
        listed = [SimpleNamespace(ID=one, name=f"m{one}", peerURLs=urls) for one in every]
        said = {"members": listed, "leader": own, "raft_term": 1, "errors": self.alarms}
        return SimpleNamespace(header=head, **said)

    def check(self) -> None:
        asyncio.run(self.made.check())


def test_all_members_of_one_cluster_are_on_the_nodes() -> None:
    Members((1, 1, [1, 2]), (1, 2, [1, 2])).check()
    with pytest.raises(LabError, match="these are 2 clusters: n1 1, n2 2"):
        Members((1, 1, [1]), (2, 2, [2])).check()
    with pytest.raises(LabError, match="the cluster has 3 members, and m3 are on no node"):
        Members((1, 1, [1, 2, 3]), (1, 2, [1, 2, 3])).check()
    full = Members((1, 1, [1, 2]), (1, 2, [1, 2]))
    full.alarms = ["memberID:1 alarm:NOSPACE"]
    with pytest.raises(LabError, match="NOSPACE"):
        full.check()
    proxied = Members((1, 1, [1, 2]), (1, 2, [1, 2]))
    proxied.made._heard["n2"] = frozenset({2379})
    with pytest.raises(LabError, match=r"n2: process 2 .* does not listen at its peer port 2380"):
        proxied.check()


def test_scripts_are_for_any_shell(tmp_path: Any) -> None:
    for name in ("_DETAILS", "_PROCESSES", "_SIGNAL", "_KILL"):
        path = tmp_path / name
        path.write_text(getattr(attached, name))
        done = subprocess.run(["sh", "-n", path], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name


@pytest.mark.parametrize(
    ("line", "ports"),
    [
        ("server.1=db1:2888:3888:participant;0.0.0.0:2181", ["3888"]),
        ("server.1=db1:2888:3888", ["3888"]),
        ("server.1=db1:2888:3888|db2:2889:3889:participant;2181", ["3888", "3889"]),
        ("server.1=[fd00::1]:2888:3888:participant;2181", ["3888"]),
    ],
)
def test_election_ports_of_a_zookeeper_member(line: str, ports: list[str]) -> None:
    assert _ELECTION.findall(line) == ports
