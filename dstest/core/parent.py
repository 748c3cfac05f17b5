"""A process that must not outlive the one that started it."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
"""prctl(2)"""


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """This process gets the signal when the thread that started it ends."""
    ending_with_parent(number)()


def ending_with_parent(number: signal.Signals) -> Callable[[], None]:
    """The same for a child between fork and exec, where nothing may be loaded any more."""
    libc = ctypes.CDLL(None, use_errno=True)

    def end() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, number)

    return end
