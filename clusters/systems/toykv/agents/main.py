"""The server of toykv: `python3 -m clusters.systems.toykv.agents.main --help`; and what it has
around it on a real machine: files of a directory, its clocks, its numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from clusters.systems.toykv.agents.server import Server
from clusters.systems.toykv.agents.storage import Around

__all__ = [
    "RealFiles",
    "lines_into",
    "main",
    "open_lines",
    "real_around",
]


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


def open_lines(path: str) -> TextIO | None:
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


def _lines(path: str) -> Callable[[str], object] | None:
    file = open_lines(path)
    return None if file is None else partial(print, file=file)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="toykv")
    parser.add_argument("--name", required=True)
    parser.add_argument("--cluster", required=True, help="NAME=HOST:PEER_PORT,..")
    parser.add_argument("--address", required=True, help="where it listens")
    parser.add_argument("--client-port", type=int, required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--bootstrap", action="store_true")
    parser.add_argument("--join", default="", help="file that says how: voter or learner")
    parser.add_argument("--audit", default="", help="file for what was applied")
    parser.add_argument("--spans", default="", help="file for what was done for whom")
    parser.add_argument("--journal", default="", help="file for the steps of the protocol")
    parser.add_argument("--bug", default="none")
    given = parser.parse_args()
    around = real_around(Path(given.data))
    around.spans, around.audit = (_lines(path) for path in (given.spans, given.audit))
    if given.journal:
        around.keep = lines_into(given.journal)
    how = Path(given.join)
    votes = not how.is_file() or how.read_text() != "learner"
    asyncio.run(Server(given, around, votes).run())


if __name__ == "__main__":
    main()
