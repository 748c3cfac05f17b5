"""Who has a lab to itself: a run in it, or a release of machines that were adopted."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from clusters.labs import state
from dstest.core.errors import LabError
from dstest.core.node import LabInfo

LOOK_S: Final = 0.5
"""Longer than anybody takes who only looks whether a lab is used."""


def lock_of(lab: LabInfo) -> Path:
    """The file that a run in this lab holds locked; it is not there while nobody does."""
    return state.lock_path(_name(lab))


def _name(lab: LabInfo) -> str:
    return f"run-{lab.lab_id}"


def in_use(lab: LabInfo) -> bool:
    """Does a run use this lab right now?"""
    try:
        with lock_of(lab).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


@contextmanager
def alone(lab: LabInfo) -> Iterator[None]:
    """Two runs in one lab would prove each other's faults: the second is refused, by LabError."""
    with ExitStack() as stack:
        try:
            stack.enter_context(state.lock(_name(lab), timeout_s=LOOK_S))
        except LabError:
            raise LabError(
                f"another run uses lab {lab.lab_id} now",
                remedy="wait for its end, or take another lab with --lab-id NAME",
            ) from None
        yield
