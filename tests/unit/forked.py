"""Command lines of dstest, each in a process of its own, for one start of Python: a server has all
imported, and forks for each command. Few tests ask about the start, which takes longer than most
commands. What modules read of the environment when they are imported is this session's."""

from __future__ import annotations

import atexit
import functools
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
Ended = subprocess.CompletedProcess[str]
WIDE = {**os.environ, "COLUMNS": "400"}


@functools.cache
def bin_folder() -> Path:
    """A directory with a `dstest` that is forked."""
    folder = tempfile.TemporaryDirectory(prefix="dstest-forked-")
    place = Path(folder.name, "socket")
    server = subprocess.Popen(
        [sys.executable, "-P", HERE / "fork_server.py", place],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip

    def end() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(end)
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError(f"no server of commands: {server.communicate()[1].decode()}")
    command = Path(folder.name, "bin", "dstest")
    command.parent.mkdir()
    words = [sys.executable, "-I", "-S", str(HERE / "fork_client.py"), str(place)]
    command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    command.chmod(0o755)
    return command.parent


def dstest(*words: str | Path, **how: Any) -> Ended:
    """What `dstest WORDS` ends with; `how` as subprocess.run takes it."""
    usual: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    usual |= {"text": True, "timeout": 120, "check": False}
    if "input" not in how:
        usual["stdin"] = subprocess.DEVNULL
    return subprocess.run([bin_folder() / "dstest", *words], **usual | how)


def in_bash(command: str) -> list[str]:
    """The words of a shell that executes this command; `dstest` in it is forked."""
    return ["bash", "-c", f'dstest() {{ {bin_folder() / "dstest"} "$@"; }}\n{command}']


def dstests(lines: Sequence[Sequence[str]], cwd: Path) -> dict[tuple[str, ...], Ended]:
    """What these command lines end with, one after the other, on a screen of 400 columns."""
    return {tuple(words): dstest(*words, cwd=cwd, env=WIDE, timeout=500) for words in lines}
