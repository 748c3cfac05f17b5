"""A run of `dstest` as a process of its own; it is waited for until it has healed its nodes."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import msgspec

from dstest.core.errors import Exit
from dstest.core.limits import HEAL_S

RUN_S_MAX: Final = 3600.0
"""Of one run, the making of its node image included."""

SAID_MAX: Final = 2000

_JUDGED: Final = (Exit.PASS, Exit.FAIL, Exit.NOT_PROVEN)
"""A run that ends otherwise has a verdict as well, which does not say what went wrong."""


class Ended(NamedTuple):
    """Exit code of a command, the object that it printed, and run.json of its run; `why` is the end
    of what it said where nothing was judged."""

    exit: int
    said: dict[str, Any]
    meta: dict[str, Any]
    why: str = ""


def by_command(words: Sequence[str], argv: Sequence[str] = ()) -> Ended:
    """Run `dstest` with these words, or another program."""
    # -P: a file of the current directory must not be taken for a module of ours.
    argv = argv or [sys.executable, "-P", "-m", "dstest"]
    with tempfile.TemporaryFile() as errors, _terminated_as_interrupted():
        child = subprocess.Popen([*argv, *words, "--json"], stdout=subprocess.PIPE, stderr=errors)
        try:
            printed, _ = child.communicate(timeout=RUN_S_MAX)
        except subprocess.TimeoutExpired:
            _end(child)
            return Ended(Exit.INTERRUPTED, {}, {}, f"still running after {RUN_S_MAX:.0f} s")
        except BaseException:
            _end(child)
            raise
        try:
            said = msgspec.json.decode(printed, type=dict[str, Any])
            meta = msgspec.json.decode(
                Path(said["run"], "run.json").read_bytes(), type=dict[str, Any]
            )
        except (msgspec.MsgspecError, KeyError, TypeError, OSError):
            said, meta = {}, {}
        errors.seek(0)
        told = errors.read().decode(errors="replace")[-SAID_MAX:].strip()
        judged = said.get("verdict") and child.returncode in _JUDGED
        return Ended(child.returncode, said, meta, "" if judged else told)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Once more is no harm to a run that has heard of it already."""
    child.terminate()
    try:
        child.communicate(timeout=HEAL_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    def interrupt(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    usual = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, usual)
