"""What a power cut took, by the files themselves: what was there before is held against what a
server can read now. Nothing that loses the power has a say in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol, TypedDict


class Written(TypedDict):
    """A file at some moment: how long it is, how much of its beginning is on the disk as it is,
    and the SHA-256 of both."""

    size_bytes: int
    synced_bytes: int
    sha256: str
    synced_sha256: str


class _Readable(Protocol):
    def exists(self, name: str) -> bool: ...
    def read(self, name: str) -> bytes: ...


def written_of(data: bytes, synced_bytes: int) -> Written:
    """A file with this in it, of which so much is synced."""
    return Written(
        size_bytes=len(data),
        synced_bytes=synced_bytes,
        sha256=_sum(data),
        synced_sha256=_sum(data[:synced_bytes]),
    )


def lost_of(before: Mapping[str, Written], files: _Readable) -> int:
    """Bytes that were not synced then, and do not stand any more."""
    return sum(_lost(was, _now(files, name)) for name, was in before.items())


def damaged(before: Mapping[str, Written], files: _Readable) -> list[str]:
    """Files in which something that was synced then does not stand any more, by name."""
    return sorted(
        name
        for name, was in before.items()
        if _sum(_now(files, name)[: was["synced_bytes"]]) != was["synced_sha256"]
    )


def _lost(was: Written, now: bytes) -> int:
    if _sum(now[: was["size_bytes"]]) == was["sha256"]:
        return 0
    torn = len(now) if len(now) < was["size_bytes"] else 0  # or the end of another text
    return was["size_bytes"] - max(torn, was["synced_bytes"])


def _now(files: _Readable, name: str) -> bytes:
    return files.read(name) if files.exists(name) else b""


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
