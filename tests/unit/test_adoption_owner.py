"""A record of adopted machines has one owner at a time; and adoptions that were cut off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_adoption import adopting, machine
from typer.testing import CliRunner

from clusters.labs import state
from clusters.labs.existing import book
from clusters.labs.lxc import LAB as LXC
from dstest.cli.lab import lab_app
from dstest.core.errors import ConfigError, DstestError, LabError
from dstest.runner import adoption, lab_lock

HOLD = """
import sys
from clusters.labs.existing import book
with book.held(sys.argv[1]):
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
    monkeypatch.setattr(adoption, "survey", lambda *_: asked.append("x"))
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
    somebody.wait(10)
    with book.held("one"):
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

    monkeypatch.setattr(adoption, "survey", survey)
    assert "nobody there" in str(adopt_one(folder))
    assert seen == [False]
    assert state.adopted_ids() == []


def test_another_lab_of_this_id_meanwhile(folder: Path) -> None:
    book.save(adopting(machine()).adopted)
    with pytest.raises(ConfigError, match="machines of yours"):
        LXC.up("one", 3, packages=[])


def test_a_run_and_a_release_at_once() -> None:
    book.save(adopting(machine()).adopted)
    info = adoption.LAB.known("one")
    assert info is not None
    with lab_lock.alone(info):
        assert lab_lock.in_use(info)
        with pytest.raises(LabError, match="another run uses lab one now"):
            adoption.release_lab("one")
    assert book.load("one") is not None
    assert not lab_lock.in_use(info)
    assert not lab_lock.lock_of(info).exists()
