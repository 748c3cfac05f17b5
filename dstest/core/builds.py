"""Builds of a system that nodes get beside Debian's packages: a `.deb`, or a tree of files.

A build is called `<absolute path>@<hash>`, by what is in it: whoever runs a test again has the same
build, or is told.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from dstest.core.errors import ConfigError

__all__ = ["Build", "build_of", "name_of"]

_CHUNK_BYTES = 1 << 20
_HASH_CHARS = 16


class Build(NamedTuple):
    """Where it is, and the beginning of the SHA-256 of what is in it."""

    path: Path
    sha256: str

    def __str__(self) -> str:
        return f"{self.path}@{self.sha256}"


def build_of(name: str) -> Build | None:
    """What a name stands for; None of what is none, such as the name of a package."""
    path, at, found = name.rpartition("@")
    return Build(Path(path), found) if at and name.startswith("/") else None


def name_of(path: Path) -> str:
    """The name of the build at this path. ConfigError where it is none."""
    whole = path.expanduser().resolve()
    try:
        if whole.is_dir():
            found = _of_tree(whole)
        elif whole.suffix == ".deb":
            found = _of_file(whole)
        else:
            raise ConfigError(
                f"{path} is no build of a system",
                remedy="a Debian package, FILE.deb, or a directory with what is to lie on each "
                "node, as usr/bin/NAME",
            )
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    return str(Build(whole, found))


def _of_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()[:_HASH_CHARS]


def _of_tree(root: Path) -> str:
    """Over names, modes, contents and targets of links. ConfigError where there is no file."""
    digest, files = hashlib.sha256(), 0
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if Path(folder, f).is_symlink())]):
            path = Path(folder, name)
            if path.is_symlink():
                said = f"link {path.readlink()}"
            else:
                said = f"{path.stat().st_mode & 0o777:o} {_of_file(path)}"
            digest.update(f"{path.relative_to(root)}\0{said}\0".encode())
            files += 1
    if not files:
        raise ConfigError(f"{root} has no file in it", remedy="a directory with the build")
    return digest.hexdigest()[:_HASH_CHARS]
