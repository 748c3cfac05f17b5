"""A worker pool: gives tasks to workers, one at a time each, and takes back what they leave.

    local                          so many processes of this machine
    ssh:one,two,three              a worker on each, reached as `ssh HOST` reaches it; the first
                                   has the scheduler as well
    tcp://10.0.0.1:8786, tls://..  the workers of a scheduler that somebody else has started

The clock of a task begins when its worker says that it has begun. A worker that is lost costs its
tasks: each is given out again, with another lab, `LOSSES_MAX` times. A silent one is ended first.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import shutil
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from dstest import __version__
from dstest.campaign.workers.archive import Archive, Limits, unpack
from dstest.campaign.workers.bundle import HOME
from dstest.campaign.workers.task import WORK, Task, TaskResult
from dstest.core.errors import ConfigError, HarnessError, reason_of
from dstest.core.extras import need

if TYPE_CHECKING:
    from dstest.campaign.workers.agent import Delivery


LAB: Final = "lab"
"""The resource of a worker that a task with a lab claims."""

_CONFIG: Final = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.no-workers-timeout": "300s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.comm.timeouts.connect": "30s",
}
"""A task whose worker is lost comes back to us at once: we count, and say so."""

_SILENT: Final = {"logging": {"distributed": "critical", "asyncio": "critical"}}
"""Not over SSH: where a scheduler listens, Dask reads in its log."""

_CLOSE_S: Final = 5.0
_START_S: Final = 120.0
UP_S: Final = 120.0
"""For a scheduler and workers to come up: what hangs on a machine is told, not waited for."""

_WORKERS_LOOK_S: Final = 0.5
_NONE_S: Final = 300.0
"""So long nothing is done where there is no worker: nannies start new ones."""

_END_S: Final = 60.0

LOSSES_MAX: Final = 3
"""A task that has cost so many workers is not given to another one."""

_LOOK_S: Final = 1.0
_SILENCE_S: Final = 300.0
"""Beyond its limit a task may need this long to heal, to seal and to be packed."""


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts` of `ssh`, `address` of a scheduler."""

    kind: Literal["local", "ssh", "scheduler"]
    hosts: tuple[str, ...] = ()
    address: str = ""


def location_of(text: str) -> Location:
    """Raises ConfigError for what is none of the three."""
    if text == "local":
        return Location(kind="local")
    if text.startswith("ssh:") and all(hosts := [h.strip() for h in text[4:].split(",")]):
        return Location(kind="ssh", hosts=tuple(hosts))
    if text.startswith(("tcp://", "tls://")):
        return Location(kind="scheduler", address=text)
    raise ConfigError(
        f"no workers at {text!r}", remedy="local, ssh:HOST,HOST or tcp://ADDRESS:PORT"
    )


def require_pool(what: str) -> None:
    """Raises ConfigError where what workers are made of is not installed; `what` needs them."""
    need("distributed", "night", what)


@asynccontextmanager
async def client_at(place: Location, workers: int) -> AsyncIterator[Any]:
    """A client of the cluster that is there, or that is made and ended with this. Raises
    HarnessError where no worker comes up."""
    import dask
    from distributed import Client  # its own settings are there before ours are laid over them
    from distributed.versions import VersionMismatchWarning

    async with AsyncExitStack() as stack:
        silent = {} if place.kind == "ssh" else _SILENT
        stack.enter_context(dask.config.set({**_CONFIG, **silent}))
        if place.kind == "ssh":  # its bundle has what we need from here, and not what else is here
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            async with asyncio.timeout(UP_S):
                cluster = await stack.enter_async_context(_cluster(place, workers))
            address = place.address or cluster
            asked = Client(address, asynchronous=True, timeout=_START_S)  # type: ignore[no-untyped-call]
            client = await _entered(stack, asked)
            await client.wait_for_workers(1, timeout=_START_S)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise HarnessError(
                f"no workers at {place.address or ', '.join(place.hosts) or place.kind}: "
                f"{reason_of(error)}",
                remedy="docs/nightly.md says how workers are started",
            ) from error
        yield client


async def _entered(stack: AsyncExitStack, asked: Any) -> Any:
    """A client that is connected; one that is not is closed, or what it had begun would go on."""
    try:
        return await stack.enter_async_context(asked)
    except BaseException:
        with suppress(Exception):
            await asyncio.wait_for(asked.close(), _CLOSE_S)
        raise


@asynccontextmanager
async def _cluster(place: Location, workers: int) -> AsyncIterator[Any]:
    from distributed import LocalCluster, SSHCluster

    one: dict[str, Any] = {"nthreads": 1, "resources": {LAB: 1}}
    if place.kind == "scheduler":
        yield None
    elif place.kind == "ssh":
        # It repeats each line of theirs.
        logging.getLogger("distributed.deploy.ssh").setLevel(logging.CRITICAL)
        async with SSHCluster(
            [place.hosts[0], *place.hosts],
            worker_options={**one, "death_timeout": _START_S, "memory_limit": 0},
            scheduler_options={"dashboard": False, "dashboard_address": ":0"},
            remote_python=f"{HOME}/python",
            asynchronous=True,
        ) as cluster:
            yield cluster
    else:
        local = LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            resources=one["resources"],
            memory_limit=0,
            silence_logs=logging.CRITICAL,
            dashboard_address=":0",
            security=True,
            protocol="tls://",
            asynchronous=True,
        )
        async with local as cluster:
            yield cluster


