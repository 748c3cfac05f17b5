"""What is made once for all tests and all workers of xdist, below the session's own directory."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Once(NamedTuple):
    """`once(name, make)`: a directory that `make` has filled, by whichever worker asked first.
    Tests read it; those that write take a copy."""

    shared: Path

    def __call__(self, name: str, make: Callable[[Path], object]) -> Path:
        folder, done = self.shared / name, self.shared / f"{name}.done"
        with (self.shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)  # of one that failed
                folder.mkdir()
                make(folder)
                done.touch()
        return folder
