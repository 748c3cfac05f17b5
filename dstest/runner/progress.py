"""What a person sees while a run lasts: phases, one live line of figures, what the nemesis does.

On a terminal the live line is rewritten in place each second; elsewhere a line is printed every
five seconds. All of it goes to standard error: standard output is for results.
"""

from __future__ import annotations

import sys
from typing import Final, TextIO

from dstest.core import clock

__all__ = ["Progress", "Quiet"]

_EVERY_NS: Final = 5_000_000_000


class Progress:
    """Prints to `stream`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._origin_ns = clock.monotonic_ns()
        self._line = ""
        self._printed_ns = 0

    def _clock(self) -> str:
        return f"{(clock.monotonic_ns() - self._origin_ns) / 1e9:6.1f}s"

    def _clear(self) -> None:
        if self._line and self._live:
            self._stream.write("\r\x1b[2K")
        self._line = ""

    def say(self, text: str) -> None:
        """One line that stays."""
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
        elif clock.monotonic_ns() - self._printed_ns >= _EVERY_NS:
            self._printed_ns = clock.monotonic_ns()
            self.say(text)


class Quiet(Progress):
    """Says nothing; for tests."""

    def say(self, text: str) -> None:
        return None

    def figures(self, text: str) -> None:
        return None