class NotBegunError(Exception):
    """The worker was gone before it began with a task, which it did not cost."""


class Workers:
    """By their addresses."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._there: set[str] = set()
        self._gone: set[str] = set()
        self._tasks: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """How many there were at the last look."""
        return len(self._there - self._gone)

    async def look(self) -> None:
        """See which there are. Raises HarnessError where their scheduler is gone."""
        # `scheduler_info()` of an asynchronous client names no workers.
        try:
            told = await self._client.scheduler.identity(n_workers=-1)
        except (OSError, ValueError) as error:
            raise HarnessError(
                f"the scheduler of the workers is gone: {reason_of(error)}",
                remedy="start it, and go on with what is left",
            ) from error
        self._there = {*told["workers"]}
        self._gone &= self._there  # a worker that comes back may have its old address

    def gone(self, worker: str) -> None:
        """Nothing is given to this one any more, which the scheduler may not know yet."""
        self._gone.add(worker)

    async def end(self, worker: str) -> None:
        """End one that is silent; its commands heal and seal, and its nanny starts another one."""
        self.gone(worker)
        with suppress(OSError, TimeoutError, ValueError):
            await self._client.scheduler.restart_workers(
                workers=[worker],
                client=self._client.id,
                timeout=_END_S,
                wait_for_workers=False,
                on_error="return",
                stimulus_id=f"silent-{secrets.token_hex(4)}",
            )

    @asynccontextmanager
    async def seat(self, ahead: int) -> AsyncIterator[str]:
        """A worker that has no more than so many tasks of ours, until the end of the block. Raises
        HarnessError where there is none at all for long."""
        worker = self._free(ahead)
        while worker is None:
            try:
                async with asyncio.timeout(_NONE_S):
                    await self._someone()
            except TimeoutError:
                raise HarnessError(
                    f"there has been no worker for {_NONE_S:.0f} s",
                    remedy="start workers, and go on with what is left",
                ) from None
            worker = self._free(ahead)
            if worker is None:
                await asyncio.sleep(_WORKERS_LOOK_S)
        self._tasks[worker] += 1
        try:
            yield worker
        finally:
            self._tasks[worker] -= 1

    async def _someone(self) -> None:
        await self.look()
        while not self.count:
            await asyncio.sleep(_WORKERS_LOOK_S)
            await self.look()

    def _free(self, ahead: int) -> str | None:
        able = [one for one in self._there - self._gone if self._tasks[one] <= ahead]
        return min(able, key=lambda one: (self._tasks[one], one), default=None)


@asynccontextmanager
async def worker_pool(
    at: str = "local", *, workers: int = 1, into: Path
) -> AsyncIterator[WorkerPool]:
    """Workers at a place (`Location`), until the end of the block.

    Of `local` there are so many `workers`; elsewhere as many as there are. Directories that tasks
    leave come to `into/TASK_ID`; local workers work in `into/.work`. At the end, also by an
    exception or a cancellation, whatever still runs is ended, with time to heal and seal. Raises
    ConfigError for what is no place, HarnessError where no worker comes up.
    """
    require_pool("a pool of workers")
    place = location_of(at)
    work = into / WORK
    work.mkdir(parents=True, exist_ok=True)
    async with client_at(place, workers) as client:
        from dstest.campaign.workers.agent import Agent

        name = f"fan-{secrets.token_hex(4)}"
        scratch = str(work) if place.kind == "local" else None
        await client.register_plugin(Agent(name, __version__, scratch), name=name)
        pool = WorkerPool(client, name, into)
        await pool.look()
        try:
            yield pool
        finally:
            await asyncio.shield(pool.close())


def _add(arriving: Path, some: bytes) -> None:
    """Raises HarnessError where this machine's disk does not take it: no worker is lost by that."""
    try:
        with arriving.open("ab") as file:
            file.write(some)
    except OSError as error:
        raise HarnessError(f"{arriving} cannot be written: {reason_of(error)}") from error


