"""A record of adopted machines has one owner at a time; and adoptions that were cut off."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from test_adoption import adopting, machine
from typer.testing import CliRunner

from clusters.labs import hostcheck, rootless, state
from clusters.labs.existing import adopt, book
from clusters.labs.existing import survey as machines
from clusters.labs.existing.adopt import LAB as HOSTS
from clusters.labs.lxc import LAB as LXC
from dstest.cli.lab import lab_app, look_at, text_of
from dstest.core.errors import ConfigError, DstestError, Exit, LabError
from dstest.core.node import Made
from dstest.runner import adoption
from dstest.runner.session import of_size

pytestmark = pytest.mark.slow

HOLD = """
import sys
from clusters.labs.existing import adopt, book
with book.lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "labs"))
    return tmp_path


@pytest.fixture
def somebody() -> Iterator[subprocess.Popen[str]]:
    """Another process that adopts machines as lab `one`."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, "one"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def adopt_one(folder: Path) -> DstestError:
    nodes = folder / "nodes.toml"
    nodes.write_text('[[node]]\naddress = "192.0.2.1"\n')
    done = CliRunner().invoke(lab_app, ["adopt", str(nodes), "--lab-id", "one", "--yes"])
    assert isinstance(done.exception, DstestError), done.output
    return done.exception


def test_two_adoptions_at_once(
    folder: Path, somebody: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is refused, and harms nothing of the first one's."""
    secret = book.folder_of("one") / "sudo-n1"
    book.write_secret(secret, "x")
    asked: list[str] = []
    monkeypatch.setattr(machines, "survey", lambda *_: asked.append("x"))
    error = adopt_one(folder)
    assert isinstance(error, LabError)
    assert "lab one is being adopted" in str(error)
    assert secret.exists()
    assert asked == []


@pytest.mark.parametrize("more", [(), ("--forget",)])
def test_a_release_while_somebody_adopts(more: Any, somebody: subprocess.Popen[str]) -> None:
    book.save(adopting(machine()).adopted)
    done = CliRunner().invoke(lab_app, ["release", "--lab-id", "one", *more])
    assert isinstance(done.exception, LabError)
    assert "being adopted" in str(done.exception)
    assert book.load("one") is not None


def test_whoever_is_killed_is_no_owner(folder: Path, somebody: subprocess.Popen[str]) -> None:
    somebody.kill()
    somebody.wait(60)
    with book.lock("one"):
        pass
    assert not state.lock_path("lab-one").exists()


