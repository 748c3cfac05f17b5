"""What a run looks like on a terminal: the lines that it says, and below them a picture of how it
stands, which is drawn in place.

Nothing that a node or a user has named is taken for markup or obeyed as a control sequence. A
terminal that does not read (Ctrl-S, a lost connection) delays nothing: it gets its picture later.
The cursor is never hidden, so that no end of the process leaves it so.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Final, TextIO

import msgspec

from dstest.core import clock
from dstest.core.live import Live
from dstest.runner.live_picture import picture
from dstest.runner.progress import Progress
from dstest.runner.screen import Screen

_DRAWN_NS_MIN: Final = 500_000_000
"""No two pictures come faster one after the other."""


class LiveView(Progress):
    """Draws on the terminal `stream`."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._screen = Screen(stream)
        self._now: Live | None = None
        self._drawn_ns = 0

    def _show(self, text: str) -> None:
        lines = [f"{self._clock()}  {line}" for line in text.split("\n")]
        self._screen.print(lines)
        self._draw()

    def _show_figures(self, text: str) -> None:
        return None

    def live(self, now: Live | None) -> None:
        """Draw it; None takes the picture away."""
        self._now = now
        if now is None:
            self._screen.clear()
        elif clock.monotonic_ns() - self._drawn_ns >= _DRAWN_NS_MIN:
            self._drawn_ns = clock.monotonic_ns()
            self._draw()

    def _draw(self) -> None:
        if self._now is None:
            return
        with contextlib.suppress(Exception):  # the run goes on, whatever its picture comes to
            now = msgspec.structs.replace(self._now, phases=self.phases)
            screen = self._screen
            screen.draw(picture(now, width=screen.width, ascii_only=screen.ascii_only))


def _draws(stream: TextIO, environ: Mapping[str, str]) -> bool:
    try:
        return stream.isatty() and environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    except ValueError:  # it was closed
        return False


def progress_for(stream: TextIO | None = None) -> Progress:
    """What shows a run on this stream, by default standard error: a picture on a terminal that can
    draw, else lines."""
    stream = stream or sys.stderr
    return LiveView(stream) if _draws(stream, os.environ) else Progress(stream)
