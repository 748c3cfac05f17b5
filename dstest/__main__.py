"""`dstest` and `python -m dstest`: a Ctrl-C while all is still being imported is one, too."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from types import FrameType

from dstest.core.whole import STARVED, is_missing, is_starved, missing_line

__all__ = ["main"]

_HARNESS = 4
_INTERRUPTED = 130
_IDLE = "OPENBLAS_NUM_THREADS"
"""numpy's library for matrices starts as many threads as there are cores, which wait in a loop for
matrices. There are none here."""


def _early(signum: int, frame: FrameType | None) -> None:
    os.write(2, b"dstest: interrupted\n")
    os._exit(_INTERRUPTED)


def main() -> None:
    """Console entry point."""
    os.environ.setdefault(_IDLE, "1")
    usual = signal.signal(signal.SIGINT, _early)
    try:
        from dstest.cli import entry
    except Exception as error:
        # Python's own exit code for it, 1, means that a violation was found.
        if isinstance(error, ImportError) and is_missing(error):
            sys.stderr.write(f"{missing_line(error)}\n")
        elif is_starved(error):
            sys.stderr.write(f"{STARVED}\n")
        else:
            traceback.print_exc()
        sys.exit(_HARNESS)
    signal.signal(signal.SIGINT, usual)
    try:
        entry.main()
    except Exception:
        traceback.print_exc()
        sys.exit(_HARNESS)


if __name__ == "__main__":
    main()