def test_what_a_killed_adoption_has_left_is_not_taken_over(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = book.folder_of("one") / "sudo-n1"
    book.write_secret(stale, "an old password")
    seen: list[bool] = []

    async def survey(*_: Any) -> Any:
        seen.append(stale.exists())
        raise LabError("nobody there")

    monkeypatch.setattr(machines, "survey", survey)
    assert "nobody there" in str(adopt_one(folder))
    assert seen == [False]
    assert state.adopted_ids() == []


def test_another_lab_of_this_id_meanwhile(folder: Path) -> None:
    book.save(adopting(machine()).adopted)
    with pytest.raises(ConfigError, match="machines of yours"):
        LXC.up("one", 3, packages=[])


def test_a_run_and_a_release_at_once() -> None:
    book.save(adopting(machine()).adopted)
    info = HOSTS.known("one")
    assert info is not None
    with adoption.alone(info):
        assert adoption.in_use(info)
        with pytest.raises(LabError, match="another run uses lab one now"):
            adoption.release_lab("one")
    assert book.load("one") is not None
    assert not adoption.in_use(info)
    assert not adoption.lock_of(info).exists()


def test_fewer_machines_than_are_adopted() -> None:
    """So that a tier has its clusters of more than one size."""
    book.save(msgspec.structs.replace(adopting(*map(machine, ALL)).adopted, marked=True))
    info = HOSTS.status("one")
    assert info is not None
    assert [node.name for node in of_size(info, 3).nodes] == ["n1", "n2", "n3"]
    assert of_size(info, 5) == of_size(info, 9) == info
    made = msgspec.structs.replace(info, adopted=None, made=Made(packages=[]))
    assert of_size(made, 3) == made


ALL = ("n1", "n2", "n3", "n4", "n5")


def test_the_users_names_are_kept_and_shown() -> None:
    book.save(msgspec.structs.replace(adopting(*map(machine, ALL)).adopted, marked=True))
    listed = CliRunner().invoke(lab_app, ["list"]).output
    assert "one  running  (hosts)  db-n1, db-n2, db-n3, db-n4, db-n5" in listed
    status = "\n".join(text_of(look_at("hosts", "one", nodes=False)))
    assert "  n2 (db-n2)  192.0.2.2" in status


def test_a_machine_that_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are marked to the end; a release is what comes next, and no run begins."""
    asked: list[str] = []

    async def opened(info: Any) -> Any:
        if info.name == "n2":
            raise LabError("n2 is gone")
        return SimpleNamespace(abort=lambda: None)

    async def ask(_: Any, info: Any, act: str, __: Any) -> Any:
        await asyncio.sleep(0.05)
        asked.append(f"{act} {info.name}")

    monkeypatch.setattr(adopt, "_open", opened)
    monkeypatch.setattr(adopt, "_ask", ask)
    seen = [machine(name) for name in ALL[:3]]
    with pytest.raises(LabError, match=r"half adopted: db-n2: n2 is gone") as caught:
        asyncio.run(adopt.mark(adopting(*seen).adopted, seen))
    assert "dstest lab release --lab-id one" in str(caught.value.remedy)
    assert asked == ["mark n1", "mark n3"]
    assert HOSTS.status("one") is None
    with pytest.raises(ConfigError, match="cannot be used") as refused:
        HOSTS.up("one", 3, packages=[])
    assert "its adoption did not come to an end" in str(refused.value)
    assert "dstest lab release --lab-id one" in str(refused.value.remedy)
    again = CliRunner().invoke(lab_app, ["status", "--lab-id", "one"])
    assert "remedy: dstest lab release --lab-id one" in again.output
    with pytest.raises(ConfigError, match="adopted already, though not all"):
        adoption.prepare("one", [], accept=lambda *_: False, password=None)


def test_a_chore_takes_either_name() -> None:
    book.save(msgspec.structs.replace(adopting(*map(machine, ALL)).adopted, marked=True))
    info = HOSTS.status("one")
    assert info is not None
    for name in ("n2", "db-n2"):
        assert info.find(name) == info.nodes[1]
    assert info.find("db") is None
    wrong = CliRunner().invoke(lab_app, ["exec", "--lab-id", "one", "--node", "db", "--", "true"])
    assert isinstance(wrong.exception, ConfigError)
    assert "n1 (db-n1), n2 (db-n2)" in str(wrong.exception.remedy)


def test_an_ordinary_users_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is well without root where nodes come another way; not where they come by no way."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(rootless, "trial", lambda: "one was made")
    rows = {row.name: row for row in hostcheck.host_rows()}
    assert not rows["root"].ok
    assert rows["root"].optional
    assert rows["rootless"].detail == "one was made"
    assert not {"podman", "no leftovers", "overlay mounts"} & rows.keys()

    def refused() -> str:
        raise LabError("no range of ids")

    monkeypatch.setattr(rootless, "trial", refused)
    row = {row.name: row for row in hostcheck.host_rows()}["rootless"]
    assert (row.ok, row.optional) == (False, False)
    assert "--lab hosts" in str(row.remedy)


def test_a_release_that_did_not_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run uses what may be marked no more; it says so, and how to go on."""
    book.save(msgspec.structs.replace(adopting(*map(machine, ALL)).adopted, marked=True))

    async def swept(_: Any) -> dict[str, str]:
        return {}

    async def released(_: Any) -> Any:
        return {}, {"n2": "no answer"}

    monkeypatch.setattr(adoption, "_swept", swept)
    monkeypatch.setattr(adopt, "release", released)
    done = CliRunner().invoke(lab_app, ["release", "--lab-id", "one"])
    assert done.exit_code == Exit.HARNESS
    assert "n2 (db-n2): not released: no answer" in done.output
    assert "lab one is half released" in done.output
    assert HOSTS.status("one") is None
    (lack,) = HOSTS.examine("one")
    assert "dstest lab release --lab-id one goes on" in lack
    for command in (["ssh"], ["status"]):
        said = CliRunner().invoke(lab_app, [*command, "--lab-id", "one"])
        remedy = getattr(said.exception, "remedy", None) or said.output
        assert "dstest lab release --lab-id one" in remedy
    forgotten = CliRunner().invoke(lab_app, ["release", "--lab-id", "one", "--forget"])
    assert "n2 (db-n2) is forgotten" in forgotten.output
    assert book.load("one") is None


def test_an_adoption_that_was_cut_off_before_it_began() -> None:
    book.write_secret(book.folder_of("one") / "sudo-n1", "a password")
    status = CliRunner().invoke(lab_app, ["status", "--lab-id", "one"])
    assert "was cut off before it touched a machine" in status.output
    assert CliRunner().invoke(lab_app, ["release", "--lab-id", "one"]).exit_code == 0
    assert state.adopted_ids() == []
