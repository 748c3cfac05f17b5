"""What a worker pool is asked to do, where a worker does it, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

WORK: Final = ".work"
"""Below the directory of a pool."""

FOLDER: Final = "folder"
"""Of a task, below a directory that begins with its id."""


class Workspace(Protocol):
    """Where a worker does one task. `folder` is empty, the task's own, and what is in it at the end
    comes back. `lab_id` is the name of the lab that the task may use or make; no other task uses
    one of that name on the same machine."""

    folder: Path
    lab_id: str

    def command(self, argv: Sequence[str], log: Path, *, limit_s: float) -> int:
        """Run `dstest ARGV` to its end; its exit code. It is ended (it heals and seals) after
        `limit_s`, and when the pool ends or this worker dies."""
        ...


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of work.

    `work(place, *args)` is called on a worker: a function that can be imported there, arguments
    that can be pickled, and an answer that can. `id` is unique in a pool and names directories:
    letters, digits, dots and dashes. With `lab` it is given to a worker with a lab that nobody
    else has claimed. A task from which nothing was heard for `limit_s` counts as lost.
    """

    id: str
    work: Callable[..., Any]
    args: tuple[Any, ...] = ()
    lab: bool = True
    limit_s: float = 3600.0


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a task: the answer of its `work`, or the `error` of one that raised, was lost
    too often, or whose directory did not arrive as it was sent. `folder` is what it left, on this
    machine, None where it left nothing; `lost` how many workers were lost with it before; `worker`
    the address of the one that did it."""

    id: str
    value: Any = None
    error: str | None = None
    folder: Path | None = None
    lost: int = 0
    worker: str = ""


def folders_of(into: Path, id: str) -> list[Path]:
    """Where this task was begun, and from where nothing has come back yet; oldest first."""
    found = [path / FOLDER for path in (into / WORK).glob(f"{id}.*") if (path / FOLDER).is_dir()]
    return sorted(found, key=lambda path: path.stat().st_ctime_ns)
