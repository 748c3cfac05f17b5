"""Builds of a system beside Debian's: what they are called, where they go, what labs they fit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from clusters.labs import image, recipe
from clusters.labs.packages import absent, packages_for, shared_packages, strange
from dstest.cli.app import app
from dstest.core import registry
from dstest.core.builds import build_of, name_of
from dstest.core.errors import ConfigError, Exit, LabError
from dstest.core.spec import RunSpec, to_toml
from dstest.report.command import command_of
from dstest.runner.plugins import resolve
from dstest.runner.session import require_packages


@pytest.fixture
def deb(tmp_path: Path) -> Path:
    path = tmp_path / "etcd-server_3.5.deb"
    path.write_bytes(b"!<arch>")
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
    assert recipe.image_hash(plain, "bookworm") != recipe.image_hash(named, "bookworm")


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
    argv, ((one, laid), (two, installed), (last, _)) = seen
    assert (one, two, last) == ("build0", "build1", "setup")
    assert f"cp -a --no-preserve=ownership {tree}/." in laid
    assert f"cp {deb} " in installed
    (included,) = [word for word in argv if word.startswith("--include=")]
    assert str(tmp_path) not in included
    deb.write_bytes(b"!<arch> another")
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
        lab: Any = SimpleNamespace(lab_id="l", facts={"packages": [*packages, *there]})
        require_packages(lab, plugins)

    asked((), ())
    asked((name,), (name,))
    with pytest.raises(LabError, match="without"):
        asked((name,), ())
    with pytest.raises(LabError, match="is up with"):
        asked((), (name,))


def test_the_command_that_runs_it_again_names_the_build(deb: Path) -> None:
    spec = RunSpec(builds=(name_of(deb),))
    assert f'builds = [\n    "{name_of(deb)}",\n]' in to_toml(spec)
    assert f"--system-version {deb} " in command_of({"builds": [name_of(deb)], "system": "etcd"})
