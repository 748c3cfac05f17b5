"""What runs on a worker: tasks in directories of their own, and their child processes.

An agent is the plug-in of one pool on one worker. It is pickled to where it works, so what it owns
there is made in `setup`.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from distributed import Worker, get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from dstest import __version__
from dstest.campaign.steps.commands import start
from dstest.campaign.workers.archive import Archive, pack, read_part
from dstest.campaign.workers.task import FOLDER, Task, Workspace
from dstest.core.errors import HarnessError, reason_of
from dstest.core.limits import HEAL_S

_ARCHIVE: Final = "parcel.tar.gz"


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
