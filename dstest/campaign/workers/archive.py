"""Archives in which the directories of tasks travel back from workers.

They hold regular files and directories alone; what comes is unpacked aside, within limits, and put
in its place as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

import msgspec

from dstest.core.errors import HarnessError

PART_BYTES: Final = 8 << 20
_NAME_BYTES_MAX: Final = 1 << 16
_COPY_BYTES: Final = 1 << 20
_NAMES: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one directory: files and directories, bytes of all files, bytes on the way."""

    members: int = 100_000
    bytes: int = 8 << 30
    archive_bytes: int = 2 << 30


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """An archive that waits on a worker: where it lies there, its size and its sum."""

    path: str
    bytes: int
    sha256: str


def _contents(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            yield path


def pack(folder: Path, target: Path) -> Archive | None:
    """Pack a directory into the file `target`; None where it is empty. Links are left out."""
    contents = list(_contents(folder))
    if not contents:
        return None
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for path in contents:
            archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Archive(path=str(target), bytes=target.stat().st_size, sha256=digest)


def read_part(path: str, offset: int) -> bytes:
    """The part of an archive that begins at `offset`."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(PART_BYTES)


class _Member(tarfile.TarInfo):
    """What fits into memory."""

    @classmethod
    def frombuf(cls, *words: Any, **more: Any) -> Self:
        member = super().frombuf(*words, **more)
        if member.type in _NAMES and member.size > _NAME_BYTES_MAX:
            raise tarfile.ReadError(f"a name of {member.size} bytes")
        return member


def unpack(file: Path, archive: Archive, into: Path, limits: Limits | None = None) -> None:
    """Make the directory `into` of an archive that has arrived as `file`.

    Raises HarnessError, and leaves nothing, where it is not what was sent, where `into` is there,
    or where it holds what no directory of runs does.
    """
    limits = limits or Limits()
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != archive.sha256:
        raise HarnessError(f"{into.name}: what arrived is not what the worker sent")
    if into.exists():
        raise HarnessError(f"{into} is there already", remedy="move it away")
    aside = Path(tempfile.mkdtemp(prefix=f".{into.name}.", dir=into.parent))
    try:
        with tarfile.open(file, "r:gz", tarinfo=_Member) as opened:
            _write_all(opened, aside, limits)
        aside.chmod(0o755)
        aside.replace(into)
    except (tarfile.TarError, EOFError, ValueError, OSError) as error:
        raise HarnessError(f"{into.name}: what the worker sent is no archive: {error}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_all(archive: tarfile.TarFile, folder: Path, limits: Limits) -> None:
    written = 0
    for count, member in enumerate(archive, 1):
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise HarnessError(f"{member.name!r}: a name that leads elsewhere")
        if not (member.isreg() or member.isdir()):
            raise HarnessError(f"{member.name!r}: neither file nor directory")
        written += member.size
        if count > limits.members or written > limits.bytes:
            raise HarnessError(
                f"{member.name!r}: more than {limits.members} members or {limits.bytes} bytes"
            )
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            target.mkdir(exist_ok=True)
            continue
        source = archive.extractfile(member)
        assert source is not None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, 0o644 | member.mode & 0o111), "wb") as file:
            shutil.copyfileobj(source, file, _COPY_BYTES)
