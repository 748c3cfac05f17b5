"""Commands of dstest in processes of their own, so that nothing of them disturbs who calls them: a
test, a notebook."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.check import CheckResult, RunVerdict
from dstest.core.errors import HistoryError
from dstest.core.limits import HEAL_S

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


def checked(path: Path, words: Sequence[str], cwd: Path) -> CheckResult:
    """What `dstest check` answers about a file or a run. Raises HistoryError where it has none."""
    done = dstest(["check", str(path), "--json", *words], cwd)
    said = done.stderr.strip() or "it said nothing"
    try:
        result = msgspec.json.decode(done.stdout, type=CheckResult)
    except msgspec.DecodeError:
        raise HistoryError(f"dstest check ended with {done.returncode}: {said}") from None
    codes = {{True: 0, False: 1, "unknown": 3}[result.valid]}
    if result.valid is not False and isinstance(result.run, RunVerdict) and result.run.exit:
        codes = {3, result.run.exit}  # a run that is no pass ends no better
    if done.returncode not in codes:
        raise HistoryError(f"dstest check said {result.valid} and ended with {done.returncode}")
    return result
