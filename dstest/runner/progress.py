"""What a person sees while a run lasts: phases, one live line of figures, what the nemesis does.

On a terminal the live line is rewritten in place each second; elsewhere a line is printed every
five seconds. All of it goes to standard error: standard output is for results. A run keeps what
was said while it lasted as `run.log` in its directory, stamped with the time of day.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Final, TextIO

from dstest.core import clock
from dstest.core.printable import printable

__all__ = ["LOG", "Progress", "Quiet"]

LOG: Final = "run.log"

_EVERY_NS: Final = 5_000_000_000


class Progress:
    """Prints to `stream`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._origin_ns = clock.monotonic_ns()
        self._line = ""
        self._printed_ns = 0
        self._log: TextIO | None = None

    def keep_log(self, path: Path) -> None:
        """Append to this file as well what is said from now on."""
        self.close_log()
        try:
            self._log = path.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            self._show(f"no {LOG}: {error.strerror}")

    def close_log(self) -> None:
        """Leave the file as it is; without one, nothing happens."""
        if self._log is not None:
            log, self._log = self._log, None
            with contextlib.suppress(OSError):
                log.close()

    def _record(self, text: str) -> None:
        if self._log is None:
            return
        try:
            self._log.write(f"{clock.utc_stamp()} {self._clock()}  {text}\n")
        except OSError as error:  # the run records what counts elsewhere, and has space kept back
            self.close_log()
            self._show(f"{LOG} ends here: {error.strerror}")

    def _clock(self) -> str:
        return f"{(clock.monotonic_ns() - self._origin_ns) / 1e9:6.1f}s"

    def _clear(self) -> None:
        if self._line and self._live:
            self._stream.write("\r\x1b[2K")
        self._line = ""

    def say(self, text: str) -> None:
        """One line that stays; nodes have a hand in it."""
        text = printable(text)
        self._record(text)
        self._show(text)

    def _show(self, text: str) -> None:
        self._clear()
        self._stream.write(f"{self._clock()}  {text}\n")
        self._stream.flush()

    def phase(self, name: str, detail: str = "") -> None:
        """A phase of the run begins."""
        self.say(f"[{name}] {detail}" if detail else f"[{name}]")

    def figures(self, text: str) -> None:
        """The live line."""
        if self._live:
            self._clear()
            self._line = f"{self._clock()}  {text}"
            self._stream.write(self._line[:160])
            self._stream.flush()
        if clock.monotonic_ns() - self._printed_ns >= _EVERY_NS:
            self._printed_ns = clock.monotonic_ns()
            self._record(text)
            if not self._live:
                self._show(text)


class Quiet(Progress):
    """Shows nothing; for tests. A log is kept all the same."""

    def _show(self, text: str) -> None:
        return None
