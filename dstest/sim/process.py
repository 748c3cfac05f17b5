"""A process of the simulation: which one a callback belongs to is part of its context."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any


class Process:
    """From its start to its death; a restart is another one."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.dead = False
        self.paused = False
        self.held: list[tuple[Any, tuple[Any, ...], Any]] = []
        self.tasks: set[Any] = set()

    def forget(self, task: Any) -> None:
        """One that is over. What it raised is kept until somebody has looked at it, or the end.

        Of a process that is dead no task is forgotten: that would close it, in the middle of
        whatever else runs then."""
        if task.cancelled() or task._exception is None:
            self.tasks.discard(task)

    def unseen(self) -> list[BaseException]:
        """What tasks of it have raised and nobody has looked at; each of them once."""
        found = [task for task in self.tasks if task.done() and task._log_traceback]
        return sorted((task.exception() for task in found), key=repr)

    def die(self) -> None:
        """Nothing of it runs any more."""
        self.dead = True


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
