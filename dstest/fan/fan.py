"""The side of a fan that asks: gives tasks to workers, and takes back what they leave.

One code path for all places. Labs are claimed as a resource of the worker, and a task is given to
a worker that is there and has nothing of ours to do (`crew.py`); its clock begins when that worker
begins with it. A worker that is lost costs the tasks that it had: each is given out again, with
another lab, `LOSSES_MAX` times. One that is silent is ended first.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import shutil
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dstest import __version__
from dstest.core.errors import HarnessError, reason_of
from dstest.fan.crew import Crew, NotBegunError
from dstest.fan.desk_paths import WORK
from dstest.fan.parcel import Limits, Parcel, unpack
from dstest.fan.task import Done, Task
from dstest.fan.where import LAB, client_at, where

if TYPE_CHECKING:
    from dstest.fan.desk import Sent

LOSSES_MAX: Final = 3
"""A task that has cost so many workers is not given to another one."""

_LOOK_S: Final = 1.0
_SILENCE_S: Final = 300.0
"""Beyond its limit a task may need this long to heal, to seal and to be packed."""


@asynccontextmanager
async def fan_out(at: str = "local", *, workers: int = 1, into: Path) -> AsyncIterator[Fan]:
    """Workers at a place (`where.py`), until the end of the block.

    Of `local` there are so many `workers`; elsewhere as many as there are. Directories that tasks
    leave come to `into/TASK_ID`; local workers work in `into/.work`. At the end, also by an
    exception or a cancellation, whatever still runs is ended, with time to heal and seal. Raises
    ConfigError for what is no place, HarnessError where no worker comes up.
    """
    place = where(at)
    work = into / WORK
    work.mkdir(parents=True, exist_ok=True)
    async with client_at(place, workers) as client:
        from dstest.fan.desk import Desk

        name = f"fan-{secrets.token_hex(4)}"
        scratch = str(work) if place.kind == "local" else None
        await client.register_plugin(Desk(name, __version__, scratch), name=name)
        fan = Fan(client, name, into)
        await fan.look()
        try:
            yield fan
        finally:
            await asyncio.shield(fan.close())


def _add(arriving: Path, some: bytes) -> None:
    """Raises HarnessError where this machine's disk does not take it: no worker is lost by that."""
    try:
        with arriving.open("ab") as file:
            file.write(some)
    except OSError as error:
        raise HarnessError(f"{arriving} cannot be written: {reason_of(error)}") from error


class Fan:
    """Workers that are up."""

    def __init__(self, client: Any, name: str, into: Path) -> None:
        self._client, self._name, self._into = client, name, into
        self._limits = Limits()
        self._given = 0
        self._crew = Crew(client)

    @property
    def width(self) -> int:
        """How many tasks can be done at once: the workers that there are; one where all are lost,
        which may come back."""
        return max(1, self._crew.count)

    async def look(self) -> None:
        """See which workers there are."""
        await self._crew.look()

    async def run(self, tasks: Iterable[Task], *, ahead: int = 0) -> AsyncIterator[Done]:
        """Do all of them; what became of each, as they end. The next one is asked for once a worker
        is free, so `tasks` may be an iterator that decides then; of small ones each worker may have
        so many `ahead`. Raises HarnessError where the
        workers' scheduler is gone, or all workers are."""
        waiting = iter(tasks)
        running: set[asyncio.Task[Done]] = set()
        try:
            while True:
                await self._crew.look()
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

    async def _done(self, task: Task, ahead: int) -> Done:
        lost = 0
        while lost < LOSSES_MAX:
            try:
                async with self._crew.seat(ahead) as worker:
                    sent = await self._asked(task, worker)
            except NotBegunError:
                continue
            if sent is None:
                lost += 1
                continue
            done = Done(
                id=task.id, value=sent.value, error=sent.error, lost=lost, worker=sent.worker
            )
            if sent.parcel is None:
                return done
            try:
                folder = await self._fetched(task, sent, sent.parcel)
            except OSError:
                lost += 1
                continue
            except HarnessError as error:
                return replace(done, error=done.error or error.message)
            return replace(done, folder=folder)
        return Done(id=task.id, error=f"{LOSSES_MAX} workers were lost with it", lost=LOSSES_MAX)

    async def _asked(self, task: Task, worker: str) -> Sent | None:
        """The worker's answer, None where it was lost with the task, or is silent and was ended.
        Raises NotBegunError where it was gone before."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        from dstest.fan.desk import perform

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
                await self._crew.end(worker)
                return None
            sent: Sent = answer.result()
        except KilledWorker:
            self._crew.gone(worker)
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

    async def _begun(self, answer: asyncio.Future[Sent], worker: str, key: str) -> None:
        """Wait until the worker has begun with it: another one's task may be in its way. Raises
        NotBegunError where that worker is gone."""
        from dstest.fan.desk import begun

        while not answer.done():
            await asyncio.wait({answer}, timeout=_LOOK_S)
            try:
                if answer.done() or await self._at(worker, begun, self._name, key):
                    return
            except OSError:
                if answer.done():
                    return
                self._crew.gone(worker)
                raise NotBegunError from None

    async def _fetched(self, task: Task, sent: Sent, parcel: Parcel) -> Path:
        """Its directory, here. Raises HarnessError where it is not what was sent, too large, or
        cannot be written here; OSError where the worker is lost before it has arrived."""
        if parcel.bytes > self._limits.parcel_bytes:
            raise HarnessError(
                f"{task.id}: its directory takes {parcel.bytes} bytes on the way, more than "
                f"{self._limits.parcel_bytes}"
            )
        arriving = self._into / WORK / f"{task.id}.{self._given}.arriving"
        try:
            await self._arrive(task, sent, parcel, arriving)
            target = self._into / task.id
            await asyncio.to_thread(unpack, arriving, parcel, target, self._limits)
        finally:
            arriving.unlink(missing_ok=True)
        await self._forget(sent)
        return target

    async def _arrive(self, task: Task, sent: Sent, parcel: Parcel, arriving: Path) -> None:
        from dstest.fan.desk import part

        size = 0
        while size < parcel.bytes:
            some = await self._at(sent.worker, part, parcel.path, size)
            if not some:
                raise HarnessError(f"{task.id}: its directory came in part")
            _add(arriving, some)
            size += len(some)

    async def _forget(self, sent: Sent) -> None:
        """Take away the worker's copy of what has arrived. A worker that is lost by now has cost
        nothing; what a local one leaves would be taken for a run that never came back."""
        from dstest.fan.desk import forget

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
        from dstest.fan.desk import stop

        try:
            await self._client.run(stop, self._name, on_error="ignore")
            await self._client.unregister_worker_plugin(self._name)
        except (OSError, ValueError):
            return
