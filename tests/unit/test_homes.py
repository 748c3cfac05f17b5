"""Directories of systems on machines that are not ours: made with a mark, and never taken over."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dstest.core import registry
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Completed, Foreign, LabInfo, Made, NodeInfo
from dstest.core.protocols import Member, Probe, Service, System
from dstest.core.residue import Residue, marked_only
from dstest.runner import adoption

pytestmark = pytest.mark.slow

LAB = LabInfo(
    lab_id="one",
    kind="hosts",
    nodes=[NodeInfo(name="n1", address="192.0.2.1")],
    control="192.0.2.9",
    adopted=Foreign(taken={}, as_found={}),
)


class Here:
    """A node whose programs run here, with /opt in another place."""

    name = "n1"

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        (root / "opt").mkdir(parents=True)

    async def run(self, argv: Sequence[str], *, stdin: str = "", **_: Any) -> Completed:
        *words, given = [w.replace("/opt/", f"{self.root}/opt/") for w in (*argv, stdin)]
        done = subprocess.run(  # noqa: ASYNC221
            words, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return Completed(status=0, stdout=done.stdout.replace(self.root, ""), stderr="")


class Redis(System):
    name, homes = "redis", ("/opt/redis",)


class Own(System):
    """A system of the user's that says nothing of homes: its service alone says where it writes."""

    name = "own"
    options: Mapping[str, Any] = {}

    def __init__(self, **places: Any) -> None:
        self._places = {"log": "/opt/own/log", **places}

    def deploy(self, nodes: Sequence[Any], options: Mapping[str, Any]) -> Any:
        user = getpass.getuser()
        one = Service(name="s", argv=("s",), probe=Probe(1), user=user, **self._places)
        return SimpleNamespace(members={"n1": Member("n1", [one])})


def lay(node: Here, lab: LabInfo = LAB, system: Any = None) -> None:
    made = Redis() if system is None else system
    deployment = Own().deploy([], {}) if system is None else system.deploy([], {})
    if system is None:
        deployment.members.clear()
    asyncio.run(adoption.lay_homes(lab, {"n1": node}, made, deployment))  # type: ignore[dict-item]


def test_they_are_made_marked_and_found_again(tmp_path: Path) -> None:
    node = Here(tmp_path)
    lay(node)
    opt = tmp_path / "opt"
    assert sorted(path.name for path in opt.iterdir()) == ["dstest-services", "redis"]
    assert (opt / "redis" / ".dstest-lab").read_text() == "one\n"
    assert (opt / "redis").stat().st_mode & 0o777 == 0o755
    (opt / "redis" / "data").write_text("kept")
    lay(node)
    assert (opt / "redis" / "data").read_text() == "kept"


@pytest.mark.parametrize("kind", ["directory", "file", "link", "dangling", "other lab"])
def test_what_somebody_else_has_put_there_is_not_taken_over(tmp_path: Path, kind: str) -> None:
    node = Here(tmp_path)
    place = tmp_path / "opt" / "redis"
    match kind:
        case "file":
            place.write_text("")
        case "link":
            (tmp_path / "ours").mkdir()
            (tmp_path / "ours" / ".dstest-lab").write_text("one\n")
            place.symlink_to(tmp_path / "ours")
        case "dangling":
            place.symlink_to("/nowhere")
        case _:
            place.mkdir()
    if kind == "other lab":
        (place / ".dstest-lab").write_text("two\n")
    with pytest.raises(LabError, match="n1 has /opt/redis"):
        lay(node)
    assert [path.name for path in (tmp_path / "opt").iterdir()] == ["redis"]


def test_where_a_service_writes_is_made_marked_and_noted(tmp_path: Path) -> None:
    """Also beside what is there already, which stays what it was."""
    node = Here(tmp_path)
    (tmp_path / "opt" / "there").mkdir()
    system = Own(
        data=("/opt/own/data",),
        files={"/opt/there/mine/conf": b""},
        directories=("/opt/socket",),
    )
    lay(node, system=system)
    marked = sorted(str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob(".dstest-lab"))
    assert marked == ["opt/dstest-services", "opt/own", "opt/socket", "opt/there/mine"]
    noted = (tmp_path / "opt/dstest-services/homes").read_text().split()
    assert sorted(noted) == [f"{tmp_path}/{one}" for one in marked[1:]]
    (tmp_path / "opt/own/data").mkdir()
    lay(node, system=system)
    assert (tmp_path / "opt/own/data").is_dir()


def test_a_refused_run_has_touched_no_node(tmp_path: Path) -> None:
    nodes = {}
    for name in ("n1", "n2"):
        (tmp_path / name).mkdir()
        nodes[name] = Here(tmp_path / name)
    (tmp_path / "n2/opt/own").mkdir()
    system = Own()
    deployment = system.deploy([], {})
    with pytest.raises(LabError, match=r"n1 has /opt/own \(log of s\)"):
        nodes["n2"].name = "n1"  # both have the member
        both: Any = {"n2": nodes["n1"], "n1": nodes["n2"]}
        asyncio.run(adoption.lay_homes(LAB, both, system, deployment))
    assert list((tmp_path / "n1/opt").iterdir()) == []


