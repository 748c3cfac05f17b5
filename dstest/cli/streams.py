"""Standard output and standard error of a command whose reader may go away, or whose disk is full.

A reader that has gone is no error: what is left to say goes nowhere, the work goes on, and the exit
code is that of the work. Standard output that fails otherwise is told once, as a HarnessError; then
it is silent, so that closing it cannot fail again. Standard error is for people: what cannot be
said there is not said.

Where a program reads the answer, standard output has nothing else: what plug-ins print goes to
standard error.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, Final, TextIO

from dstest.core.errors import HarnessError
from dstest.core.own_stdout import take_stdout

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STANDARD: Final = (0, 1, 2)
_apart: list[io.TextIOWrapper] = []


def no_output(error: OSError) -> HarnessError:
    """The error that standard output which cannot be written ends with."""
    return HarnessError(
        f"cannot write to standard output: {error.strerror}; what was recorded is not harmed",
        remedy="free space or choose another place for it; `dstest report RUN` shows a run again",
    )


class _Steady(io.RawIOBase):
    """Writes to a descriptor. `raises`: a failure that is not the reader's is raised, once."""

    def __init__(self, fd: int, *, raises: bool) -> None:
        self._fd = fd
        self._raises = raises
        self._silent = False
        self.answered = False

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: Buffer, /) -> int:
        size = memoryview(data).nbytes
        if self._silent:
            return size
        try:
            return self._written(data)
        except BrokenPipeError:
            self._silent = True
        except OSError as error:
            self._silent = True
            if self._raises:
                raise no_output(error) from None
        return size

    def _written(self, data: Buffer) -> int:
        while True:
            try:
                written = os.write(self._fd, data)
                self.answered = True
                return written
            except BlockingIOError:
                select.select([], [self._fd], [])


def _opened() -> None:
    """A standard descriptor that was closed must not become the first file that is opened."""
    for fd in _STANDARD:
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _text(fd: int, like: TextIO | None, *, raises: bool) -> io.TextIOWrapper:
    raw = _Steady(fd, raises=raises)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors=getattr(like, "errors", None) or "backslashreplace",
        line_buffering=not raises or raw.isatty(),
    )


def answer() -> TextIO:
    """Where a command writes its answer."""
    return _apart[0] if _apart else sys.stdout


def answered() -> bool:
    """Has a program that reads the answer been given any of it, or will somebody else give it?"""
    if not _apart:
        return False
    _apart[0].flush()
    raw = getattr(_apart[0].buffer, "raw", None)
    return not isinstance(raw, _Steady) or raw.answered


def hand_over() -> None:
    """Another process gives the answer: standard output is that of the processes that are started
    from now on."""
    if _apart:
        _apart[0].flush()
        os.dup2(_apart[0].fileno(), 1)
        if isinstance(raw := getattr(_apart[0].buffer, "raw", None), _Steady):
            raw.answered = True


def steady(*, apart: bool = False) -> None:
    """From here on `sys.stdout` and `sys.stderr` of this process are as said above. `apart`: real
    standard output is for `answer` alone."""
    _opened()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if apart:
        _apart.append(_text(take_stdout(), sys.stdout, raises=True))
    sys.stdout = _text(1, sys.stdout, raises=not apart)
    sys.stderr = _text(2, sys.stderr, raises=False)
