"""Many command lines of dstest, each in a process of its own, for one start of Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
Ended = subprocess.CompletedProcess[str]

FORKS = """
import json, os, sys, tempfile
import dstest.cli.app, dstest.gate.commands, dstest.nightly.begin, dstest.plans.execution.driver
import dstest.retention.verify, dstest.runner.replay, dstest.runner.arms, dstest.shrink.driver
from dstest.cli.entry import main
found = []
for words in json.loads(sys.stdin.read()):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if (pid := os.fork()) == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = ["dstest", *words]
            code = 99
            try:
                main()
                code = 0
            except SystemExit as end:
                code = end.code
            finally:
                sys.stdout.flush()
                os._exit(code or 0)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        out.seek(0)
        err.seek(0)
        found.append([status, out.read().decode(), err.read().decode()])
print(json.dumps(found))
"""


def dstests(
    lines: Sequence[Sequence[str]], cwd: Path
) -> dict[tuple[str, ...], subprocess.CompletedProcess[str]]:
    """What these command lines end with, each in a process of its own: one start of Python."""
    argv = [sys.executable, "-P", "-c", FORKS]
    done = subprocess.run(
        argv,
        cwd=cwd,
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "400"},
    )
    ended = json.loads(done.stdout)
    return {
        tuple(words): subprocess.CompletedProcess([*words], *row)
        for words, row in zip(lines, ended, strict=True)
    }
