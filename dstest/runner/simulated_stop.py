"""Signals while a simulation goes on. Its loop has none of its own: the first asks it to end
between two turns, and where a server never waits it raises where the program is, some seconds of
work later; what comes after the first is waited out, as on nodes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_PATIENCE_S: Final = 5.0
"""Of this process's time, for the turn in which the first signal comes."""


class Stop:
    """`by` is the signal that has ended the simulation, empty where none has: once there is one,
    none ends anything, until the run is judged. While it `waits` no first one does either: what is
    left to do has to be done. `interrupt` asks the simulation to raise KeyboardInterrupt between
    two of its turns: raised in the middle of one, its loop would lose a callback, and what waits
    for that waits for ever."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.by = ""
        self.waits = False
        self.interrupt: Callable[[], None] | None = None
        self._say = say

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """In which it waits."""
        self.waits = True
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        try:
            yield
        finally:
            self.waits = False

    def came(self, number: int, frame: Any) -> None:
        """A handler of signals. Raises KeyboardInterrupt where nothing can be asked to."""
        if self.by or self.waits:
            # It may have come in the middle of a line that is being written to the same place.
            with suppress(RuntimeError):
                self._say("already stopping: the history is sealed first, one moment")
            return
        self.by = signal.Signals(number).name
        if self.interrupt is None:
            raise KeyboardInterrupt
        self.interrupt()
        signal.setitimer(signal.ITIMER_VIRTUAL, _PATIENCE_S)

    def late(self, number: int, frame: Any) -> None:
        """A handler of the timer: the turn has not ended. Raises KeyboardInterrupt."""
        if not self.waits:
            raise KeyboardInterrupt


@contextmanager
def stopping(say: Callable[[str], None]) -> Iterator[Stop]:
    """SIGTERM ends the simulation as Ctrl-C does. In a thread, which gets no signals, neither."""
    stop = Stop(say)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.came) for number in SIGNALS}
    before[signal.SIGVTALRM] = signal.signal(signal.SIGVTALRM, stop.late)
    try:
        yield stop
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
