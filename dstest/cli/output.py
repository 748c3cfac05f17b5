"""Where a command's answer goes: standard output, or a file that is whole or not touched at all."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

from dstest.cli.streams import answer, no_output
from dstest.core import clock
from dstest.core.errors import ConfigError, DstestError

DEVICES: Final = (Path("/dev"), Path("/dev/fd"))
"""What lies there is written to as it is, wherever it leads, and never removed."""


def say(text: str, end: str = "\n") -> None:
    """One line of the answer, at once."""
    out = answer()
    out.write(text + end)
    out.flush()


class Telling:
    """What a long command is at, on standard error: after two seconds, then every five."""

    def __init__(self) -> None:
        self._next_ns = clock.monotonic_ns() + 2_000_000_000

    def __call__(self, what: str) -> None:
        now_ns = clock.monotonic_ns()
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + 5_000_000_000
            sys.stderr.write(f"dstest: {what}\n")
            sys.stderr.flush()


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
