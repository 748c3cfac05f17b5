"""One process at a time: for the nights of a name, and for their index."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from dstest.core.errors import ConfigError
from dstest.store.lock import locked

_NIGHT: Final = ".night.lock"
_INDEX: Final = ".index.lock"


def alone(folder: Path) -> AbstractContextManager[None]:
    """Until the end of the block, or of this process, no other one runs a night in this folder.
    Raises ConfigError where one does."""
    busy = ConfigError(
        f"a night in {folder} is still running",
        remedy="wait for its end (`dstest nightly status DIR`), or give this one another name",
    )
    return locked(folder / _NIGHT, busy)


def in_turn(folder: Path) -> AbstractContextManager[None]:
    """Wait until nobody else makes the index of this folder, and keep others from it."""
    return locked(folder / _INDEX)
