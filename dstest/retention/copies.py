"""Which runs are copies of others: they recorded the same, whatever was written around it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dstest.retention.identity import RUN_NAME
from dstest.store.recorded import operations_bytes, operations_digest

_HISTORY: Final = "history.jsonl"
K = TypeVar("K", bound=Hashable)
Digest = Callable[["Recorded"], str]


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A run by a `name` that no other one has, with the bytes of its operations; 0 where it has
    none, or they cannot be read."""

    name: str
    path: Path
    bytes: int


def recorded(run: Path) -> int:
    """The bytes of the operations of a run. Never raises for what lies there."""
    try:
        return operations_bytes(run / _HISTORY)
    except OSError:
        return 0


def digest_of(run: Recorded) -> str:
    """Of the operations; empty where they cannot be read any more."""
    try:
        return operations_digest(run.path / _HISTORY)
    except OSError:
        return ""


def copies_among(runs: Iterable[Recorded], digest: Digest = digest_of) -> dict[str, str]:
    """By the name of each copy that of the run which counts: the first whose directory is called as
    dstest calls one (who has the name of another run is damaged), else the first.

    Only such as may be believed are to be given: who edits a copy must not take a run away by it.
    Operations are read only of runs that have as many bytes of them as others.
    """
    found: dict[str, str] = {}
    for size, alike in _grouped(runs, lambda run: run.bytes):
        for told, same in _grouped(alike, digest) if size and len(alike) > 1 else ():
            first = min(same, key=lambda run: RUN_NAME.fullmatch(run.path.name) is None)
            if told:
                found.update((run.name, first.name) for run in same if run is not first)
    return found


def _grouped(
    runs: Iterable[Recorded], key: Callable[[Recorded], K]
) -> Iterator[tuple[K, list[Recorded]]]:
    found: dict[K, list[Recorded]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    yield from found.items()
