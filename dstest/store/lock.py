"""One process at a time, by a lock on a file, which the kernel takes back when its process ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dstest.core.errors import ConfigError
from dstest.store.layout import disk_full


@contextmanager
def locked(path: Path, busy: ConfigError | None = None) -> Iterator[None]:
    """Hold the lock of this file, made where it is not there, until the end of the block. Where
    another process holds it: raises `busy`, or waits where that is None."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb")
    except OSError as error:
        raise disk_full(path.parent, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if busy is None else fcntl.LOCK_NB))
        except OSError:
            if busy is None:
                raise
            raise busy from None
        yield


def held(path: Path) -> bool:
    """Does a process hold the lock of this file? Nothing is made or changed."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