def test_data_that_no_run_of_ours_has_noted_is_not_emptied(tmp_path: Path) -> None:
    """Deployed by somebody into a directory that a run of another system has made."""
    node = Here(tmp_path)
    lay(node, system=Own(data=("/opt/own/data",)))
    theirs = tmp_path / "opt/own/orders"
    theirs.mkdir()
    lay(node, system=Own(data=("/opt/own/orders",)))  # empty, so that nothing is lost
    (tmp_path / "opt/own/stock").mkdir()
    (tmp_path / "opt/own/stock/db").write_text("precious")
    with pytest.raises(LabError, match=r"n1 has /opt/own/stock \(data of s\)"):
        lay(node, system=Own(data=("/opt/own/stock",)))
    (theirs / "db").write_text("a run's")
    lay(node, system=Own(data=("/opt/own/orders/n1",)))
    lay(node, system=Own(data=("/opt/own/orders",)))


@pytest.mark.parametrize(
    "places",
    [
        {"data": ("/opt/theirs/data",)},
        {"files": {"/opt/theirs/server.py": b""}},
        {"log": "/opt/theirs/log"},
        {"directories": ("/opt/theirs",)},
        {"data": ("/opt/data",)},  # which would have no room for a mark beside it
    ],
)
def test_no_service_writes_into_what_somebody_else_has_made(
    tmp_path: Path, places: dict[str, Any]
) -> None:
    node = Here(tmp_path)
    (tmp_path / "opt/theirs/data").mkdir(parents=True)
    (tmp_path / "opt/theirs/data/orders.db").write_text("precious")
    field = next(iter(places))
    with pytest.raises(
        LabError, match=rf"n1 has /opt.*\({field} of s\)|^{field} of s: /opt/data: "
    ):
        lay(node, system=Own(**places))
    assert [path.name for path in (tmp_path / "opt").iterdir()] == ["theirs"]


def test_a_directory_that_every_machine_has_is_not_to_be_moved_away(tmp_path: Path) -> None:
    for places in ({"log": "/var/log/s"}, {"data": ("/srv/s",)}, {"directories": ("/usr/bin",)}):
        ((field, path),) = places.items()
        with pytest.raises(LabError, match=f"^{field} of s: /") as caught:
            lay(Here(tmp_path / field), system=Own(**places))
        assert "move" not in (caught.value.remedy or "")
        assert str(path).strip("(',)") in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        *("/opt/own/../theirs/data", "opt/own/data", "/opt/own/./data", "/opt/own//data"),
        *("/opt/own/data/", "//opt/own", "/var/lib", "/", "/proc/x/y", ""),
    ],
)
def test_a_path_that_is_not_what_it_says_is_refused_on_every_lab(tmp_path: Path, path: str) -> None:
    """What is below `..` is somebody else's; what every machine has would be emptied."""
    ours = LabInfo(lab_id="l", kind="x", nodes=[], control="-", made=Made(packages=[]))
    kinds: list[dict[str, Any]] = [{"data": (path,)}, {"files": {path: b""}}, {"log": path}]
    for n, places in enumerate(kinds):
        field = next(iter(places))
        for lab in (LAB, ours):
            with pytest.raises(ConfigError, match=f"own: {field} of s is '"):
                lay(Here(tmp_path / f"{n}{lab.lab_id}"), lab, Own(**places))
        with pytest.raises(ConfigError, match="below a directory of the system's own"):
            adoption.places_of(Own(**places))
    with pytest.raises(ConfigError, match="directories of s"):
        adoption.places_of(Own(directories=("/opt/own/../x",)))


@pytest.mark.parametrize("where", ["data", "data/deep", "", "other"])
def test_data_to_which_a_link_leads_is_not_emptied(tmp_path: Path, where: str) -> None:
    """Somebody has moved it to another disk since the last run."""
    node = Here(tmp_path)
    system = Own(data=("/opt/own/data/deep",))
    lay(node, system=system)
    (tmp_path / "big").mkdir()
    place = tmp_path / "opt/own" / where
    place.parent.mkdir(parents=True, exist_ok=True)
    if where == "":
        (tmp_path / "big/.dstest-lab").write_text("one\n")
        place.rename(tmp_path / "opt/was")
    elif place.exists():
        place.rename(tmp_path / "was")
    place.symlink_to(tmp_path / "big")
    if where == "other":
        lay(node, system=system)
        return
    with pytest.raises(LabError, match=r"n1 has /opt/own.*s\)|a link leads from there\)"):
        lay(node, system=system)


