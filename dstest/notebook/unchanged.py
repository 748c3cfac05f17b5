"""Is what is read of a run now what was read when it was checked?"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, NamedTuple

from dstest.core.errors import EvidenceError

_FILES: Final = (
    "history.jsonl",
    "verdict.json",
    "evidence.json",
    "run.json",
    "faults.jsonl",
    "canary.json",
)


class Seen(NamedTuple):
    """What tells cheaply whether a file may be another one: of the times, a program can set back
    that of its content, but not that of its last change."""

    inode: int
    size: int
    content_ns: int
    change_ns: int


def seen(path: Path) -> Seen | None:
    """None where nothing can be seen of it."""
    try:
        now = path.stat()
    except OSError:
        return None
    return Seen(now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


def _sum(path: Path) -> str:
    """Empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


class Unchanged:
    """The files of a run that its verdict, history and report are read from, as they are now."""

    def __init__(self, run: Path) -> None:
        self._run = run
        paths = [run / name for name in _FILES]
        self._seen = {path: seen(path) for path in paths}
        self._sums = {path: _sum(path) for path in paths}

    def require(self) -> None:
        """Raises EvidenceError where one of them has another content since. One that was written
        again as it was is the same."""
        for path, before in self._seen.items():
            now = seen(path)
            if now == before:
                continue
            if _sum(path) != self._sums[path]:
                raise EvidenceError(
                    f"{path} was changed since it was read",
                    remedy="History.from_run checks it again",
                )
            self._seen[path] = now
