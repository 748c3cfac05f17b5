"""Archives of files for a kernel's initial memory disk: cpio in the "new" format, uncompressed.

A kernel takes several of them, one after the other, as one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

DIRECTORY: Final = stat.S_IFDIR | 0o755
ALIGNED: Final = 4


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % ALIGNED)


def _entry(number: int, name: str, mode: int, data: bytes) -> bytes:
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    header = b"070701" + b"".join(b"%08x" % field for field in fields)
    return _padded(header + path) + _padded(data)


def archive(entries: Mapping[str, tuple[int, bytes]]) -> bytes:
    """Relative path -> (mode with its type, content); directories above them are made, root's."""
    rows = dict(entries)
    for name in entries:
        for parent in list(Path(name).parents)[:-1]:
            rows.setdefault(str(parent), (DIRECTORY, b""))
    ordered = sorted(rows)
    parts = [_entry(i, name, *rows[name]) for i, name in enumerate(ordered, 1)]
    return b"".join([*parts, _entry(0, "TRAILER!!!", 0, b"")])


def files_below(folder: Path, prefix: str) -> Iterable[tuple[str, tuple[int, bytes]]]:
    """What lies below `folder`, directories and plain files, as entries below `prefix`."""
    yield prefix, (folder.stat().st_mode, b"")
    for where, names, files in os.walk(folder):
        for name in [*names, *files]:
            path = Path(where, name)
            mode = path.lstat().st_mode
            data = path.read_bytes() if stat.S_ISREG(mode) else b""
            yield f"{prefix}/{path.relative_to(folder)}", (mode, data)
