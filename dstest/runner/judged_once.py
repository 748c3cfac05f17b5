"""Runs read, or judged again, once per command, however many parts of it ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dstest.core import clock
from dstest.core.errors import DstestError, EvidenceError, Exit
from dstest.runner.integrity import Again, Verified, verified
from dstest.store.layout import RunDir

Verify = Callable[[RunDir], Verified]
"""As `dstest.runner.integrity.verified`."""


class WorseNow(EvidenceError):
    """A run that comes out worse when it is judged again, with the exit code that it has now."""

    def __init__(self, run: RunDir, found: Verified, before: str) -> None:
        now = found.verdict
        super().__init__(
            f"{run.path}: judged again it is {now.verdict.value}, and was {before}: {now.reason}",
            remedy="`dstest recover` keeps the new verdict; a slow host may decide less",
        )
        self.exit_code = Exit(found.exit_code)


class JudgedOnce:
    """A `Verify` that remembers what each run came to, also where it is not to be believed. For one
    command that shows what lies there: it does not see what becomes of a run later, and one that
    comes out worse than its files say is not shown."""

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
        found = verified(run, again)
        kept = run.read_json("verdict.json")["verdict"]
    except DstestError as error:
        return error
    return found if found.verdict.verdict.value == kept else WorseNow(run, found, kept)