class Mounted(Here):
    """Where another file system is mounted."""

    place = "opt/own/data"
    source = "tmpfs"

    async def run(self, argv: Sequence[str], **how: Any) -> Completed:
        mount = f'cd "{self.root}" && mount -t tmpfs {self.source} {self.place} && exec "$0" "$@"'
        return await super().run(["unshare", "-m", "sh", "-c", mount, *argv], **how)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
@pytest.mark.parametrize("source", ["tmpfs", "faultfs"])
def test_data_on_which_something_is_mounted_is_not_emptied(tmp_path: Path, source: str) -> None:
    """But for what a fault has left there, which is taken away afterwards."""
    system = Own(data=("/opt/own/data",))
    node = Here(tmp_path)
    lay(node, system=system)
    there = Mounted.__new__(Mounted)
    there.root, there.source = node.root, source
    for place in ("opt/own/data", "opt/own/data/deep"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        there.place = place
        if source == "faultfs":
            lay(there, system=system)
            continue
        with pytest.raises(LabError, match=rf"\(data of s; .*/{place} is mounted\)"):
            lay(there, system=system)


def test_a_user_that_is_none_is_named_before_anything_is_made(tmp_path: Path) -> None:
    node = Here(tmp_path)
    system = Own()
    service = msgspec.structs.replace(
        system.deploy([], {}).members["n1"].services[0], user="nosuch"
    )
    deployment: Any = SimpleNamespace(members={"n1": Member("n1", [service])})
    with pytest.raises(LabError, match="n1 has no user nosuch, as whom s is to run"):
        asyncio.run(adoption.lay_homes(LAB, {"n1": node}, system, deployment))  # type: ignore[dict-item]
    assert list((tmp_path / "opt").iterdir()) == []


def test_where_a_system_would_write_is_known_before_it_runs() -> None:
    assert adoption.places_of(Own(data=("/opt/own/data",), files={"/srv/x/conf": b""})) == [
        "/opt/own",
        "/srv/x",
    ]
    assert adoption.places_of(registry.load("systems", "etcd"))[0] == "/opt/etcd"


def test_nodes_of_our_own_need_no_marks(tmp_path: Path) -> None:
    lay(
        Here(tmp_path), LabInfo(lab_id="l", kind="x", nodes=[], control="-", made=Made(packages=[]))
    )
    assert list((tmp_path / "opt").iterdir()) == []


def test_a_residue_in_a_home_without_our_mark_is_none(tmp_path: Path) -> None:
    """As `backup` in an etcd of the user's: it is neither told nor removed."""
    home = tmp_path / "etcd"
    home.mkdir()
    (home / "backup").write_text("theirs")
    plain = Residue(
        name="r",
        mark="it is there",
        look=f"[ ! -e {home}/backup ] || echo ours backup",
        remove=f"rm -rf {home}/backup",
        home=str(home),
    )
    kind = marked_only(plain, "one")

    def sh(text: str) -> str:
        done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True)
        return done.stdout

    for mark in (None, "two"):
        if mark is not None:
            (home / ".dstest-lab").write_text(f"{mark}\n")
        assert sh(kind.look) + sh(kind.remove) == ""
        assert (home / "backup").exists()
    (home / ".dstest-lab").write_text("one\n")
    assert sh(kind.look) == "ours backup\n"
    sh(kind.remove)
    assert not (home / "backup").exists()


def test_what_is_removed_from_a_home_names_the_home() -> None:
    for name in registry.names("systems"):
        traits = registry.load("systems", name)
        for kind in traits.residues:
            inside = [home for home in traits.homes if f"{home}/" in kind.remove]
            assert inside in ([], [kind.home]), (name, kind.name)
    guarded = {kind.name for kind in adoption.residues(lab=LAB) if "/.dstest-lab" in kind.remove}
    assert {"etcd's files", "etcd's other build", "etcd's membership"} <= guarded


def test_what_cannot_be_marked_is_not_left_half_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk."""
    node = Here(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "cat").write_text("#!/bin/sh\necho 'No space left on device' >&2; exit 1\n")
    (programs / "cat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    with pytest.raises(AssertionError, match="No space left"):
        lay(node)
    assert list((tmp_path / "opt").iterdir()) == []


def test_on_machines_of_others_only_processes_of_our_services_are_touched() -> None:
    """A stopped process, and one that may open few files, are the user's."""
    argv = ["sh", "-c", "ulimit -S -n 20; exec sleep 60"]
    theirs = subprocess.Popen(argv, start_new_session=True)
    try:
        theirs.send_signal(signal.SIGSTOP)
        for kind in adoption.residues(lab=LAB):
            if kind.name not in ("stopped processes", "open files"):
                continue
            argv = ["sh", "-c", kind.look]
            done = subprocess.run(argv, capture_output=True, text=True, check=True)
            assert f"process {theirs.pid}" not in done.stdout
            # Not run here, where labs of others may be.
            assert kind.remove.startswith("dstest_adopted=one\n")
            assert 'may_touch "$pid" || continue' in kind.remove
    finally:
        theirs.kill()
        theirs.wait()
