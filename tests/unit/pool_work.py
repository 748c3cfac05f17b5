"""What tests ask workers of a pool to do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from dstest.campaign.workers.task import Workspace

__all__ = [
    "double",
    "fail",
    "hang_once",
    "hold",
    "leave_files",
    "link_out",
    "lose_worker_once",
    "meet",
    "stuck",
    "version",
]


def double(place: Workspace, number: int) -> int:
    return 2 * number


def fail(place: Workspace) -> None:
    raise ValueError("not this one")


def leave_files(place: Workspace, text: str) -> str:
    (place.folder / "below").mkdir()
    (place.folder / "below" / "a.txt").write_text(text)
    return place.lab_id


def link_out(place: Workspace) -> None:
    (place.folder / "kept").write_text("kept")
    (place.folder / "out").symlink_to("/etc/passwd")


def lose_worker_once(place: Workspace, marker: Path) -> int:
    """The first time the whole worker process dies, as by kill -9."""
    if not marker.exists():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def version(place: Workspace) -> tuple[int, str]:
    """What `dstest --version` says there."""
    log = place.folder / "log.txt"
    code = place.command(["--version"], log, limit_s=100.0)
    return code, log.read_text()


def stuck(place: Workspace, fifo: Path, limit_s: float) -> int:
    """A command of dstest that waits for what nobody writes."""
    return place.command(["check", str(fifo)], place.folder / "log.txt", limit_s=limit_s)


def hang_once(place: Workspace, marker: Path) -> str:
    """The first time nothing is heard of it any more."""
    if not marker.exists():
        marker.write_text("")
        time.sleep(1000.0)
    return "done"


def meet(place: Workspace, folder: Path, count: int) -> int:
    """Wait until so many tasks are here at once; how many came."""
    (folder / place.lab_id).touch()
    deadline = time.monotonic() + 60.0
    while len(list(folder.iterdir())) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    return len(list(folder.iterdir()))


def hold(marker: Path, release: Path) -> None:
    """Another one's task: it has the worker until it is told to end."""
    marker.touch()
    while not release.exists():
        time.sleep(0.1)
