"""Files of a simulated machine: what is not synced is lost when its power goes, some of it torn.

`Files` is what a server is given in place of the operating system; the one for real machines has
the same methods. A file is appended to, cut and synced, or replaced as a whole. What a power cut
took is told by the files themselves: what was there before is held against what a server can read
now. Nothing that loses the power has a say in it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping
from typing import Protocol, TypedDict


class FileState(TypedDict):
    """A file at some moment: how long it is, how much of its beginning is on the disk as it is,
    and the SHA-256 of both."""

    size_bytes: int
    synced_bytes: int
    sha256: str
    synced_sha256: str


class _Readable(Protocol):
    def exists(self, name: str) -> bool: ...
    def read(self, name: str) -> bytes: ...


def file_state(data: bytes, synced_bytes: int) -> FileState:
    """A file with this in it, of which so much is synced."""
    return FileState(
        size_bytes=len(data),
        synced_bytes=synced_bytes,
        sha256=_sum(data),
        synced_sha256=_sum(data[:synced_bytes]),
    )


def lost_of(before: Mapping[str, FileState], files: _Readable) -> int:
    """Bytes that were not synced then, and do not stand any more."""
    return sum(_lost(was, _now(files, name)) for name, was in before.items())


def damaged(before: Mapping[str, FileState], files: _Readable) -> list[str]:
    """Files in which something that was synced then does not stand any more, by name."""
    return sorted(
        name
        for name, was in before.items()
        if _sum(_now(files, name)[: was["synced_bytes"]]) != was["synced_sha256"]
    )


def _lost(was: FileState, now: bytes) -> int:
    if _sum(now[: was["size_bytes"]]) == was["sha256"]:
        return 0
    torn = len(now) if len(now) < was["size_bytes"] else 0  # or the end of another text
    return was["size_bytes"] - max(torn, was["synced_bytes"])


def _now(files: _Readable, name: str) -> bytes:
    return files.read(name) if files.exists(name) else b""


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Stalled(BaseException):
    """A sync does not return: who waits for it on a thread waits until the power goes."""


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

    @property
    def kept_bytes(self) -> int:
        """How much of its beginning no power cut can take."""
        if self.data.startswith(self.synced):
            return len(self.synced)
        pairs = zip(self.data, self.synced, strict=False)
        both = min(len(self.data), len(self.synced))
        return next((at for at, (one, other) in enumerate(pairs) if one != other), both)


class _Open:
    def __init__(self, file: _File, waits: Callable[[], bool]) -> None:
        self._file, self._waits = file, waits

    def write(self, data: bytes) -> None:
        self._file.data += data

    def truncate(self, size: int) -> None:
        del self._file.data[size:]

    def sync(self) -> None:
        if self._waits():
            raise Stalled
        self._file.synced = bytes(self._file.data)


class SimFiles:
    """One machine's disk."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._files: dict[str, _File] = {}
        self._waits: Callable[[], bool] | None = None

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
        return _Open(
            self._files.setdefault(name, _File()),
            lambda: self._waits is not None and self._waits(),
        )

    def stall(self, waits: Callable[[], bool]) -> None:
        """From now on no sync returns, but for those of whom it `waits` for nobody; until the power
        goes."""
        self._waits = waits

    @property
    def unsynced_bytes(self) -> int:
        """What a power cut could take now."""
        return sum(len(file.data) - file.kept_bytes for file in self._files.values())

    def written(self) -> dict[str, FileState]:
        """Each file as it is now, to be held against what stands after a power cut."""
        return {
            name: file_state(bytes(file.data), file.kept_bytes)
            for name, file in sorted(self._files.items())
        }

    def wipe(self) -> None:
        """All files are gone, and that is on the disk."""
        self._waits = None
        self._files.clear()

    def lose_power(self, least: int = 0) -> None:
        """What was not synced is gone, but for a beginning of it of any length; of each file that
        has so much `least` bytes are lost."""
        self._waits = None
        for file in self._files.values():
            data, synced = bytes(file.data), file.synced
            if data.startswith(synced):
                tail = data[len(synced) :]
                kept = self._rng.randint(0, max(0, len(tail) - least)) if tail else 0
                file.data = bytearray(synced + tail[:kept])
            else:  # it was cut, and the cut is not on the disk
                file.data = bytearray(synced)
            file.synced = bytes(file.data)
