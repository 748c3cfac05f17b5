"""The lab of an ordinary user: who has it, what is refused, which commands go within."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from clusters.labs import bridged, rootless, state
from clusters.labs.rootless import LAB
from clusters.labs.state import LabState
from dstest.cli import lab_common
from dstest.core import registry
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Inspects, Restarts, Secluded
from dstest.core.run_record import RunSpec


@pytest.fixture(autouse=True)
def own_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "dstest"))
    monkeypatch.delenv("DSTEST_SECLUDED", raising=False)
    return tmp_path / "dstest"


def saved(lab_id: str, kind: str = "rootless") -> None:
    lab = LabState(
        lab_id=lab_id, kind=kind, tag=state.tag_of(lab_id), octet=9, nodes=2, packages=[],
        image="/nowhere", persistent=False, owners=[],
    )  # fmt: skip
    state.save(lab)


def test_what_it_is() -> None:
    assert isinstance(LAB, Secluded)
    assert isinstance(LAB, Inspects)
    assert isinstance(LAB, Restarts)
    assert not LAB.inside()


def test_a_lab_is_held_by_a_lock_and_not_by_a_pid(own_dir: Path) -> None:
    saved("one")
    assert rootless.holder_of("one") is None
    with rootless._holding("one"):
        assert rootless.holder_of("one") == rootless.Holder(os.getpid())
        assert LAB.users("one") == [os.getpid()]
        assert "that command" in LAB.examine("one")[0]
        with (
            pytest.raises(LabError, match="another command has lab one"),
            rootless._holding("one"),
        ):
            pass
        with pytest.raises(LabError, match="lives in process"):
            LAB.down("one")
    assert LAB.users("one") == []
    assert "is gone" in LAB.examine("one")[0]


def test_who_has_not_said_its_pid_yet_has_it_all_the_same(own_dir: Path) -> None:
    saved("one")
    with rootless._holding("one"):
        rootless._lock("one").write_text("")
        assert rootless.holder_of("one") == rootless.Holder(None)
        with pytest.raises(LabError, match="just starting"):
            LAB.down("one")


def test_who_only_looks_keeps_nobody_from_it(own_dir: Path) -> None:
    saved("one")
    path = rootless._lock("one")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with path.open() as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        gone = threading.Timer(0.1, lambda: fcntl.flock(looker, fcntl.LOCK_UN))
        gone.start()
        with rootless._holding("one"):
            assert LAB.users("one") == [os.getpid()]
        gone.join()


def test_a_written_pid_alone_holds_nothing(own_dir: Path) -> None:
    (own_dir / "rootless").mkdir(parents=True)
    (own_dir / "rootless" / "one").write_text("1")
    assert rootless.holder_of("one") is None


def test_what_a_living_command_has_is_not_collected(
    own_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[frozenset[str]] = []

    def collect(*_: Any, keep: frozenset[str], **__: Any) -> list[str]:
        kept.append(keep)
        return []

    monkeypatch.setattr(bridged, "collect", collect)
    monkeypatch.setattr(rootless, "inside", lambda: True)
    saved("one")
    saved("two")
    with (own_dir / "labs" / "one" / "x").open("w"), rootless._holding("one"):
        LAB.gc()
    assert kept == [frozenset({"one"})]


def test_labs_of_other_kinds_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clusters.labs.container.monitors", lambda _=None: {7: ("other", "x-n1")})
    saved("one")
    saved("other", "lxc")
    assert LAB.list() == ["one"]


def test_it_cannot_outlive_a_command() -> None:
    with pytest.raises(ConfigError, match="as long as the command"):
        LAB.up("one", 3, packages=[])


def test_an_ordinary_users_directory_is_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSTEST_LAB_DIR")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert state.root_dir() == Path("/home/me/.local/share/dstest")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert state.root_dir() == Path("/home/me/.local/share/dstest")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert state.root_dir() == Path("/data/dstest")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state.root_dir() == Path("/var/lib/dstest")


class Outside:
    """Implements `Secluded`; notes what is to run within."""

    name = "outside"

    def __init__(self) -> None:
        self.ran: list[tuple[str, Sequence[str] | None, list[str]]] = []

    def inside(self) -> bool:
        return False

    def within(self, lab_id: str, packages: Sequence[str] | None, argv: Sequence[str]) -> int:
        self.ran.append((lab_id, packages, list(argv)))
        return 3


def test_a_run_goes_within_with_its_words_and_ends_with_that_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, load = Outside(), registry.load
    monkeypatch.setattr(
        registry, "load", lambda group, name: lab if group == "labs" else load(group, name)
    )
    monkeypatch.setattr("sys.argv", ["dstest", "run", "--lab", "outside"])
    with pytest.raises(typer.Exit) as ended:
        lab_common.enter(RunSpec(lab="outside"), None, keep_lab=False)
    assert ended.value.exit_code == 3
    ((lab_id, packages, words),) = lab.ran
    assert lab_id == f"run-{os.getpid()}"
    assert packages is not None
    assert "etcd-server" in packages
    assert words == ["run", "--lab", "outside", "--lab-id", lab_id]
    with pytest.raises(ConfigError, match="cannot be kept"):
        lab_common.enter(RunSpec(lab="outside"), "x", keep_lab=True)
    monkeypatch.setattr(lab, "inside", lambda: True)
    lab_common.enter(RunSpec(lab="outside"), "x", keep_lab=False)


def test_the_lock_is_that_of_flock(own_dir: Path) -> None:
    with rootless._holding("one") as held, pytest.raises(BlockingIOError):
        again = (own_dir / "rootless" / "one").open("r")
        try:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            again.close()
            assert held > 2


def test_configuration_gives_no_device_that_an_ordinary_user_cannot_open() -> None:
    assert "fuse" not in rootless.CONFIG
    assert "cgroup" not in rootless.CONFIG
