"""Commands of dstest in processes of their own, so that nothing of them disturbs the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dstest.core.limits import HEAL_S

__all__ = ["DSTEST", "dstest", "environment"]

DSTEST: Final = (sys.executable, "-m", "dstest")


def environment() -> dict[str, str]:
    """A project may have folders that are called as packages of ours: the current directory is not
    on their path."""
    return {**os.environ, "PYTHONSAFEPATH": "1"}


def dstest(words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. One that is interrupted is asked to end, and has the time that it
    needs to heal its nodes."""
    process = subprocess.Popen(
        [*DSTEST, *words], cwd=cwd, env=environment(), text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = process.communicate()
    except BaseException:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=HEAL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
