"""Keeps a service: `python -m dstest.chaos.keeper COMMAND WORD...`.

Whatever the command starts, in whatever session, ends when this process is asked to end or whoever
started it dies: it is the parent of all orphans below it (PR_SET_CHILD_SUBREAPER, prctl(2)).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import Final

from dstest.chaos.host import below
from dstest.core.clock import monotonic_ns, sleep_s
from dstest.core.processes import end_with_parent

_SUBREAPER: Final = 36
_GRACE_S: Final = 5.0


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _end_all() -> None:
    end_ns = monotonic_ns() + int(_GRACE_S * 1e9)
    number = signal.SIGTERM
    while left := below(os.getpid()):
        for pid in left:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        sleep_s(0.05)
        _reap()
        if monotonic_ns() > end_ns:
            number = signal.SIGKILL


class _Ended(Exception):
    """This process is to end."""


def _ended(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Ended


def main() -> int:
    """Exits as the command did, once nothing of it is left."""
    signal.signal(signal.SIGTERM, _ended)
    ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0)
    end_with_parent(signal.SIGTERM)
    if os.getppid() == 1:
        return 1  # whoever started it is gone already
    code = 1
    try:
        code = subprocess.Popen(sys.argv[1:]).wait()
    except _Ended:
        code = 0
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}\n")
        code = 127
    _end_all()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(main())
