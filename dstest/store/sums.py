"""The check sums of a run directory: `sha256sums`, as `sha256sum -c` reads it.

They cover every file but themselves, their signature, `status`, which is written last, and what a
run says of itself while it lasts (`live.json`).
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from dstest.core.live import LIVE, LIVE_PARTIAL

SUMS: Final = "sha256sums"
SIGNATURE: Final = "sha256sums.sig"
_OUTSIDE: Final = frozenset({SUMS, SIGNATURE, ".ballast", "status", LIVE, LIVE_PARTIAL})


class Differences(NamedTuple):
    """Files that are not as they were summed up, by name, each sorted."""

    changed: list[str]
    missing: list[str]
    added: list[str]
    unreadable: list[str]

    def describe(self) -> str:
        """All of them in one line; empty where there are none."""
        parts = [
            ("changed", self.changed),
            ("missing", self.missing),
            ("not summed up", self.added),
            ("no line of a check sum", self.unreadable),
        ]
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)


def _files(run: Path) -> Iterator[tuple[str, Path]]:
    """Those that are summed up, links, which are not followed, and what is no file; in the order of
    their paths."""
    found = [name for name in _below(str(run), "") if name not in _OUTSIDE]
    for name in sorted(found, key=lambda name: name.split("/")):
        yield name, run / name


def _below(folder: str, before: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, f"{before}{entry.name}/")
            else:
                yield f"{before}{entry.name}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums_of(run: Path) -> str:
    """The content of `sha256sums` for the files as they are now."""
    return "".join(f"{_digest(path)}  {name}\n" for name, path in _files(run) if path.is_file())


def _told(text: str) -> tuple[dict[str, str], list[str]]:
    """Digest by name, and the lines that are none."""
    told: dict[str, str] = {}
    wrong = []
    for number, line in enumerate(text.splitlines(), start=1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name or name in told:
            wrong.append(f"line {number}")
            continue
        told[name] = digest
    return told, wrong


def _is_as(path: Path, digest: str, largest_bytes: int | None) -> bool:
    if not path.is_file():
        return False
    if largest_bytes is not None and path.stat().st_size > largest_bytes:
        return True
    return _digest(path) == digest


def compare_sums(
    run: Path, largest_bytes: int | None = None, only: Callable[[str], bool] = lambda name: True
) -> Differences:
    """The files against `sha256sums`; those that are larger than this, where it is given, have only
    to be there; `only` says by its name whether one is looked at. Raises OSError where that cannot
    be read."""
    if not (run / SUMS).is_file():  # a pipe would wait for a writer
        raise OSError(errno.EINVAL, "no file")
    every, wrong = _told((run / SUMS).read_text(errors="replace"))
    told = {name: digest for name, digest in every.items() if only(name)}
    there = {name: path for name, path in _files(run) if only(name)}
    changed = [
        name
        for name, path in there.items()
        if name in told and not _is_as(path, told[name], largest_bytes)
    ]
    return Differences(
        changed=sorted(changed),
        missing=sorted(told.keys() - there.keys()),
        added=sorted(there.keys() - told.keys()),
        unreadable=wrong,
    )
