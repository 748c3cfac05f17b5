"""Builds of a system that nodes get beside Debian's packages: Debian packages, or a tree of files.

A build is called `<absolute path>@<hash>`, by what is in it: whoever runs a test again has the same
build, or is told.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dstest.core.errors import ConfigError

_CHUNK_BYTES: Final = 1 << 20
_HASH_CHARS: Final = 16
_NAME: Final = re.compile(r"(?s)(/.*)@([0-9a-f]{16})")
_ARCHIVE: Final = b"!<arch>\ndebian-binary"
"""The beginning of each Debian package (deb(5))."""

_WANTED: Final = (
    "a Debian package, FILE.deb, or a directory with what is to lie on each node, as usr/bin/NAME"
)


class Build(NamedTuple):
    """Where it is, and the beginning of the SHA-256 of what is in it."""

    path: Path
    sha256: str

    def __str__(self) -> str:
        return f"{self.path}@{self.sha256}"


def build_of(name: str) -> Build | None:
    """What a name stands for; None of what is none, such as the name of a package."""
    found = _NAME.fullmatch(name)
    return Build(Path(found[1]), found[2]) if found else None


def builds_of(given: Sequence[str]) -> tuple[str, ...]:
    """The names of the builds at these paths, or of these names. ConfigError where one is none, or
    is no longer what its name says, and where they would lie on one another."""
    names = tuple(map(_named, given))
    trees = [build for name in names if (build := build_of(name)) and build.path.is_dir()]
    if len(trees) > 1 or len(set(names)) < len(names):
        raise ConfigError(
            "--system-version: two directories, or one build twice",
            remedy="put all files into one directory; packages may be many",
        )
    return names


def _named(given: str) -> str:
    if not given:
        raise ConfigError("--system-version is empty", remedy=_WANTED)
    build = None if os.path.lexists(given) else build_of(given)
    if build is None:
        return name_of(Path(given))
    if (now := name_of(build.path)) != given:
        raise ConfigError(
            f"{build.path} has changed: it is {now} now", remedy="leave away what is behind the @"
        )
    return given


def name_of(path: Path) -> str:
    """The name of the build at this path. ConfigError where it is none."""
    try:
        whole = path.expanduser().resolve()
        str(whole).encode()
        return str(Build(whole, _of_tree(whole) if whole.is_dir() else _of_package(whole)))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}",
            remedy="name a .deb file, or a directory to lie over each node's root, such as one with"
            " usr/bin/etcd in it",
        ) from None
    except UnicodeEncodeError:
        raise ConfigError(
            f"{str(path)!r} has a name in it that is not UTF-8", remedy="rename it"
        ) from None


def _of_package(path: Path) -> str:
    if not stat.S_ISREG(path.stat().st_mode):
        raise ConfigError(f"{path} is no build of a system", remedy=_WANTED)
    with path.open("rb") as file:
        if file.read(len(_ARCHIVE)) != _ARCHIVE:
            raise ConfigError(f"{path} is no Debian package", remedy=_WANTED)
    return _of_file(path).hexdigest()[:_HASH_CHARS]


def _of_file(path: Path) -> hashlib._Hash:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest


def _of_tree(root: Path) -> str:
    """Over names, kinds, modes, contents and targets of links. ConfigError where there is no file,
    or what is no file, directory or link."""
    digest, files = hashlib.sha256(), 0
    for folder, folders, names in os.walk(root, onerror=_raise):
        folders.sort()
        for name in sorted([*names, *folders]):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            said = f"{stat.S_IFMT(mode):o} {stat.S_IMODE(mode):o}"
            if stat.S_ISLNK(mode):
                said = f"link {path.readlink()}"
            elif stat.S_ISREG(mode):
                said += f" {_of_file(path).hexdigest()}"
            elif not stat.S_ISDIR(mode):
                raise ConfigError(
                    f"{path} is no file, directory or link", remedy="leave it out of the build"
                )
            files += not stat.S_ISDIR(mode)
            digest.update(f"{path.relative_to(root)}\0{said}\0".encode())
    if not files:
        raise ConfigError(f"{root} has no file in it", remedy="a directory with the build")
    return digest.hexdigest()[:_HASH_CHARS]


def _raise(error: OSError) -> None:
    raise error
