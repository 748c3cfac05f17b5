"""`dstest lab`: which lab is meant, who uses it, what is left on it. No lab is made here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_meta import PLANNED
from typer.testing import CliRunner, Result

from dstest.cli.app import app
from dstest.cli.lab_chores import ours_first
from dstest.cli.lab_common import lab_left
from dstest.core import registry
from dstest.core.errors import ConfigError, Exit
from dstest.core.node import LabInfo, Login, NodeInfo
from dstest.core.protocols import Lab
from dstest.core.residue import Leftover
from dstest.core.run_record import RunMeta
from dstest.runner import adoption
from dstest.runner.adoption import lab_of_run, lock_of, users_of


class Labs(Lab):
    """Implements `Lab` and `Inspects` over a table: lab id -> state."""

    name = "table"
    doc = "for tests"

    def __init__(self, **states: str) -> None:
        self.states = states
        self.owners: dict[str, list[int]] = {}
        self.gone: list[str] = []
        self.nodes = [NodeInfo(name="n1", address="192.0.2.1")]

    def known(self, lab_id: str) -> LabInfo | None:
        if lab_id not in self.states:
            return None
        return LabInfo(lab_id=lab_id, kind="table", nodes=self.nodes, control=f"test-{lab_id}")

    def status(self, lab_id: str) -> LabInfo | None:
        return self.known(lab_id) if self.states.get(lab_id) == "running" else None

    def examine(self, lab_id: str) -> list[str]:
        return ["node n1 does not run"] if self.states.get(lab_id) == "broken" else []

    def users(self, lab_id: str) -> list[int]:
        return self.owners.get(lab_id, [])

    def starting(self, lab_id: str) -> bool:
        return self.states.get(lab_id) == "starting"

    def down(self, lab_id: str) -> list[str]:
        self.gone.append(lab_id)
        return [f"directory {lab_id}"] if self.states.pop(lab_id, None) else []

    def list(self) -> list[str]:
        return sorted(self.states)


@pytest.fixture
def labs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Labs:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "labs"))
    made = Labs(alpha="running", beta="running")
    load, names = registry.load, registry.names
    monkeypatch.setattr(
        registry, "load", lambda group, name: made if group == "labs" else load(group, name)
    )
    monkeypatch.setattr(
        registry, "names", lambda group, **_: ["lxc"] if group == "labs" else names(group)
    )
    monkeypatch.setattr(adoption, "left_on", lambda _: {})
    return made


def dstest(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["lab", *arguments])


HOLD = """
import fcntl, pathlib, sys, time
lock, run = sys.argv[1:]
segment = pathlib.Path(run) / "segments" / "control.seg"
segment.parent.mkdir(parents=True)
pathlib.Path(lock).parent.mkdir(parents=True, exist_ok=True)
kept = [open(lock, "a"), segment.open("wb")]
fcntl.flock(kept[0], fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def user(labs: Labs, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A run in lab alpha."""
    info = labs.known("alpha")
    assert info is not None
    run = tmp_path / "store" / "x" / "now-7"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock_of(info)), str(run)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid, run
        child.kill()


def test_a_lab_in_use_is_not_taken_down(labs: Labs, user: tuple[int, Path]) -> None:
    pid, run = user
    done = dstest("down", "--lab-id", "alpha")
    assert done.exit_code == 2
    assert f"lab alpha is in use by run {run} (pid {pid})" in done.stderr
    assert "--force" in done.stderr
    assert labs.gone == []
    assert dstest("down", "--lab-id", "alpha", "--force").exit_code == 0
    assert labs.gone == ["alpha"]


def test_a_broken_lab_of_a_run_is_in_use(labs: Labs, user: tuple[int, Path]) -> None:
    """A nemesis that restarts nodes has them down: the lab is not whole, and a run uses it."""
    labs.states["alpha"] = "broken"
    assert dstest("down", "--lab-id", "alpha").exit_code == 2
    assert labs.gone == []
    seen = dstest("status", "--lab-id", "alpha")
    assert "lab alpha: in use" in seen.stdout
    assert f"pid {user[0]}" in seen.stdout
    assert seen.exit_code == 4


def test_all_labs_but_those_in_use(labs: Labs, user: tuple[int, Path]) -> None:
    done = dstest("down", "--all")
    assert done.exit_code == 2
    assert f"lab alpha is in use by run {user[1]}" in done.stderr
    assert labs.gone == ["beta"]
    assert dstest("down", "--all", "--force").exit_code == 0
    assert labs.gone == ["beta", "alpha"]


def test_a_lab_that_is_brought_up_is_in_use(labs: Labs) -> None:
    labs.states["gamma"] = "starting"
    labs.owners["gamma"] = [1]
    done = dstest("down", "--lab-id", "gamma")
    assert done.exit_code == 2
    assert "(pid 1)" in done.stderr
    assert labs.gone == []
    assert "gamma  starting" in dstest("list").stdout


def test_nobody_uses_it(labs: Labs) -> None:
    assert users_of(labs, "alpha") == []
    assert dstest("down", "--lab-id", "alpha").exit_code == 0
    nothing = dstest("down", "--lab-id", "nosuch")
    assert (nothing.exit_code, nothing.stderr) == (0, "there was nothing of lab nosuch\n")


def test_status_shows_all_labs(labs: Labs) -> None:
    labs.states["run-7"] = "broken"
    shown = dstest("status")
    assert shown.exit_code == 4
    assert shown.stdout.splitlines() == [
        "lab alpha: running",
        "  n1  192.0.2.1",
        "lab beta: running",
        "  n1  192.0.2.1",
        "lab run-7: broken",
        "  node n1 does not run",
    ]
    assert shown.stderr == "remedy: dstest lab down --lab-id run-7\n"
    one = dstest("status", "--lab-id", "beta")
    assert (one.exit_code, one.stdout.splitlines()[0]) == (0, "lab beta: running")
    assert "alpha" not in one.stdout


def test_an_absent_lab_has_a_next_step(labs: Labs) -> None:
    done = dstest("status", "--lab-id", "nosuch")
    assert (done.exit_code, done.stdout) == (4, "lab nosuch: absent\n")
    assert "dstest lab up --lab-id nosuch" in done.stderr
    labs.states.clear()
    none = dstest("status")
    assert (none.exit_code, none.stdout) == (4, "there is no lab\n")
    assert "dstest lab up" in none.stderr


def test_status_as_json(labs: Labs) -> None:
    one = msgspec.json.decode(dstest("status", "--lab-id", "alpha", "--json").stdout)
    assert (one["lab_id"], one["kind"], one["state"]) == ("alpha", "lxc", "running")
    assert "labs" not in one
    labs.states["default"] = "running"
    every = msgspec.json.decode(dstest("status", "--json").stdout)
    assert every["lab_id"] == "default"
    assert [lab["lab_id"] for lab in every["labs"]] == ["alpha", "beta", "default"]


SERVER = Leftover(residue="server", what="server 686 (etcd)", ours=True, kept=True)
TABLE = Leftover(residue="rules", what="table inet dstest_fault", ours=True)
ALIEN = Leftover(residue="rules", what="table inet firewall", ours=False)


@pytest.mark.parametrize(
    ("left", "said", "code"),
    [
        ([SERVER], ["server 686 (etcd) (healed, kept)"], 0),
        ([TABLE], ["table inet dstest_fault (left by a run)"], 3),
        (
            [TABLE, SERVER],
            ["table inet dstest_fault (left by a run)", "server 686 (etcd) (left by a run)"],
            3,
        ),
        ([SERVER, ALIEN], ["server 686 (etcd) (left by a run)", "firewall (not ours)"], 3),
    ],
)
def test_healed_only_when_nothing_stands(
    labs: Labs, monkeypatch: pytest.MonkeyPatch, left: list[Leftover], said: list[str], code: int
) -> None:
    monkeypatch.setattr(adoption, "left_on", lambda _: {"n1": left, "n2": [SERVER]})
    shown = dstest("status", "--lab-id", "alpha")
    assert shown.exit_code == 0
    assert all(line in shown.stdout for line in said)
    assert "n2: server 686 (etcd) (healed, kept)" in shown.stdout
    assert dstest("status", "--lab-id", "alpha", "--clean").exit_code == code


def test_not_looked_at_is_not_clean(labs: Labs, user: tuple[int, Path]) -> None:
    shown = dstest("status", "--lab-id", "alpha", "--clean")
    assert shown.exit_code == 3
    assert "were not looked at" in shown.stdout


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("n1", "-- n1"),
        ("n1 --lab-id x", "--lab-id x -- n1"),
        ("n1 --lab-id=x uptime", "--lab-id=x -- n1 uptime"),
        ("--lab-id x n1 ls -la", "--lab-id x -- n1 ls -la"),
        ("n1 --lab-id x -- df --all", "--lab-id x -- n1 df --all"),
        ("n1 -- --lab-id x", "-- n1 --lab-id x"),
        ("--all -- df --all", "--all -- df --all"),
        ("--all uptime", "--all -- uptime"),
        ("n1 ls --help", "-- n1 ls --help"),
        ("n1 --help", "--help -- n1"),
        ("--lab-id", "--lab-id --"),
        ("n1 sh -c 'a -- b' -- c", "-- n1 sh -c 'a -- b' c"),
    ],
)
def test_our_options_of_ssh(given: str, taken: str) -> None:
    import shlex

    assert ours_first(shlex.split(given)) == shlex.split(taken)


@pytest.mark.parametrize("given", ["n1 uptime --lab-id x", "n1 df --all", "--all df --lab=lxc"])
def test_ours_within_a_command_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="within the command") as told:
        ours_first(given.split())
    assert "--" in str(told.value.remedy)


def test_ssh_asks_for_the_lab_that_was_named(labs: Labs) -> None:
    done = dstest("ssh", "n1", "--lab-id", "nosuch")
    assert "lab nosuch is not running" in str(done.exception)


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"lab_id": "alpha", "pid": 7}, "alpha"),
        ({"lab_id": "gone", "pid": 7}, None),
        ({"pid": 7}, "run-7"),
        ({"pid": 8}, None),
        ({}, None),
    ],
)
def test_the_lab_of_a_run(labs: Labs, facts: dict[str, Any], found: str | None) -> None:
    labs.states["run-7"] = "broken"
    assert lab_of_run(labs, RunMeta.of(PLANNED | facts)) == found


def test_a_lab_that_somebody_uses_is_not_offered_for_removal(
    labs: Labs, user: tuple[int, Path]
) -> None:
    """As that of a run whose directory was copied while it went on."""
    pid, run = user
    of_alpha = RunMeta.of(PLANNED | {"lab": "table", "lab_id": "alpha"})
    assert lab_left(of_alpha) == f"its lab alpha is still there, and in use: run {run} (pid {pid})"
    of_beta = RunMeta.of(PLANNED | {"lab": "table", "lab_id": "beta"})
    assert "`dstest lab down --lab-id beta` removes it" in (lab_left(of_beta) or "")


def test_a_lab_is_found_by_its_id_whatever_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"lxc": Labs(alpha="running"), "vagrant": Labs(beta="running")}
    load, names = registry.load, registry.names
    monkeypatch.setattr(
        registry, "load", lambda group, name: kinds[name] if group == "labs" else load(group, name)
    )
    monkeypatch.setattr(
        registry, "names", lambda group, **_: sorted(kinds) if group == "labs" else names(group)
    )
    monkeypatch.setattr(adoption, "left_on", lambda _: {})
    listed = json.loads(dstest("list", "--json").stdout)
    assert [(row["lab_id"], row["kind"]) for row in listed] == [
        ("alpha", "lxc"),
        ("beta", "vagrant"),
    ]
    assert dstest("status", "--lab-id", "beta").exit_code == 0
    assert dstest("status", "--lab-id", "beta", "--lab", "lxc").exit_code == Exit.HARNESS
    assert "lab beta is gone" in dstest("down", "--lab-id", "beta").stderr
    assert not kinds["vagrant"].states
    assert kinds["lxc"].states


@pytest.fixture
def chores(labs: Labs, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """What ran where, in place of connections: n1 is well, whatever is asked of it."""
    from clusters.remote import chores as tasks
    from clusters.remote.chores import CommandResult

    ran: list[tuple[str, list[str]]] = []
    member = '{"services": [{"name": "etcd", "log": "/var/log/etcd.log"}]}'

    def run_on(info: NodeInfo, argv: list[str], *_: Any, **given: Any) -> CommandResult:
        # A shell has its command in its environment, where no list of processes shows it.
        argv = [*argv[:2], *given["env"].values()] if "env" in given else argv
        ran.append((info.name, list(argv)))
        if argv[0] == "cat":
            return CommandResult(status=0, stdout=member)
        steers = "\x1b[2J\x9b31m" if "steers" in argv[-1] else ""
        return CommandResult(status=3 if "false" in argv[-1] else 0, stdout=f"{steers}said\n")

    monkeypatch.setattr(tasks, "run_on", run_on)
    return ran


def test_exec_takes_the_words_after_its_options(chores: list[tuple[str, list[str]]]) -> None:
    done = dstest("exec", "--lab-id", "alpha", "--", "df", "--all")
    assert (done.exit_code, done.stdout) == (0, "== n1: status 0\nsaid\n")
    assert chores == [("n1", ["sh", "-c", "df --all"])]
    bad = dstest("exec", "--lab-id", "alpha", "--json", "--", "false")
    assert bad.exit_code == Exit.HARNESS
    told = json.loads(bad.stdout)
    assert (told["lab_id"], told["nodes"]["n1"]["status"]) == ("alpha", 3)
    assert told["nodes"]["n1"]["ok"] is False


@pytest.mark.parametrize("as_json", [True, False])
def test_what_a_node_says_steers_no_terminal(
    chores: list[tuple[str, list[str]]], as_json: bool
) -> None:
    more = ["--json"] if as_json else []
    done = dstest("exec", "--lab-id", "alpha", *more, "--", "steers")
    assert not {c for c in done.stdout if not c.isprintable()} - {"\n"}
    if as_json:
        assert json.loads(done.stdout)["nodes"]["n1"]["stdout"] == "\x1b[2J\x9b31msaid\n"


def test_exec_goes_to_nodes_of_a_lab_that_is_not_whole(
    labs: Labs, chores: list[tuple[str, list[str]]]
) -> None:
    labs.states["alpha"] = "broken"
    assert dstest("exec", "--lab-id", "alpha", "--", "true").exit_code == 0
    absent = dstest("exec", "--lab-id", "nosuch", "--", "true")
    assert "lab nosuch is not running" in str(absent.exception)


@pytest.mark.parametrize(
    ("words", "why"),
    [(["--node", "n9"], "has no n9"), (["--role", "nosuch"], "has a role or a service nosuch")],
)
def test_nodes_that_are_none(
    chores: list[tuple[str, list[str]]], words: list[str], why: str
) -> None:
    done = dstest("exec", "--lab-id", "alpha", *words, "--", "true")
    assert isinstance(done.exception, ConfigError)
    assert why in done.exception.message
    assert not any(argv[0] == "sh" for _, argv in chores)


def test_roles_are_those_of_the_list_of_machines_and_services(
    labs: Labs, chores: list[tuple[str, list[str]]]
) -> None:
    labs.nodes = [
        NodeInfo(name="n1", address="192.0.2.1", roles=("web",)),
        NodeInfo(name="n2", address="192.0.2.2", roles=("db", "etcd")),
        NodeInfo(name="n3", address="192.0.2.3"),
    ]

    def asked(*words: str) -> list[str]:
        chores.clear()
        assert dstest(*words).exit_code == 0
        return sorted(name for name, argv in chores if argv[0] != "cat")

    run = ("exec", "--lab-id", "alpha")
    assert asked(*run, "--role", "web", "--", "true") == ["n1"]
    assert asked(*run, "--role", "etcd", "--", "true") == ["n2"]
    assert asked(*run, "--node", "n1", "--node", "n3", "--", "true") == ["n1", "n3"]
    assert asked("logs", "--lab-id", "alpha", "--role", "db") == ["n2"]
    labs.nodes = [NodeInfo(name="n3", address="192.0.2.3")]
    assert asked(*run, "--role", "etcd", "--", "true") == ["n3"]


def test_a_shell_goes_through_jump_hosts(labs: Labs, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda _, argv: became.append(argv))
    jump = Login(host="198.51.100.1", user="jump", known_hosts_path="/k")
    labs.nodes = [NodeInfo(name="n1", address="192.0.2.1", ssh_host="10.0.0.1", jumps=(jump,))]
    dstest("shell", "n1", "--lab-id", "alpha")
    assert became[0][-4:] == ["-l", "root", "--", "10.0.0.1"]
    assert any("-l jump -- 198.51.100.1" in word for word in became[0])


def test_logs_are_those_of_the_services(chores: list[tuple[str, list[str]]]) -> None:
    assert dstest("logs", "--lab-id", "alpha", "--max-kb", "2").exit_code == 0
    assert chores[-1] == ("n1", ["tail", "-v", "-c", "2000", "--", "/var/log/etcd.log"])
    none = dstest("logs", "--lab-id", "alpha", "--role", "nosuch")
    assert "no service nosuch" in str(none.exception)


def test_get_and_put_say_what_is_wrong_at_once(
    chores: list[tuple[str, list[str]]], tmp_path: Path
) -> None:
    for words in (["get", "var/log", tmp_path], ["put", tmp_path, "/x"]):
        done = dstest(*map(str, words), "--lab-id", "alpha")
        assert isinstance(done.exception, ConfigError)
    assert chores == []


def test_shell_is_ssh_without_a_command(labs: Labs, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[list[str]] = []
    monkeypatch.setattr("os.execvp", lambda _, argv: became.append(argv))
    dstest("shell", "n1", "--lab-id", "alpha")
    dstest("ssh", "n1", "--lab-id", "alpha")
    assert became[0] == became[1]
    assert became[0][-1] == "192.0.2.1"
    assert isinstance(dstest("shell", "n9", "--lab-id", "alpha").exception, ConfigError)


def test_gc_takes_images_where_that_is_asked(labs: Labs, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def gc(*, images: bool) -> list[str]:
        asked.append(images)
        return ["image debian"] if images else []

    monkeypatch.setattr(labs, "gc", gc, raising=False)
    assert dstest("gc").output == "nothing to remove\n"
    done = dstest("gc", "--images")
    assert done.output == "removed image debian\n1 things removed\n"
    assert asked == [False, True]
