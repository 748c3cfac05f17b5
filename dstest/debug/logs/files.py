"""Files of logs: which there are below a folder, what each is by its first bytes, and how it is
opened. What is gzip is unpacked, whatever its name is.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, NamedTuple

DEPTH_MAX: Final = 6
"""Folders below the one that is given."""

_GZIP: Final = b"\x1f\x8b"
_FIRST: Final = 8192
_MAGIC: Final = (
    (b"\x28\xb5\x2f\xfd", "is packed: unpack it first with zstd -d"),
    (b"\xfd7zXZ\x00", "is packed: unpack it first with xz -d"),
    (b"BZh", "is packed: unpack it first with bunzip2"),
    (b"\x04\x22\x4d\x18", "is packed: unpack it first with lz4 -d"),
    (b"\x02\x21\x4c\x18", "is packed: unpack it first with lz4 -d"),
    (b"PK\x03\x04", "is an archive: unpack it first with unzip"),
    (b"7z\xbc\xaf\x27\x1c", "is an archive: unpack it first with 7z x"),
    (b"LPKSHHRH", "is a journal of systemd: write it as text with journalctl --file"),
    (b"SQLite format 3\x00", "is a database"),
    (b"\x7fELF", "is a program"),
    (b"\x89PNG", "is a picture"),
)
_TAR: Final = slice(257, 262)
_CONTROL: Final = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_CONTROL_MOST: Final = 0.02
"""Of the first bytes: of random ones it is a tenth. A NUL is where a crash or a rotation left
none."""

BROKEN: Final = (OSError, EOFError, zlib.error)
"""What reading a file that is damaged raises."""


class Below(NamedTuple):
    """A file below a folder, and the folders to it."""

    path: Path
    parts: tuple[str, ...]


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """To be read as bytes, unpacked."""
    with path.open("rb") as file:
        if file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked  # type: ignore[misc]
        else:
            yield file


def why_broken(error: BaseException) -> str:
    """What reading raised, in words."""
    return str(getattr(error, "strerror", None) or error)


def why_no_log(path: Path) -> str:
    """Why this can be no log, by its first bytes; empty where it may be one."""
    try:
        if not path.is_file():
            return "is no regular file" if path.exists() else "is a link to nothing"
        with opened(path) as file:
            first = file.read1(_FIRST)  # type: ignore[attr-defined]
    except BROKEN as error:
        return why_broken(error)
    return _why_binary(first)


def _why_binary(first: bytes) -> str:
    for magic, why in _MAGIC:
        if first.startswith(magic):
            return why
    if first[_TAR] == b"ustar":
        return "is an archive: unpack it first with tar -x"
    said = len(first) - first.count(0)
    binary = len(_CONTROL.findall(first)) > max(1, said * _CONTROL_MOST)
    return "is no text" if binary else ""


def files_under(root: Path, skipped: list[str]) -> list[Below]:
    """All files in it and in its folders, by name, each once, links after what they may point to.
    What was left out is added to `skipped`, and why. Raises OSError where `root` cannot be read."""
    seen = {root.resolve()}
    found: list[Below] = []
    rest: list[Below] = [Below(path, ()) for path in reversed(_inside(root))]
    while rest:
        one = rest.pop()
        try:
            real = one.path.resolve()
            folder = one.path.is_dir()
        except (OSError, RuntimeError) as error:
            skipped.append(f"{one.path}: {why_broken(error)}")
            continue
        if real in seen:
            continue
        seen.add(real)
        if not folder:
            found.append(one)
        elif len(one.parts) >= DEPTH_MAX:
            skipped.append(f"{one.path}: lies deeper than {DEPTH_MAX} folders")
        else:
            parts = (*one.parts, one.path.name)
            try:
                rest += [Below(path, parts) for path in reversed(_inside(one.path))]
            except OSError as error:
                skipped.append(f"{one.path}: {why_broken(error)}")
    return found


def _inside(folder: Path) -> list[Path]:
    return sorted(folder.iterdir(), key=lambda path: (path.is_symlink(), path.name))


def shown_skipped(skipped: list[str], most: int = 5) -> list[str]:
    """A line for each of the first ones, and how many more there are."""
    rows = [f"not read: {one}" for one in skipped[:most]]
    return [*rows, f"not read: {len(skipped) - most:,} more"] if len(skipped) > most else rows
