"""SIGTERM ends a command as Ctrl-C does: what it has made aside goes with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dstest.core.errors import Exit


@pytest.mark.slow
def test_what_was_made_aside_goes_with_a_command_that_is_ended(
    passed: Path, tmp_path: Path
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "dstest", "check", "--deep", str(passed)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not any(tmp_path.glob("*/*")) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    assert child.poll() is None, "it had ended before"
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (Exit.INTERRUPTED, b"dstest: interrupted\n")
    assert list(tmp_path.iterdir()) == []
