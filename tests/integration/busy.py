"""A run that a busy host has spoiled says nothing of the code: its test measures the host.

It is skipped, with what it measured, where the host was measurably busy at its end; else it is run
again, two times at most, and the report names it. What the code may have got wrong is never excused
so: a run that lacks anything but load, or answers in time, fails at once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from dstest.core.errors import Exit
from dstest.core.verdict import State
from dstest.runner.session import Finished

BUSY: Final = 3.0
"""Tasks that wait for a core, for each core there is: from here on a run may get too little."""

_OF_ONE_RUN: Final = frozenset({"RF10"})
"""Short in each run that is no session of several seeds; it keeps none from a smoke pass."""

_TOO_FEW: Final = re.compile(r"seconds outside fault windows fell below|was silent for")
_TOO_SLOW: Final = re.compile(r"of the last [\d,]+ operations succeeded .* p99 ")


class Starved(AssertionError):
    """All that a run lacks is load, or answers in time. pytest runs such a test again: what the
    code does is there each time, what the host did is not."""


def assert_passed(done: Finished, *more: Any) -> None:
    """The run passed; where it did not for want of a quiet host, it is skipped or run again."""
    assert_code(done.exit_code, done.path, done.verdict and done.verdict.reason, *more)


def assert_code(code: int, run: Path | Sequence[Path], *more: Any) -> None:
    """The same of a run, or of a session's runs, in a process that ended with `code`."""
    runs = [run] if isinstance(run, Path) else run
    if code != Exit.PASS:
        for one in runs:
            _again_if_starved(one)
    assert code == Exit.PASS, (*runs, *more)


def _again_if_starved(path: Path) -> None:
    """Ends the test where all that the run at `path` lacks is what a host can keep from it."""
    verdict = path / "verdict.json"
    starved = starved_by(json.loads(verdict.read_text())) if verdict.exists() else None
    if starved is None:
        return
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
    told = f"{waiting:.1f} tasks wait for each core, and {starved}"
    if waiting >= BUSY:
        pytest.skip(f"needs a quieter host: {told}")
    raise Starved(told)


def starved_by(verdict: dict[str, Any]) -> str | None:
    """What the host kept from a run; None where the run lacks anything else, or nothing."""
    evidence = verdict["evidence"]
    if State(verdict["verdict"]).failed:
        return None
    if any(fault["landed"] != "yes" for fault in evidence["faults"]):
        return None
    flags = evidence["redflags"]
    short = {name: row["evidence"] for name, row in flags.items() if row["status"] == "short"}
    found = {name: text for name, text in short.items() if name not in _OF_ONE_RUN}
    known = {"RF1": _TOO_FEW, "RF8": _TOO_SLOW}
    if not found or any(n not in known or not known[n].search(t) for n, t in found.items()):
        return None
    return "; ".join(f"{name}: {text}" for name, text in found.items())
