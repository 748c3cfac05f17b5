"""Files of people to nodes and back, by fabric, within limits and without following links.

What comes from a node is not trusted: it lies below a directory of the node's own, whatever names
it claims.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

import msgspec

from clusters.remote import agent_send
from clusters.remote.bundle import argv_of
from clusters.remote.chores import PART_BYTES, CommandResult, Stop, on_each, run_on
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import NodeInfo

MEMBERS_MAX: Final = 2 * agent_send.FILES_MAX
TAR_OVERHEAD_BYTES: Final = 256 << 20
"""Beside what files hold, of so many members."""

HEADER_BYTES_MAX: Final = 1 << 20
"""Of a long name, or of other settings of a member; they are read into memory."""

HEADERS: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
RECEIVE: Final = """\
umask 077
if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then
    echo "$1 is there, and is no regular file" >&2
    exit 1
fi
trap 'rm -f -- "$1.dstest.part"' EXIT
cat >"$1.dstest.part" && if [ -e "$1" ]; then
    chown --reference="$1" -- "$1.dstest.part" && chmod --reference="$1" -- "$1.dstest.part"
else
    chmod -- "$2" "$1.dstest.part"
fi && mv -fT -- "$1.dstest.part" "$1"
"""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one file, and of all files of all nodes together."""

    file_bytes: int = 64 << 20
    total_bytes: int = 1 << 30


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """What came from one node: files below `path`, and each that was left out, in whole or in part,
    with the reason; of those that `changed` while they were read, what came is of more than one
    moment."""

    path: str | None
    files: int
    bytes: int
    left_out: list[str]
    changed: list[str] = msgspec.field(default_factory=list)
    error: str | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and not self.left_out


def put(
    nodes: Sequence[NodeInfo], local: Path, remote: str, *, timeout_s: float
) -> dict[str, CommandResult]:
    """Put a file on nodes, whole or not at all: with its mode, or owner and mode of the one that it
    replaces. ConfigError where it is none.

    `remote` may end with a slash: then the file keeps its name.
    """
    try:
        kind = local.stat()
    except OSError as error:
        raise ConfigError(f"{local}: {error.strerror}", remedy="name a file of this host") from None
    if not stat.S_ISREG(kind.st_mode):
        raise ConfigError(f"{local} is no file", remedy="pack a directory first: tar")
    _require_absolute(remote)
    where = remote + local.name if remote.endswith("/") else remote
    argv = ["sh", "-c", RECEIVE, "sh", where, f"{stat.S_IMODE(kind.st_mode) & 0o777:o}"]

    def one(info: NodeInfo, stop: Stop) -> CommandResult:
        return run_on(info, argv, stop, timeout_s=timeout_s, stdin=_parts(local))

    return on_each(nodes, one)


