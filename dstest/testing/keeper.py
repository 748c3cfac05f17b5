"""Keeps a lab for as long as somebody holds its standard input open.

    python -m dstest.testing.keeper LAB_ID WORDS... < a pipe

`dstest lab up WORDS`, a line on standard output when that is done, and when the pipe ends, which it
does however its holder dies, `dstest lab down`. Its exit code is that of the command that failed.
"""

from __future__ import annotations

import signal
import subprocess
import sys

from dstest.core.processes import DSTEST, environment

UP = "up"


def main() -> int:
    """Entry of the process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the pipe says when it is over
    lab_id, *words = sys.argv[1:]
    lab = [*DSTEST, "lab"]
    code = subprocess.call(
        [*lab, "up", "--lab-id", lab_id, *words], env=environment(), stdout=sys.stderr,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if code == 0:
        sys.stdout.write(f"{UP}\n")
        sys.stdout.flush()
        sys.stdin.read()
    ended = subprocess.call(
        [*lab, "down", "--lab-id", lab_id, "--force"], env=environment(), stdout=sys.stderr,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return code or ended


if __name__ == "__main__":
    sys.exit(main())
