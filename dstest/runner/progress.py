"""What a person sees while a run lasts: phases, figures, what the nemesis does.

`Progress` prints plain lines, those of figures every five seconds; `runner/live_view.py` is what a
terminal gets. All of it goes to standard error: standard output is for results. A run keeps what
was said while it lasted as `run.log` in its directory, stamped with the time of day.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Final, TextIO

from dstest.core import clock
from dstest.core.live import Live
from dstest.core.printable import printable

LOG: Final = "run.log"

_EVERY_NS: Final = 5_000_000_000


class Progress:
    """Prints to `stream`. `phases` are those of the run that is told of, in their order."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._origin_ns = clock.monotonic_ns()
        self._printed_ns = 0
        self._log: TextIO | None = None
        self.phases: list[str] = []

    def keep_log(self, path: Path) -> None:
        """A run begins: append to this file as well what is said from now on."""
        self.close_log()
        self.phases = []
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

    def say(self, text: str) -> None:
        """One line that stays; nodes have a hand in it."""
        text = printable(text)
        self._record(text)
        self._show(text)

    def _show(self, text: str) -> None:
        self._stream.write(f"{self._clock()}  {text}\n")
        self._stream.flush()

    def phase(self, name: str, detail: str = "") -> None:
        """A phase of the run begins, or tells how it goes on."""
        if name not in self.phases[-1:]:
            self.phases.append(name)
        self.say(f"[{name}] {detail}" if detail else f"[{name}]")

    def figures(self, text: str) -> None:
        """How the load goes, as one line."""
        if clock.monotonic_ns() - self._printed_ns >= _EVERY_NS:
            self._printed_ns = clock.monotonic_ns()
            self._record(text)
            self._show_figures(text)

    def _show_figures(self, text: str) -> None:
        self._show(text)

    def live(self, now: Live | None) -> None:
        """How the run stands, once a second; None when it has nothing more to tell. Lines say it
        all already."""


class Quiet(Progress):
    """Shows nothing; for tests. A log is kept all the same."""

    def _show(self, text: str) -> None:
        return None
