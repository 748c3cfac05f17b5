"""What tests ask workers of a fan to do."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from dstest.fan.task import Place

__all__ = ["double", "fail", "leave_files", "link_out", "lose_worker_once", "nap"]


def double(place: Place, number: int) -> int:
    return 2 * number


def fail(place: Place) -> None:
    raise ValueError("not this one")


def leave_files(place: Place, text: str) -> str:
    (place.folder / "below").mkdir()
    (place.folder / "below" / "a.txt").write_text(text)
    return place.lab_id


def link_out(place: Place) -> None:
    (place.folder / "kept").write_text("kept")
    (place.folder / "out").symlink_to("/etc/passwd")


def lose_worker_once(place: Place, marker: Path) -> int:
    """The first time the whole worker process dies, as by kill -9."""
    if not marker.exists():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def nap(place: Place, seconds: float, marker: Path) -> int:
    """A command of dstest that would take long."""
    marker.write_text(str(os.getpid()))
    time.sleep(seconds)
    return os.getpid()
