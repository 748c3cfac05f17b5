"""Files of a store, opened so that nothing outside of it can be."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from dstest.history.sums import SUMS

REPORT: Final = "report.html"
_REPORT_MAX: Final = 64 * 1024 * 1024
_FILES_MAX: Final = 500
_COPIED: Final = frozenset(
    {
        *("run.json", "verdict.json", "evidence.json", "spec.toml", "schedule.json"),
        *("findings.md", "faults.jsonl", "run.log", "canary.json"),
    }
)
_COPIED_BYTES: Final = 256 * 1024


class File(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is relative to the run's directory."""

    name: str
    bytes: int

    @property
    def deep(self) -> bool:
        """It lies in a folder of the run."""
        return "/" in self.name


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The page that a run left: its bytes, which are what was summed up; or `why` it is not shown,
    and no bytes."""

    content: bytes = b""
    why: str = ""


def report_of(root: Path, ref: str) -> Report:
    """The report of the run at `ref` below a store. What is hashed is what is given out, whatever
    becomes of the file meanwhile."""
    parts = ref.split("/")
    file = open_below(root, [*parts, REPORT])
    if file is None:
        return Report(why=f"there is no {REPORT}")
    try:
        with file:
            content = file.read(_REPORT_MAX + 1)
    except OSError as error:
        return Report(why=f"{REPORT} cannot be read: {error.strerror}")
    if len(content) > _REPORT_MAX:
        return Report(why=f"{REPORT} is too large to be one")
    sums = open_below(root, [*parts, SUMS])
    if sums is None:
        return Report(why=f"there is no {SUMS}")
    with sums:
        lines = sums.read().decode(errors="replace").splitlines()
    if f"{hashlib.sha256(content).hexdigest()}  {REPORT}" not in lines:
        return Report(why=f"{REPORT} is not as {SUMS} has it")
    return Report(content=content)


def open_below(root: Path, parts: Sequence[str]) -> IO[bytes] | None:
    """The regular file at `root/*parts`, None where there is none. No link is followed on the way,
    whatever happens meanwhile, and no name that is hidden or leads up is taken."""
    if not parts or any(not _plain(part) for part in parts):
        return None
    try:
        at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    except (OSError, ValueError):
        return None
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    return os.fdopen(fd, "rb")


def _plain(part: str) -> bool:
    return bool(part) and not part.startswith(".") and "/" not in part and "\0" not in part


def copies_of(files: Sequence[File]) -> list[str]:
    """The names of those that an export has as well."""
    return [one.name for one in files if one.name in _COPIED and one.bytes <= _COPIED_BYTES]


def files_of(run: Path) -> list[File]:
    """The files of a run that can be had, by name, with a limit."""
    found: list[File] = []
    for path, name in _walked(run):
        if len(found) == _FILES_MAX:
            break
        found.append(File(name=name, bytes=path.lstat().st_size))
    return found


def _walked(run: Path) -> Iterator[tuple[Path, str]]:
    for at, folders, files in os.walk(run, followlinks=False):
        folders[:] = sorted(name for name in folders if _plain(name))
        for name in sorted(files):
            path = Path(at, name)
            if _plain(name) and path.is_file() and not path.is_symlink():
                yield path, path.relative_to(run).as_posix()
