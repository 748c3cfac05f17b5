"""Where a command's answer goes: standard output, or a file that is whole or not touched at all.

A reader of standard output that has gone is no error: what is left to say goes nowhere, the work
goes on, and the exit code is that of the work. Standard output that fails otherwise, as on a full
disk, is told once, as a HarnessError; then it is silent, so that closing it cannot fail again.
Standard error is for people: what cannot be said there is not said. Where a program reads the
answer, standard output has nothing else: what plug-ins print goes to standard error.

`--github` of the commands that annotate.

How users change thresholds, the same for every command that has any (`core/settings.py`).
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import select
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, Self, TextIO, cast

import typer

from dstest.core.errors import ConfigError, DstestError, HarnessError
from dstest.core.processes import take_stdout
from dstest.core.words import one_line

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


DEVICES: Final = (Path("/dev"), Path("/dev/fd"))
"""What lies there is written to as it is, wherever it leads, and never removed."""


def say(text: str, end: str = "\n") -> None:
    """One line of the answer, at once."""
    out = answer()
    out.write(text + end)
    out.flush()


class Telling:
    """While it is open: what a long command is at, on standard error, after two seconds and then
    every five. Call it with what comes next."""

    def __init__(self, at: str, first_s: float = 2.0, every_s: float = 5.0) -> None:
        self._at = at
        self._waits_s = (first_s, every_s)
        self._over = threading.Event()
        self._teller = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._teller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._teller.join()

    def __call__(self, at: str) -> None:
        self._at = at

    def _tell(self) -> None:
        wait_s, every_s = self._waits_s
        with suppress(OSError, AttributeError):  # nobody reads what was to be told, or could
            while not self._over.wait(wait_s):
                sys.stderr.write(one_line(f"dstest: {self._at}") + "\n")
                sys.stderr.flush()
                wait_s = every_s


def require_file(output: Path | None, what: str, *, json: bool) -> None:
    """Raises ConfigError where standard output would have to hold both one JSON object and `what`
    is written."""
    if json and output is None:
        raise ConfigError(
            f"--json tells of {what} that is written to a file, and none is named",
            remedy=f"-o FILE, or leave --json out: {what} is then on standard output",
        )


@contextmanager
def writing(
    output: Path | None, flag: str = "-o", refused: type[DstestError] = ConfigError
) -> Iterator[IO[bytes]]:
    """A file to write a long answer to, or standard output for None.

    The answer ends early where a reader of standard output has seen enough. A file is written
    beside its place and put there when all of it is written, gzipped where its name ends with
    `.gz`. Raises `refused`, naming `flag` as the
    remedy, where it cannot be written, and HarnessError for standard output.
    """
    if output is not None:
        with _whole(output, flag, refused) as file:
            if output.suffix != ".gz":
                yield file
                return
            # Neither name nor time: the same seed gives the same bytes.
            with gzip.GzipFile("", "wb", 1, file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        return
    out = answer()
    out.flush()
    try:
        copy = os.dup(out.fileno())
    except io.UnsupportedOperation:  # somebody captures what this process writes
        yield out.buffer
        return
    try:
        with os.fdopen(copy, "wb") as file:
            yield file
    except BrokenPipeError:
        return
    except OSError as error:
        raise no_output(error) from None


def require_writable(output: Path | None, flag: str) -> None:
    """Before the work whose answer is to be written there. Raises ConfigError, naming `flag` as the
    remedy, where no file can be put there, as `write_whole` would at the end."""
    if output is None:
        return
    try:
        if output.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if (output.exists() and not output.is_file()) or output.parent in DEVICES:
            return  # nothing can be put in the place of a pipe
        place = output.resolve()
        partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
        try:
            partial.touch(exist_ok=False)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write {output}: {error.strerror}", remedy=f"choose another {flag}"
        ) from None


def require_folder(folder: Path | None, flag: str) -> None:
    """Before the work of which files are to be written there. Raises ConfigError, naming `flag` as
    the remedy, where the folder cannot be made, or nothing can be put into it. It is not made."""
    if folder is None:
        return
    there = next((one for one in (folder, *folder.absolute().parents) if one.exists()), Path("/"))
    why = None
    if not there.is_dir():
        why = os.strerror(errno.ENOTDIR)
    elif not os.access(there, os.W_OK | os.X_OK):
        why = os.strerror(errno.EACCES)
    if why is not None:
        raise ConfigError(f"cannot write to {folder}: {why}", remedy=f"choose another {flag}")


def write_whole(path: Path, data: bytes, flag: str) -> None:
    """Put a file there, whole or not at all. Raises ConfigError, naming `flag` as the remedy."""
    with _whole(path, flag, ConfigError) as file:
        file.write(data)


@contextmanager
def _whole(output: Path, flag: str, refused: type[DstestError]) -> Iterator[IO[bytes]]:
    try:
        device = output.exists() and not output.is_file()
        if device or output.parent in DEVICES:
            with output.open("wb") as file:  # nothing can be put in the place of a pipe
                yield file
            return
        place = output.resolve()
        partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
        try:
            with partial.open("xb") as file:
                yield file
            if place.exists():
                shutil.copymode(place, partial)
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
    except BrokenPipeError:
        return
    except OSError as error:
        raise refused(
            f"cannot write {output}: {error.strerror}", remedy=f"choose another {flag}"
        ) from None


Github = Annotated[
    bool,
    typer.Option(
        "--github/--no-github",
        help="Print annotations of GitHub Actions. Default: where GITHUB_ACTIONS is set.",
        show_default=False,
    ),
]

ON_GITHUB: Final = os.environ.get("GITHUB_ACTIONS") == "true"
"""Does GitHub Actions run this? What `--github` is where nobody says it."""


Thresholds = Annotated[
    Path | None,
    typer.Option(metavar="FILE.toml", help="Other thresholds, `name = number` a line."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another threshold, before those of a file. May be repeated.",
    ),
]
