"""Files of a simulated machine: what is not synced is lost when its power goes, some of it torn.

`Files` is what a server is given in place of the operating system; the one for real machines has
the same methods. A file is appended to, cut and synced, or replaced as a whole.
"""

from __future__ import annotations

import random
from typing import Protocol

__all__ = ["Files", "LogFile", "SimFiles"]


class LogFile(Protocol):
    """A file that grows. OSError where the disk refuses."""

    def write(self, data: bytes) -> None: ...
    def truncate(self, size: int) -> None: ...
    def sync(self) -> None: ...


class Files(Protocol):
    """Of one directory, by name."""

    def exists(self, name: str) -> bool: ...
    def read(self, name: str) -> bytes: ...
    def replace(self, name: str, data: bytes) -> None:
        """As a whole; on the disk when it returns."""
        ...

    def open(self, name: str) -> LogFile: ...


class _File:
    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""


class _Open:
    def __init__(self, file: _File) -> None:
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.data += data

    def truncate(self, size: int) -> None:
        del self._file.data[size:]

    def sync(self) -> None:
        self._file.synced = bytes(self._file.data)


class SimFiles:
    """One machine's disk. `lost_bytes` counts what was not synced when the power went."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._files: dict[str, _File] = {}
        self.lost_bytes = 0

    def exists(self, name: str) -> bool:
        """Is there such a file?"""
        return name in self._files

    def read(self, name: str) -> bytes:
        """All of it. Raises OSError where there is none."""
        if name not in self._files:
            raise OSError(2, f"no file {name}")
        return bytes(self._files[name].data)

    def replace(self, name: str, data: bytes) -> None:
        """As a whole, and synced."""
        file = _File()
        file.data += data
        file.synced = data
        self._files[name] = file

    def open(self, name: str) -> LogFile:
        """To append to; made where it is not there."""
        return _Open(self._files.setdefault(name, _File()))

    def lose_power(self) -> None:
        """What was not synced is gone, but for a beginning of it of any length."""
        for file in self._files.values():
            data, synced = bytes(file.data), file.synced
            if data.startswith(synced):
                tail = data[len(synced) :]
                kept = self._rng.randint(0, len(tail)) if tail else 0
                self.lost_bytes += len(tail) - kept
                file.data = bytearray(synced + tail[:kept])
            else:  # it was cut, and the cut is not on the disk
                file.data = bytearray(synced)
            file.synced = bytes(file.data)
