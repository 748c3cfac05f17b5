"""Signals while a simulation goes on. Its loop has none of its own: the first raises where the
program is, which no server that never waits can outlast; what comes later is waited out, as on
nodes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

__all__ = ["Stop", "stopping"]

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """`by` is the signal that has ended the simulation, empty where none has: once there is one,
    none ends anything, until the run is judged. While it `waits` no first one does either: what is
    left to do has to be done."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.by = ""
        self.waits = False
        self._say = say

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In which it waits."""
        self.waits = True
        try:
            yield
        finally:
            self.waits = False

    def came(self, number: int, frame: Any) -> None:
        """A handler of signals. Raises KeyboardInterrupt where this one ends it."""
        if self.by or self.waits:
            # It may have come in the middle of a line that is being written to the same place.
            with suppress(RuntimeError):
                self._say("already stopping: the history is sealed first, one moment")
            return
        self.by = signal.Signals(number).name
        raise KeyboardInterrupt


@contextmanager
def stopping(say: Callable[[str], None]) -> Iterator[Stop]:
    """SIGTERM ends the simulation as Ctrl-C does. In a thread, which gets no signals, neither."""
    stop = Stop(say)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.came) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
