"""Builds of a system beside Debian's: what they are called, where they go, what labs they fit."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from typer.testing import CliRunner

from clusters.labs import image
from clusters.labs.image import absent, packages_for, shared_packages, strange
from dstest.cli.app import app
from dstest.core import registry
from dstest.core.builds import build_of, builds_of, name_of
from dstest.core.errors import ConfigError, Exit, LabError
from dstest.core.node import Completed, Made
from dstest.core.protocols import Member, Probe, Process, Service
from dstest.core.run_record import RunSpec
from dstest.core.run_words import command_of
from dstest.runner.before_load import builds_in_use, files_of, programs_of, used_of
from dstest.runner.plugins import resolve
from dstest.runner.session import require_packages


@pytest.fixture
def deb(tmp_path: Path) -> Path:
    path = tmp_path / "etcd-server_3.5.deb"
    path.write_bytes(b"!<arch>\ndebian-binary   1")
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "build" / "usr" / "bin" / "etcd"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"#!/bin/sh\n")
    path.chmod(0o755)
    (path.parent / "also").symlink_to("etcd")
    return tmp_path / "build"


def test_a_build_is_called_by_what_is_in_it(deb: Path, tree: Path) -> None:
    for path in (deb, tree):
        build = build_of(name_of(path))
        assert build is not None
        assert build.path == path
        assert str(build) == name_of(path)
    first = name_of(tree)
    (tree / "usr/bin/etcd").chmod(0o700)
    second = name_of(tree)
    (tree / "usr/bin/also").unlink()
    third = name_of(tree)
    (tree / "usr/bin/etcd").write_bytes(b"#!/bin/sh\nexit 1\n")
    (tree / "usr/bin/etcd2").mkdir()
    assert len({first, second, third, name_of(tree)}) == 4


def test_a_name_covers_all_that_is_laid(tree: Path) -> None:
    seen = [name_of(tree)]

    def changed() -> None:
        assert name_of(tree) not in seen
        seen.append(name_of(tree))

    (tree / "usr/bin/etcd").chmod(0o4755)
    changed()
    (tree / "var").mkdir()
    changed()
    (tree / "var").chmod(0o700)
    changed()
    (tree / "usr/bin/also").unlink()
    (tree / "usr/bin/also").symlink_to("other")
    changed()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.with_name("s\udcff").touch()])
def test_what_is_no_file_or_has_no_name_is_refused(tree: Path, make: Any) -> None:
    make(tree / "usr" / "odd")
    with pytest.raises(ConfigError):
        name_of(tree)


def test_a_pipe_is_no_package(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.deb")
    (tmp_path / "text.deb").write_text("text")
    (tmp_path / "none.deb").write_bytes(b"")
    for path in tmp_path.iterdir():
        with pytest.raises(ConfigError):
            name_of(path)


def test_a_package_may_have_any_name(deb: Path, tmp_path: Path) -> None:
    (tmp_path / "latest.deb").symlink_to(deb)
    assert name_of(tmp_path / "latest.deb") == name_of(deb)
    other = deb.rename(tmp_path / "BUILD.DEB")
    assert name_of(other)


def test_builds_are_given_by_path_or_by_name(deb: Path, tree: Path) -> None:
    names = (name_of(deb), name_of(tree))
    assert builds_of([str(deb), str(tree)]) == names
    assert builds_of(names) == names
    deb.write_bytes(b"!<arch>\ndebian-binary   2")
    with pytest.raises(ConfigError, match="has changed"):
        builds_of(names)


def test_what_would_lie_on_one_another_is_refused(deb: Path, tree: Path, tmp_path: Path) -> None:
    shutil.copytree(tree, tmp_path / "second", symlinks=True)
    for given in ([tree, tmp_path / "second"], [deb, deb], [tree, tree]):
        with pytest.raises(ConfigError, match="two directories, or one build twice"):
            builds_of([str(path) for path in given])
    with pytest.raises(ConfigError, match="is empty"):
        builds_of([""])


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot is root's")
def test_a_tree_is_laid_over_what_is_there(tmp_path: Path) -> None:
    """/lib is a link to /usr/lib on Debian, and /usr has a mode of its own."""
    root, tree = tmp_path / "root", tmp_path / "tree"
    for folder in ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/bin", "run"):
        (root / folder).mkdir(parents=True)
    for link, to in (("lib", "usr/lib"), ("lib64", "usr/lib64"), ("bin", "usr/bin")):
        (root / link).symlink_to(to)
    (root / "var").mkdir()
    (root / "var/run").symlink_to("/run")
    programs(root, "/bin/tar")
    for name in ("lib/systemd/system/etcd.service", "bin/etcd", "var/run/x", "opt/new/y"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(name)
    tree.chmod(0o700)
    (tree / "opt").chmod(0o710)
    (root / "usr").chmod(0o755)
    script = tmp_path / "script"
    script.write_text(image.TREE.replace("FOLDER", str(tree)))
    subprocess.run(["sh", str(script), str(root)], check=True)
    assert (root / "usr/lib/systemd/system/etcd.service").exists()
    assert (root / "usr/bin/etcd").exists()
    assert (root / "run/x").exists()
    assert not Path("/run/x").exists()
    assert (root / "lib").is_symlink()
    assert (root / "opt").stat().st_mode & 0o777 == 0o710
    assert root.stat().st_mode & 0o777 == 0o755


def programs(root: Path, *paths: str) -> None:
    """A program and the libraries that it needs, where a chroot finds them."""
    for path in paths:
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for place in [path, *re.findall(r"(/\S+) \(0x", said)]:
            (root / place[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place, root / place[1:])


SAID = """\
program /usr/bin/redis-check-rdb
redis-server *:6379
/opt/redis/redis.conf
/lib/x86_64-linux-gnu/libc.so.6
pipe:[7]
"""


def test_a_build_is_in_use_where_a_server_has_one_of_its_files(tree: Path) -> None:
    assert used_of(SAID) == {
        "/usr/bin/redis-check-rdb",
        "/opt/redis/redis.conf",
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
    }
    assert programs_of(SAID) == {"/usr/bin/redis-check-rdb"}
    (tree / "lib").mkdir()
    (tree / "lib" / "a.so").touch()
    build, nobody = build_of(name_of(tree)), cast(Any, None)
    assert build is not None
    there = asyncio.run(files_of(build, nobody))
    assert there == {"/usr/bin/etcd", "/usr/bin/also", "/usr/lib/a.so"}


class Running:
    """A deployment and its node, which runs a program of this path. `others` are files that it has
    open; the deployment has written /opt/db.conf."""

    def __init__(self, path: str, others: Sequence[str] = ()) -> None:
        self.said, self.name = "\n".join([f"program {path}", *others]), "n1"
        files = {"/opt/db.conf": b""}
        service = Service(name="db", argv=(path,), files=files, log="", probe=Probe(1))
        self.members = {"n1": Member("n1", (service,))}

    async def processes(self, names: Sequence[str] = ()) -> dict[str, list[Process]]:
        return {"n1": [Process("db", 7, 70, True)]}

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        return Completed(status=0, stdout=f"{self.said}\n", stderr="")


def test_a_run_of_another_build_is_refused(tree: Path) -> None:
    def asked(path: str, *others: str) -> dict[str, str]:
        both: Any = Running(path, others)
        return asyncio.run(builds_in_use([name_of(tree)], both, {"n1": both}))

    assert asked("/usr/bin/etcd") == {name_of(tree): "/usr/bin/etcd"}
    with pytest.raises(LabError, match="what runs there is another build"):
        asked("/usr/lib/postgresql/15/bin/postgres")


def test_files_beside_the_program_do_not_prove_it(tree: Path) -> None:
    (tree / "lib").mkdir()
    (tree / "lib" / "a.so").touch()
    (tree / "opt").mkdir()
    (tree / "opt" / "db.conf").touch()
    with pytest.raises(LabError, match=r"runs /opt/old/etcd, and .* has that program at /usr/bin"):
        both: Any = Running("/opt/old/etcd", ["/lib/a.so"])
        asyncio.run(builds_in_use([name_of(tree)], both, {"n1": both}))
    with pytest.raises(LabError, match="what runs there is another build"):
        both = Running("/usr/bin/python3.11", ["/opt/db.conf"])
        asyncio.run(builds_in_use([name_of(tree)], both, {"n1": both}))
    both = Running("/usr/bin/python3.11", ["/lib/a.so"])
    assert asyncio.run(builds_in_use([name_of(tree)], both, {"n1": both}))


@pytest.mark.parametrize("name", ["etcd-server", "a@b", "/no/at", ""])
def test_a_package_is_none(name: str) -> None:
    assert build_of(name) is None


def test_what_is_no_build_is_refused(tmp_path: Path, deb: Path) -> None:
    (tmp_path / "empty" / "usr").mkdir(parents=True)
    (tmp_path / "etcd").write_bytes(b"")
    for name in ("none", "empty", "etcd", "none.deb"):
        with pytest.raises(ConfigError):
            name_of(tmp_path / name)
    words = ["run", "--system-version", str(tmp_path / "etcd"), "--store", str(tmp_path / "store")]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, ConfigError) or done.exit_code == Exit.USAGE
    assert not (tmp_path / "store").exists()


def test_an_image_is_of_its_builds(deb: Path) -> None:
    plain = packages_for([registry.load("systems", "etcd")])
    named = packages_for([registry.load("systems", "etcd")], [name_of(deb)])
    assert plain == shared_packages()
    assert {*named} == {*plain, name_of(deb)}
    assert image.image_hash(plain, "bookworm") != image.image_hash(named, "bookworm")


def test_a_build_is_laid_before_the_package_sources_go(
    deb: Path, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def built(argv: list[str], log: Path) -> None:
        hooks = [word.partition("=")[2] for word in argv if word.startswith("--customize-hook=")]
        seen.extend([argv, [(Path(path).name, Path(path).read_text()) for path in hooks]])

    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "labs"))
    monkeypatch.setattr(image, "_mmdebstrap", built)
    monkeypatch.setattr(image, "apt_sources", lambda: ("bookworm", []))
    monkeypatch.setattr(image, "_apt_options", list)
    image.ensure(["etcd-server", name_of(tree), name_of(deb)], lambda _: None)
    argv, ((one, installed), (two, laid), (last, _)) = seen
    assert (one, two, last) == ("packages", "tree0", "setup")
    assert "/builds/0 " in laid or "/builds/1 " in laid
    assert ".deb " in installed
    assert str(tree) not in laid
    assert str(deb) not in installed
    (included,) = [word for word in argv if word.startswith("--include=")]
    assert str(tmp_path) not in included
    deb.write_bytes(b"!<arch>\ndebian-binary   2")
    changed = name_of(deb).replace(name_of(deb)[-16:], "0" * 16)
    with pytest.raises(ConfigError, match="has changed"):
        image.ensure(["etcd-server", changed], lambda _: None)


def test_a_lab_with_another_build_is_not_taken(deb: Path) -> None:
    name, packages = name_of(deb), registry.load("systems", "etcd").packages
    assert absent([name], packages) == [name]
    assert strange(packages, [*packages, name]) == [name]
    assert strange([name], [*packages, name]) == []

    def asked(wanted: tuple[str, ...], there: tuple[str, ...]) -> None:
        plugins = resolve(RunSpec(builds=wanted), [])
        lab: Any = SimpleNamespace(lab_id="l", made=Made(packages=[*packages, *there]))
        require_packages(lab, plugins)

    asked((), ())
    asked((name,), (name,))
    with pytest.raises(LabError, match="without"):
        asked((name,), ())
    with pytest.raises(LabError, match="is up with"):
        asked((), (name,))


def test_the_command_that_runs_it_again_names_the_build(deb: Path) -> None:
    spec = RunSpec(builds=(name_of(deb),))
    assert spec.builds == (name_of(deb),)
    assert f"--system-version {name_of(deb)} " in command_of(
        {"builds": [name_of(deb)], "system": "etcd"}
    )
