"""Standard output whose reader may go away, as in `dstest export RUN | head`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["pipe", "say"]


@contextmanager
def pipe() -> Iterator[None]:
    """A reader that has seen enough is no error: what is left to write goes nowhere, and the exit
    code stays that of the command."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """One line of the answer."""
    with pipe():
        sys.stdout.write(text + "\n")