def _parts(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(PART_BYTES):
            yield part


def _require_absolute(remote: str) -> None:
    if not remote.startswith("/") or "\0" in remote:
        raise ConfigError(f"{remote!r} is no absolute path", remedy="name it from / on")


def get(
    nodes: Sequence[NodeInfo],
    remote: str,
    folder: Path,
    *,
    timeout_s: float,
    limits: Limits | None = None,
) -> dict[str, Fetched]:
    """Get a file or a directory of each node, as `folder/NODE/NAME`. Nothing there is overwritten.

    Links, devices, what cannot be read and what is beyond the limits are left out, and named; the
    rest comes all the same.
    """
    _require_absolute(remote)
    name = PurePosixPath(remote).name
    if name in ("", ".."):
        raise ConfigError(f"{remote!r} is not a thing with a name", remedy="one below /")
    parent = str(PurePosixPath(remote).parent)
    room = _Room(limits or Limits())
    most = [str(room.limits.file_bytes), str(room.limits.total_bytes)]
    argv = [*argv_of(agent_send), parent, name, *most]

    def one(info: NodeInfo, stop: Stop) -> Fetched:
        return _fetch(info, argv, name, folder, timeout_s, room, stop)

    folder.mkdir(parents=True, exist_ok=True)
    return on_each(nodes, one)


class _Room:
    """What may still come, for all nodes together."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._left = limits.total_bytes
        self._lock = threading.Lock()

    def take(self, size: int) -> str | None:
        """None where a file of this size may come, else why not."""
        if size > self.limits.file_bytes:
            return f"{size} bytes, more than {self.limits.file_bytes}"
        with self._lock:
            if size > self._left:
                return f"{size} bytes, more than is left of {self.limits.total_bytes} for all nodes"
            self._left -= size
        return None


def _fetch(
    info: NodeInfo,
    argv: Sequence[str],
    name: str,
    folder: Path,
    timeout_s: float,
    room: _Room,
    stop: Stop,
) -> Fetched:
    """One node's, unpacked aside and then put in its place."""
    home = folder / info.name
    target = home / name
    if home.is_symlink() or target.is_symlink() or target.exists():
        why = f"{home} is a link" if home.is_symlink() else f"{target} is there already"
        return Fetched(path=None, files=0, bytes=0, left_out=[], error=why)
    aside = Path(tempfile.mkdtemp(prefix=f".{info.name}.", dir=folder))
    try:
        unpacker = _Unpacker(aside, name, room)
        said = run_on(info, argv, stop, timeout_s=timeout_s, take=unpacker.unpack)
        error = said.error
        if error is None and said.status != 0:
            error = said.stderr.strip()[-500:] or f"reading ended with status {said.status}"
        if (aside / name).exists():
            home.mkdir(exist_ok=True)
            (aside / name).rename(target)
        elif error is None and not unpacker.left_out:
            error = "nothing came"
    except OSError as failure:
        return Fetched(path=None, files=0, bytes=0, left_out=[], error=str(failure))
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Fetched(
        path=str(target) if target.exists() else None,
        files=unpacker.files,
        bytes=unpacker.bytes,
        left_out=unpacker.left_out,
        changed=unpacker.changed,
        error=error,
    )


class _Member(tarfile.TarInfo):
    """What fits into memory."""

    @classmethod
    def frombuf(cls, *words: Any, **more: Any) -> Self:
        member = super().frombuf(*words, **more)
        if member.type in HEADERS and member.size > HEADER_BYTES_MAX:
            raise tarfile.ReadError(f"a header of {member.size} bytes")
        return member


class _Unpacker:
    """Writes what a tar archive holds below a directory that nobody else knows."""

    def __init__(self, folder: Path, name: str, room: _Room) -> None:
        self._folder, self._name, self._room = folder, name, room
        self.files = 0
        self.bytes = 0
        self.left_out: list[str] = []
        self.changed: list[str] = []
        self._last = ("", 0)

    def unpack(self, parts: Iterable[bytes]) -> None:
        """Raises LabError where it is no archive, or more than may come at all."""
        most = self._room.limits.total_bytes + TAR_OVERHEAD_BYTES
        try:
            with tarfile.open(fileobj=_Reader(parts, most), mode="r|", tarinfo=_Member) as archive:
                for count, member in enumerate(archive):
                    if count >= MEMBERS_MAX:
                        raise LabError(f"more than {MEMBERS_MAX} files")
                    if why := self._one(archive, member):
                        self.left_out.append(f"{member.name!r}: {why}")
        except (tarfile.TarError, ValueError, EOFError) as error:
            raise LabError(f"what came is no archive: {error}") from None

    def _one(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
        """Write one member, or say why not."""
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or path.parts[:1] != (self._name,):
            return "a name that leads elsewhere"
        if settings := member.pax_headers:
            if why := settings.get(agent_send.LEFT):
                self._cut(member.name, settings.get(agent_send.KEPT, ""))
                return why
            if how := settings.get(agent_send.CHANGED):
                self.changed.append(f"{member.name!r}: {how}")
                return None
        if not (member.isreg() or member.isdir()):
            return "a link" if member.issym() or member.islnk() else "neither file nor directory"
        target = self._folder / path
        try:
            if member.isdir():
                target.mkdir(mode=0o755, parents=True, exist_ok=True)
                return None
            if why := self._room.take(member.size):
                return why
            target.parent.mkdir(parents=True, exist_ok=True)
            self._write(archive, member, target)
        except (OSError, ValueError) as error:
            return str(error)
        return None

    def _cut(self, name: str, kept: str) -> None:
        """Of the file that has just come only so many bytes are its own."""
        last, size = self._last
        if name == last and kept.isascii() and kept.isdigit() and int(kept) < size:
            os.truncate(self._folder / name, int(kept))
            self.bytes -= size - int(kept)
            self._last = ("", 0)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        source = archive.extractfile(member)
        assert source is not None
        with os.fdopen(os.open(target, flags, 0o600 | member.mode & 0o755), "wb") as file:
            shutil.copyfileobj(source, file, PART_BYTES)
        self._last = (member.name, member.size)
        self.files += 1
        self.bytes += member.size


class _Reader(io.RawIOBase):
    """Parts as a file. LabError beyond `bytes_max`."""

    def __init__(self, parts: Iterable[bytes], bytes_max: int) -> None:
        super().__init__()
        self._parts = iter(parts)
        self._rest = b""
        self._left = bytes_max

    def read(self, size: int = -1) -> bytes:
        assert size >= 0
        while len(self._rest) < size and (part := next(self._parts, b"")):
            self._left -= len(part)
            if self._left < 0:
                raise LabError("more came than may come")
            self._rest += part
        data, self._rest = self._rest[:size], self._rest[size:]
        return data