class WorkerPool:
    """Workers that are up."""

    def __init__(self, client: Any, name: str, into: Path) -> None:
        self._client, self._name, self._into = client, name, into
        self._limits = Limits()
        self._given = 0
        self._workers = Workers(client)

    @property
    def width(self) -> int:
        """How many tasks can be done at once: the workers that there are; one where all are lost,
        which may come back."""
        return max(1, self._workers.count)

    async def look(self) -> None:
        """See which workers there are."""
        await self._workers.look()

    async def run(self, tasks: Iterable[Task], *, ahead: int = 0) -> AsyncIterator[TaskResult]:
        """Do all of them; what became of each, as they end. The next one is asked for once a worker
        is free, so `tasks` may be an iterator that decides then; of small ones each worker may have
        so many `ahead`. Raises HarnessError where the
        workers' scheduler is gone, or all workers are."""
        waiting = iter(tasks)
        running: set[asyncio.Task[TaskResult]] = set()
        try:
            while True:
                await self._workers.look()
                free = max(0, self.width * (1 + ahead) - len(running))
                for task in itertools.islice(waiting, free):
                    running.add(asyncio.create_task(self._done(task, ahead)))
                if not running:
                    return
                ended, running = await asyncio.wait(
                    running, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
                for one in ended:
                    yield one.result()
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _done(self, task: Task, ahead: int) -> TaskResult:
        lost = 0
        while lost < LOSSES_MAX:
            try:
                async with self._workers.seat(ahead) as worker:
                    sent = await self._asked(task, worker)
            except NotBegunError:
                continue
            if sent is None:
                lost += 1
                continue
            done = TaskResult(
                id=task.id, value=sent.value, error=sent.error, lost=lost, worker=sent.worker
            )
            if sent.archive is None:
                return done
            try:
                folder = await self._fetched(task, sent, sent.archive)
            except OSError:
                lost += 1
                continue
            except HarnessError as error:
                return replace(done, error=done.error or error.message)
            return replace(done, folder=folder)
        return TaskResult(
            id=task.id, error=f"{LOSSES_MAX} workers were lost with it", lost=LOSSES_MAX
        )

    async def _asked(self, task: Task, worker: str) -> Delivery | None:
        """The worker's answer, None where it was lost with the task, or is silent and was ended.
        Raises NotBegunError where it was gone before."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        from dstest.campaign.workers.agent import perform

        self._given += 1
        key = f"{self._name}-{self._given}"
        future = self._client.submit(
            perform,
            *(self._name, task, key),
            key=key,
            pure=False,
            resources={LAB: 1} if task.lab else None,
            workers=[worker],
        )
        answer = asyncio.ensure_future(future.result())
        try:
            await self._begun(answer, worker, key)
            ended, _ = await asyncio.wait({answer}, timeout=task.limit_s + _SILENCE_S)
            if not ended:
                await self._workers.end(worker)
                return None
            sent: Delivery = answer.result()
        except KilledWorker:
            self._workers.gone(worker)
            return None
        except FutureCancelledError as error:
            raise HarnessError(
                f"the scheduler of the workers is gone: {reason_of(error)}",
                remedy="start it, and go on with what is left",
            ) from error
        finally:
            answer.cancel()
            future.release()
            await asyncio.gather(answer, return_exceptions=True)
        return sent

    async def _begun(self, answer: asyncio.Future[Delivery], worker: str, key: str) -> None:
        """Wait until the worker has begun with it: another one's task may be in its way. Raises
        NotBegunError where that worker is gone."""
        from dstest.campaign.workers.agent import has_begun

        while not answer.done():
            await asyncio.wait({answer}, timeout=_LOOK_S)
            try:
                if answer.done() or await self._at(worker, has_begun, self._name, key):
                    return
            except OSError:
                if answer.done():
                    return
                self._workers.gone(worker)
                raise NotBegunError from None

    async def _fetched(self, task: Task, sent: Delivery, archive: Archive) -> Path:
        """Its directory, here. Raises HarnessError where it is not what was sent, too large, or
        cannot be written here; OSError where the worker is lost before it has arrived."""
        if archive.bytes > self._limits.archive_bytes:
            raise HarnessError(
                f"{task.id}: its directory takes {archive.bytes} bytes on the way, more than "
                f"{self._limits.archive_bytes}"
            )
        arriving = self._into / WORK / f"{task.id}.{self._given}.arriving"
        try:
            await self._arrive(task, sent, archive, arriving)
            target = self._into / task.id
            await asyncio.to_thread(unpack, arriving, archive, target, self._limits)
        finally:
            arriving.unlink(missing_ok=True)
        await self._forget(sent)
        return target

    async def _arrive(self, task: Task, sent: Delivery, archive: Archive, arriving: Path) -> None:
        from dstest.campaign.workers.agent import part

        size = 0
        while size < archive.bytes:
            some = await self._at(sent.worker, part, archive.path, size)
            if not some:
                raise HarnessError(f"{task.id}: its directory came in part")
            _add(arriving, some)
            size += len(some)

    async def _forget(self, sent: Delivery) -> None:
        """Take away the worker's copy of what has arrived. A worker that is lost by now has cost
        nothing; what a local one leaves would be taken for a run that never came back."""
        from dstest.campaign.workers.agent import forget

        with suppress(OSError):
            await self._at(sent.worker, forget, sent.home)
        home = Path(sent.home)
        if home.is_relative_to(self._into / WORK):
            await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)

    async def _at(self, worker: str, function: Any, *args: Any) -> Any:
        """Call a function on this worker, beside its tasks. Raises OSError where it is lost."""
        answers = await self._client.run(function, *args, workers=[worker], on_error="raise")
        if worker not in answers:
            raise ConnectionError(f"{worker} is gone")
        return answers[worker]

    async def close(self) -> None:
        """End what still runs."""
        from dstest.campaign.workers.agent import stop

        try:
            await self._client.run(stop, self._name, on_error="ignore")
            await self._client.unregister_worker_plugin(self._name)
        except (OSError, ValueError):
            return
