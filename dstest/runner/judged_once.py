"""Runs judged again once per command, however many parts of it ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dstest.core import clock
from dstest.core.errors import DstestError
from dstest.runner.integrity import Again, Verified, verified
from dstest.store.layout import RunDir

Verify = Callable[[RunDir], Verified]
"""As `dstest.runner.integrity.verified`."""


class JudgedOnce:
    """A `Verify` that remembers what each run came to, also where it is not to be believed. For one
    command: whatever becomes of a run after it was judged, it does not see."""

    def __init__(self, again: Again, tell: Callable[[str], None] = lambda what: None) -> None:
        self._again = again
        self._tell = tell
        self.runs = 0
        """How many runs were judged again, and how long that took."""
        self.seconds = 0.0
        self._known: dict[Path, Verified | DstestError] = {}

    def __call__(self, run: RunDir) -> Verified:
        """Raises as `verified` does, the same each time."""
        key = run.path.resolve()
        if key not in self._known:
            self._tell(f"run {len(self._known) + 1}, {key}")
            began_ns = clock.monotonic_ns()
            self._known[key] = _judged(run, self._again)
            if self._again != "no":
                self.runs += 1
                self.seconds += (clock.monotonic_ns() - began_ns) / 1e9
        found = self._known[key]
        if isinstance(found, DstestError):
            raise found
        return found


def _judged(run: RunDir, again: Again) -> Verified | DstestError:
    try:
        return verified(run, again)
    except DstestError as error:
        return error
