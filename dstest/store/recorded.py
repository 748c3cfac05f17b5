"""What a history tells of which run it is: the name that it was made under, and its operations."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

HISTORY: Final = "history.jsonl"
_CHUNK: Final = 1 << 20


def recorded_name(run: Path) -> str:
    """What its history says that its directory was called; empty where it cannot be read."""
    try:
        with (run / HISTORY).open("rb") as file:
            line = file.readline()
        return str(msgspec.json.decode(line).get("run") or "")
    except (OSError, msgspec.DecodeError, AttributeError, UnicodeDecodeError, RecursionError):
        return ""


def operations_bytes(history: Path) -> int:
    """How many bytes the operations of a history take: the same for the same operations. Raises
    OSError."""
    with history.open("rb") as file:
        head = len(file.readline())
        return os.fstat(file.fileno()).st_size - head


def operations_digest(history: Path) -> str:
    """Of the operations of a history, whatever its first line says; empty where it has none. Two
    runs never take the same nanoseconds. Raises OSError."""
    found, some = hashlib.sha256(), False
    with history.open("rb") as file:
        file.readline()
        while chunk := file.read(_CHUNK):
            some = True
            found.update(chunk)
    return found.hexdigest() if some else ""


class Distinct:
    """Runs that were made of one at `run`, in `below`: each is to be counted once, and is to be a
    run of its own. Those of a simulation may have the same operations: one made again has."""

    def __init__(self, run: Path, below: Path, *, simulated: bool) -> None:
        self._below, self._simulated = below.resolve(), simulated
        self._by_bytes: dict[int, list[Path]] = {}
        with suppress(OSError):
            self._by_bytes[operations_bytes(run / HISTORY)] = [run.resolve()]

    def why_not(self, path: Path) -> str:
        """Why a run does not count beside those that were asked about before, as the rest of a
        sentence about it; empty where it does."""
        run = path.resolve()
        if not run.is_relative_to(self._below):
            return f"is no run of its own: it does not lie in {self._below}"
        try:
            before = self._by_bytes.setdefault(operations_bytes(run / HISTORY), [])
            twin = next((one for one in before if self._same(one, run)), None)
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        before.append(run)
        if run.name != (made_as := recorded_name(run)):
            return f"is no run of its own: it was made as {made_as or 'no run'}"
        if twin is not None:
            return f"is no run of its own: it recorded what {twin.name} did, at the same times"
        return ""

    def _same(self, one: Path, other: Path) -> bool:
        if one == other:
            return True
        if self._simulated:
            return False
        digests = {operations_digest(run / HISTORY) for run in (one, other)}
        return len(digests) == 1 and digests != {""}
