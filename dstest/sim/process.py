"""A process of the simulation: which one a callback belongs to is part of its context."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from typing import Any

__all__ = ["PROCESS", "Process"]


class Process:
    """From its start to its death; a restart is another one. `clock_s` is what its clock is wrong
    by."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.dead = False
        self.paused = False
        self.clock_s = 0.0
        self.held: list[tuple[Any, tuple[Any, ...], Any]] = []
        self.signals: dict[int, tuple[Any, tuple[Any, ...], Any]] = {}
        self.tasks: weakref.WeakSet[Any] = weakref.WeakSet()
        self._kept: list[Any] = []

    def die(self) -> None:
        """Nothing of it runs any more. Its tasks are kept: to forget one would close it, in the
        middle of whatever else runs then."""
        self.dead = True
        self._kept = list(self.tasks)


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
