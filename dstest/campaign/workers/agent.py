"""What runs on a worker: tasks in directories of their own, their child processes, and the archives
in which their directories travel back.

An agent is the plug-in of one pool on one worker. It is pickled to where it works, so what it owns
there is made in `setup`. Archives hold regular files and directories alone; what comes is unpacked
aside, within limits, and put in its place as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, Self

import msgspec
from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from dstest import __version__
from dstest.campaign.steps.commands import start
from dstest.campaign.workers.task import FOLDER, Task, Workspace
from dstest.core.errors import HarnessError, reason_of
from dstest.core.limits import HEAL_S

PART_BYTES: Final = 8 << 20
_NAME_BYTES_MAX: Final = 1 << 16
_COPY_BYTES: Final = 1 << 20
_NAMES: Final = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME)
_ARCHIVE: Final = "parcel.tar.gz"


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


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker answers: the value or the error of the task, and where its directory waits."""

    value: Any
    error: str | None
    archive: Archive | None
    home: str
    worker: str


class _TaskWorkspace(Workspace):
    """The place of one task."""

    def __init__(self, agent: Agent, folder: Path, lab_id: str) -> None:
        self.folder, self.lab_id = folder, lab_id
        self._agent = agent

    def command(self, argv: Sequence[str], log: Path, *, limit_s: float) -> int:
        child = self._agent.start(argv, log)
        try:
            return child.wait(limit_s)
        except subprocess.TimeoutExpired:
            return end(child)
        finally:
            self._agent.children.discard(child)


def end(child: subprocess.Popen[bytes]) -> int:
    """End a command, with time to heal and seal; its exit code."""
    child.send_signal(signal.SIGTERM)
    try:
        return child.wait(HEAL_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


class Agent(WorkerPlugin):
    """The part of a pool that is on one worker."""

    def __init__(self, name: str, version: str, scratch: str | None) -> None:
        self.name, self._version, self._scratch = name, version, scratch

    def setup(self, worker: Worker) -> None:
        """Raises HarnessError where this worker is another version of dstest."""
        if self._version != __version__:
            raise HarnessError(
                f"{worker.address} has dstest {__version__}, not {self._version}",
                remedy="put this version there: `dstest workers put`",
            )
        self.worker = worker.address
        self.children: set[subprocess.Popen[bytes]] = set()
        self.begun: set[str] = set()
        self._stopped = threading.Event()
        parent = Path(self._scratch or worker.local_directory)
        parent.mkdir(parents=True, exist_ok=True)
        self._root = parent

    def teardown(self, worker: Worker) -> None:
        """Whoever is still here ends with this worker."""
        self.stop()

    def stop(self) -> None:
        """End every command, and start no other."""
        self._stopped.set()
        for child in list(self.children):
            child.send_signal(signal.SIGTERM)
        for child in list(self.children):
            end(child)

    def start(self, argv: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command that ends with this agent. Raises HarnessError where that has ended."""
        if self._stopped.is_set():
            raise HarnessError("the fan has ended")
        child = start(argv, log)
        self.children.add(child)
        if self._stopped.is_set():
            end(child)
        return child

    def do(self, task: Task, lab_id: str) -> Delivery:
        """Do a task, and pack what it leaves."""
        self.begun.add(lab_id)
        home = Path(tempfile.mkdtemp(prefix=f"{task.id}.", dir=self._root))
        folder = home / FOLDER
        folder.mkdir()
        value, error, archive = None, None, None
        try:
            value = task.work(_TaskWorkspace(self, folder, lab_id), *task.args)
        except Exception as failure:
            error = f"{type(failure).__name__}: {reason_of(failure)}"
        try:
            archive = pack(folder, home / _ARCHIVE)
        except OSError as failure:
            error = error or f"its directory could not be packed: {reason_of(failure)}"
        if archive is None:
            shutil.rmtree(home, ignore_errors=True)
        return Delivery(
            value=value, error=error, archive=archive, home=str(home), worker=self.worker
        )


def perform(name: str, task: Task, lab_id: str) -> Delivery:
    """On a worker's thread: do a task with the agent of this pool."""
    agent: Agent = get_worker().plugins[name]  # type: ignore[assignment]
    return agent.do(task, lab_id)


async def has_begun(name: str, lab_id: str, dask_worker: Worker) -> bool:
    """On a worker: has this task begun, or must it wait for its turn?"""
    agent: Any = dask_worker.plugins.get(name)
    return agent is not None and lab_id in agent.begun


async def part(path: str, offset: int) -> bytes:
    """On a worker: a part of an archive."""
    return await asyncio.to_thread(read_part, path, offset)


async def forget(home: str) -> None:
    """On a worker: a task's directory is not needed any more."""
    await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


async def stop(name: str, dask_worker: Worker) -> None:
    """On a worker: end what the agent of this pool runs."""
    agent: Any = dask_worker.plugins.get(name)
    if agent is not None:
        await asyncio.to_thread(agent.stop)
