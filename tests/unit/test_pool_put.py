"""dstest laid on a machine over SSH: as a whole, with its sum checked there, or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from ssh_server import served
from touched_runs import dstest

from dstest import __version__
from dstest.campaign.workers.bundle import Bundle, _distributions, needs, pack_bundle, put, receive
from dstest.core import registry
from dstest.core.errors import Exit

pytestmark = pytest.mark.slow

FILES = {
    "lib/checkers/__init__.py": "",
    "lib/checkers/_core.py": "",
    "lib/distributed.py": "",
    "lib/dstest/__init__.py": f"__version__ = {__version__!r}",
}


def _bundle(folder: Path, files: dict[str, str]) -> Bundle:
    """A small one, in the place of all of dstest."""
    target = folder / "bundle.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    data = target.read_bytes()
    python, machine = needs()
    return Bundle(
        path=str(target),
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=len(data),
        distributions=[],
        python=python,
        machine=machine,
    )


def _laid(tmp_path: Path, bundle: Bundle) -> subprocess.CompletedProcess[str]:
    """What a machine does with it, without the way there."""
    with Path(bundle.path).open("rb") as file:
        return subprocess.run(
            receive(bundle, str(tmp_path / "there")),
            stdin=file, capture_output=True, text=True, check=False,
        )  # fmt: skip


def test_it_is_there_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = _bundle(tmp_path, FILES)
    home, there = tmp_path / "home", tmp_path / "there"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))

    async def twice() -> list[dict[str, str]]:
        async with served(home, "box"):
            return [await put(["box"], bundle, str(there)) for _ in range(2)]

    assert asyncio.run(twice()) == [{"box": ""}] * 2
    assert sorted(path.name for path in there.iterdir()) == sorted([bundle.sha256, "python"])
    told = subprocess.run(
        [there / "python", "-c", "import dstest; print(dstest.__file__)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.startswith(str(there))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sha256": "0" * 64}, "checksum"),
        ({"python": "2.0"}, "no python2.0"),
        ({"machine": "vax"}, "not vax"),
    ],
)
def test_what_is_not_as_it_was_sent_is_not_laid_there(
    tmp_path: Path, change: dict[str, str], why: str
) -> None:
    done = _laid(tmp_path, replace(_bundle(tmp_path, FILES), **change))
    assert done.returncode != 0
    assert why in done.stderr
    there = tmp_path / "there"
    assert not there.exists() or not list(there.iterdir())


def test_one_that_does_not_run_is_not_what_workers_are_started_with(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    good = _bundle(tmp_path, FILES)
    bad = _bundle(tmp_path / "other", {**FILES, "lib/checkers/_core.py": "1 / 0"})
    assert _laid(tmp_path, good).stdout.strip() == __version__
    done = _laid(tmp_path, bad)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
    assert good.sha256 in (tmp_path / "there" / "python").read_text()


def test_a_machine_that_is_not_there(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path, FILES)
    assert asyncio.run(put(["no-such-host.invalid"], bundle))["no-such-host.invalid"]


def test_a_machine_that_is_not_there_is_told_before_anything_is_packed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(target: Path) -> Bundle:
        raise AssertionError(f"packed {target}")

    monkeypatch.setattr("dstest.campaign.workers.bundle.pack_bundle", never)
    code, said = dstest("workers", "put", "no-such-host.invalid")
    assert code == Exit.HARNESS
    assert "try `ssh no-such-host.invalid true`" in said


@pytest.mark.parametrize("name", ["", "no/such/folder/b.tar.gz"])
def test_an_archive_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    code, said = dstest("workers", "pack", tmp_path / name)
    assert code == Exit.USAGE
    assert "cannot be written" in said


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_is_packed_runs_by_itself(tmp_path: Path) -> None:
    bundle = pack_bundle(tmp_path / "b.tar.gz")
    assert {"dstest", "distributed", "numpy"} <= {*bundle.distributions}
    subprocess.run(["tar", "-xzf", bundle.path, "-C", tmp_path], check=True)
    done = subprocess.run(
        ["/usr/bin/env", "-i", f"PYTHONPATH={tmp_path / 'lib'}", f"/usr/bin/python{bundle.python}",
         "-P", "-c", "import checkers._core, distributed, dstest; print(dstest.__file__)"],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    assert done.stdout.startswith(str(tmp_path)), done.stderr


def test_drivers_that_are_here_are_packed_though_they_are_extras() -> None:
    packed = {one.metadata["Name"].lower() for one in _distributions()}
    for name in registry.names("systems", ours=True):
        packages = registry.load("systems", name).client_packages
        assert {package.lower() for package in packages} <= packed, name
    assert {"distributed", "httptools", "tornado"} <= packed
    assert not {"pytest", "pyarrow"} & packed
