"""Standard output for one answer alone: what plug-ins print goes to standard error."""

from __future__ import annotations

import os
import sys


def take_stdout() -> int:
    """A descriptor of standard output for the caller alone. For everybody else in this process, and
    for the processes that it starts, standard output is standard error from here on."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    return own
