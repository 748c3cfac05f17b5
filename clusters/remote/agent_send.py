"""Runs on a node: sends a file or a directory to standard output, as a tar archive.

    python3 -I -S -c TEXT PARENT NAME FILE_BYTES TOTAL_BYTES

What cannot be sent is named in the archive, by a member without content whose settings say why, and
the rest is sent all the same. Standard library only; Python 3.9 or newer.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import sys
import tarfile
from typing import IO, Any

LEFT = "DSTEST.left"
"""Setting of a member: why this file does not come, or not all of it."""

CHANGED = "DSTEST.changed"
"""How it changed while it was read: what came is of more than one moment."""

KEPT = "DSTEST.kept"
"""How many bytes of the member before, of the same name, are the file's."""

FILES_MAX = 100_000
PART_BYTES = 1 << 16
SMALL_BYTES = 1 << 20
"""Up to this size a file is read to its end before its size is told: that of files of /proc is 0,
and that of files of /sys is 4096, whatever they hold."""

WHOLE_BYTES_MAX = 1 << 24
"""Of such a file, in memory."""

WAIT_S = 3
"""For a small file; some of /proc wait for what never comes."""


class Rest(io.RawIOBase):
    """Exactly as many bytes of a file as were announced: zeros where it has fewer."""

    def __init__(self, source: Any, size: int) -> None:
        super().__init__()
        self.source, self.size = source, size
        self.kept = 0
        self.why = ""

    def read(self, size: int = -1) -> bytes:
        if not self.why:
            try:
                data: bytes = self.source.read(size)
            except OSError as error:
                data, self.why = b"", words(error)
            if data:
                self.kept += len(data)
                return data
            self.why = self.why or "it shrank while it was read"
        return bytes(size)


class Sender:
    """Into an archive, within limits of bytes."""

    def __init__(self, archive: tarfile.TarFile, file_bytes: int, total_bytes: int) -> None:
        self.archive = archive
        self.file_bytes, self.total_bytes = file_bytes, total_bytes
        self.left = total_bytes
        self.files = 0
        self.device: int | None = None

    def note(self, name: str, **settings: object) -> None:
        member = tarfile.TarInfo(name)
        member.pax_headers = {f"DSTEST.{key}": str(value) for key, value in settings.items()}
        self.archive.addfile(member)

    def tree(self, parent: str, name: str) -> None:
        """Folder by folder; names are below `parent`."""
        waiting = [name]
        while waiting:
            name = waiting.pop()
            self.files += 1
            if self.files > FILES_MAX:
                self.note(name, left=f"more than {FILES_MAX} files: this and what comes after it")
                return
            try:
                if self.one(parent, name):
                    found = sorted(os.listdir(os.path.join(parent, name)), reverse=True)
                    waiting += [f"{name}/{entry}" for entry in found]
            except OSError as error:
                self.note(name, left=words(error))

    def one(self, parent: str, name: str) -> bool:
        """Send one of them. Is it a directory whose entries are to be sent?"""
        path = os.path.join(parent, name)
        what = os.lstat(path)
        self.device = what.st_dev if self.device is None else self.device
        if stat.S_ISLNK(what.st_mode):
            self.note(name, left="a link")
        elif not (stat.S_ISREG(what.st_mode) or stat.S_ISDIR(what.st_mode)):
            self.note(name, left="neither file nor directory")
        elif what.st_dev != self.device:
            self.note(name, left="on another file system")
        elif stat.S_ISDIR(what.st_mode):
            self.archive.addfile(member_of(name, what, tarfile.DIRTYPE))
            return True
        else:
            self.file(path, name)
        return False

    def file(self, path: str, name: str) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb", buffering=0) as source:
            what = os.fstat(source.fileno())
            if not stat.S_ISREG(what.st_mode):
                self.note(name, left="neither file nor directory")
                return
            if self.refused(name, what.st_size):
                return
            if what.st_size <= SMALL_BYTES:
                self.small(source, name, what)
            else:
                self.large(source, name, what)
            now = os.fstat(source.fileno())
        if (now.st_size, now.st_mtime_ns) != (what.st_size, what.st_mtime_ns):
            how = "grew" if now.st_size > what.st_size else "changed"
            self.note(name, changed=f"it {how} while it was read")

    def refused(self, name: str, size: int) -> bool:
        if size > self.file_bytes:
            self.note(name, left=f"{size} bytes, more than {self.file_bytes}")
        elif size > self.left:
            why = f"more than is left of {self.total_bytes} for all nodes"
            self.note(name, left=f"{size} bytes, {why}")
        else:
            return False
        return True

    def small(self, source: Any, name: str, what: os.stat_result) -> None:
        most = min(self.file_bytes, WHOLE_BYTES_MAX)
        signal.alarm(WAIT_S)
        try:
            data = whole(source, most + 1)
        finally:
            signal.alarm(0)
        if len(data) > most and what.st_size == 0:
            self.note(name, left=f"more than {most} bytes, and its size is said to be 0")
            return
        data = data[:most]
        if not self.refused(name, len(data)):
            self.add(name, what, len(data), io.BytesIO(data))

    def large(self, source: Any, name: str, what: os.stat_result) -> None:
        rest = Rest(source, what.st_size)
        self.add(name, what, what.st_size, rest)
        if rest.why:
            self.note(name, left=rest.why, kept=rest.kept)

    def add(self, name: str, what: os.stat_result, size: int, source: Any) -> None:
        self.left -= size
        member = member_of(name, what, tarfile.REGTYPE)
        member.size = size
        self.archive.addfile(member, source)


def whole(source: Any, most: int) -> bytes:
    """A file to its end, or its first `most` bytes."""
    data = bytearray()
    while len(data) < most:
        part = source.read(min(PART_BYTES, most - len(data)))
        if part is None:
            raise BlockingIOError(errno.EAGAIN, "nothing comes from it now")
        if not part:
            break
        data += part
    return bytes(data)


def member_of(name: str, what: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.mode = stat.S_IMODE(what.st_mode)
    member.mtime = max(0, int(what.st_mtime))
    return member


def words(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def send(out: IO[bytes], parent: str, name: str, file_bytes: int, total_bytes: int) -> None:
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        Sender(archive, file_bytes, total_bytes).tree(parent, name)


def late(*_: object) -> None:
    raise TimeoutError(errno.ETIMEDOUT, f"nothing comes from it within {WAIT_S} s")


def main() -> None:
    parent, name, file_bytes, total_bytes = sys.argv[1:]
    signal.signal(signal.SIGALRM, late)
    try:
        send(sys.stdout.buffer, parent, name, int(file_bytes), int(total_bytes))
    except BrokenPipeError:
        os._exit(1)  # nobody listens any more


if __name__ == "__main__":
    main()
