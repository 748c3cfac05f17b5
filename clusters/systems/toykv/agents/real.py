"""What a server has around it on a real machine: files of a directory, its clocks, its numbers."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from clusters.systems.toykv.agents.around import Around

__all__ = ["RealFiles", "lines_into", "opened", "real_around"]


class RealLog:
    """A file that grows. Calls raise OSError where the disk refuses."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, data: bytes) -> None:
        """All of it, at the end."""
        while data:
            data = data[os.write(self._fd, data) :]

    def truncate(self, size: int) -> None:
        """What lies behind is gone."""
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Returns when all of it is on the disk."""
        os.fdatasync(self._fd)


class RealFiles:
    """The files of one directory, by name."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory

    def exists(self, name: str) -> bool:
        """Is there such a file?"""
        return (self._directory / name).exists()

    def read(self, name: str) -> bytes:
        """All of it."""
        return (self._directory / name).read_bytes()

    def replace(self, name: str, data: bytes) -> None:
        """As a whole, and on the disk when it returns."""
        new = self._directory / f"{name}.new"
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._directory / name)
        self._sync_directory()

    def open(self, name: str) -> RealLog:
        """To append to; made where it is not there."""
        log = RealLog(self._directory / name)
        self._sync_directory()
        return log

    def _sync_directory(self) -> None:
        fd = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def lines_into(path: str) -> Callable[[str], object]:
    """A file that lines are added to. Each is in it when the call returns, also of a server that is
    killed then; OSError where it cannot be. One that was cut off is ended before the next."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)

    def add(line: str) -> None:
        size = os.fstat(file).st_size
        whole = not size or os.pread(file, 1, size - 1) == b"\n"
        data = f"{'' if whole else chr(10)}{line}\n".encode()
        while data:
            data = data[os.write(file, data) :]

    return add


def opened(path: str) -> TextIO | None:
    """A file to append to, if one is wanted; by lines: what a server has done is to be in it when
    it is killed."""
    return open(path, "a", buffering=1) if path else None


def _write(text: str) -> None:
    sys.stderr.write(text)


def real_around(directory: Path, **more: Any) -> Around:
    """`more` are fields of `Around` that stand in place of those of the machine, or beside them."""
    of_machine = {
        "files": RealFiles(directory),
        "numbers": random.SystemRandom(),
        "die": os._exit,
        "now_s": time.monotonic,
        "wall_ns": time.time_ns,
        "write": _write,
    }
    return Around(**{**of_machine, **more})
