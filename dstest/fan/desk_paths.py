"""Where local workers of a fan do their tasks, for whoever takes up what a dead fan left."""

from __future__ import annotations

from pathlib import Path
from typing import Final

WORK: Final = ".work"
"""Below the directory of a fan."""

FOLDER: Final = "folder"
"""Of a task, below a directory that begins with its id."""


def folders_of(into: Path, id: str) -> list[Path]:
    """Where this task was begun, and from where nothing has come back yet; oldest first."""
    found = [path / FOLDER for path in (into / WORK).glob(f"{id}.*") if (path / FOLDER).is_dir()]
    return sorted(found, key=lambda path: path.stat().st_ctime_ns)
