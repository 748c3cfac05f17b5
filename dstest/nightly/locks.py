"""One process at a time: for the nights of a name, and for their index."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from dstest.core.errors import ConfigError
from dstest.store.layout import disk_full

__all__ = ["alone", "in_turn"]

_NIGHT: Final = ".night.lock"
_INDEX: Final = ".index.lock"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Until the end of the block, or of this process, no other one runs a night in this folder.
    Raises ConfigError where one does."""
    with _opened(folder, _NIGHT) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"a night in {folder} is still running",
                remedy="wait for its end (`dstest nightly status DIR`), or give this one "
                "another name",
            ) from None
        yield


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Wait until nobody else makes the index of this folder, and keep others from it."""
    with _opened(folder, _INDEX) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _opened(folder: Path, name: str) -> BinaryIO:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / name).open("wb")
    except OSError as error:
        raise disk_full(folder, error) from None
