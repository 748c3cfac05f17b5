"""A command of dstest in a process of its own, which heals, seals and ends when its parent dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dstest.core.parent import ending_with_parent

DSTEST: Final = (sys.executable, "-P", "-m", "dstest")
"""-P: a file of the current directory must not be taken for a module of ours."""

_TAIL_BYTES: Final = 4000
_SAID_MAX: Final = 500


def start(
    argv: Sequence[str], log: Path, program: Sequence[str] = DSTEST
) -> subprocess.Popen[bytes]:
    """Start `dstest ARGV`; what it says is added to `log`. It gets SIGTERM when the thread that
    started it ends, at which a run heals and seals. Raises OSError."""
    with log.open("ab") as out:
        out.write(f"$ dstest {' '.join(argv)}\n".encode())
        out.flush()
        return subprocess.Popen(
            [*program, *argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=ending_with_parent(signal.SIGTERM),
        )


def last_words(log: Path, exit_code: int | None) -> str:
    """Why the last command of this log left no run, in its own words."""
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").split("$ dstest ")[-1].splitlines()[1:]
    said = [line for line in lines if line.startswith("dstest: ")] or lines[-1:]
    return " ".join(said)[:_SAID_MAX] or f"its command ended with {exit_code}"
