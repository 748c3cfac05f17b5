"""The side of a fan that asks: gives tasks to workers, and takes back what they leave.

One code path for all places. Labs are claimed as a resource of the worker, and no more tasks are
given out than there are workers, so that a task that is given out is being done. A worker that is
lost costs the tasks that it had: each is given out again, with another lab, `LOSSES_MAX` times.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dstest import __version__
from dstest.core.errors import HarnessError, reason_of
from dstest.fan.desk_paths import WORK
from dstest.fan.parcel import Limits, Parcel, unpack
from dstest.fan.task import Done, Task
from dstest.fan.where import LAB, client_at, where

if TYPE_CHECKING:
    from dstest.fan.desk import Sent

__all__ = ["LOSSES_MAX", "Fan", "fan_out"]

LOSSES_MAX: Final = 3
"""A task that has cost so many workers is not given to another one."""

_SILENCE_S: Final = 300.0
"""Beyond its limit a task may need this long to heal, to seal and to be packed."""


@asynccontextmanager
async def fan_out(
    at: str = "local", *, workers: int = 1, into: Path, limits: Limits | None = None
) -> AsyncIterator[Fan]:
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
        expected = {"local": workers, "ssh": len(place.hosts), "scheduler": 1}[place.kind]
        fan = Fan(client, name, into, limits or Limits(), expected)
        try:
            yield fan
        finally:
            await asyncio.shield(fan.close())


class Fan:
    """Workers that are up."""

    def __init__(self, client: Any, name: str, into: Path, limits: Limits, workers: int) -> None:
        self._client, self._name, self._into, self._limits = client, name, into, limits
        self._given = 0
        self._known = workers

    @property
    def width(self) -> int:
        """How many tasks can be done at once: the workers that there are, and those that are to
        come back."""
        there = len(self._client.scheduler_info(n_workers=-1)["workers"])
        return max(there, self._known)

    async def run(self, tasks: Iterable[Task], *, ahead: int = 0) -> AsyncIterator[Done]:
        """Do all of them; what became of each, as they end. The next one is asked for once a worker
        is free, so `tasks` may be an iterator that decides then; of small ones each worker may have
        so many `ahead`. Raises HarnessError where the
        workers' scheduler is gone."""
        waiting = iter(tasks)
        running: set[asyncio.Task[Done]] = set()
        try:
            while True:
                for task in itertools.islice(
                    waiting, max(0, self.width * (1 + ahead) - len(running))
                ):
                    running.add(asyncio.create_task(self._done(task)))
                if not running:
                    return
                ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for one in ended:
                    yield one.result()
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _done(self, task: Task) -> Done:
        for lost in range(LOSSES_MAX):
            sent = await self._asked(task)
            if sent is None:
                continue
            done = Done(
                id=task.id, value=sent.value, error=sent.error, lost=lost, worker=sent.worker
            )
            if sent.parcel is None:
                return done
            try:
                folder = await self._fetched(task, sent, sent.parcel)
            except OSError:
                continue
            except HarnessError as error:
                return replace(done, error=done.error or error.message)
            return replace(done, folder=folder)
        return Done(id=task.id, error=f"{LOSSES_MAX} workers were lost with it", lost=LOSSES_MAX)

    async def _asked(self, task: Task) -> Sent | None:
        """A worker's answer, None where the worker was lost or is silent."""
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
        )
        try:
            answer: Sent = await asyncio.wait_for(future.result(), task.limit_s + _SILENCE_S)
        except (KilledWorker, TimeoutError):
            return None
        except FutureCancelledError as error:
            raise HarnessError(
                f"the scheduler of the workers is gone: {reason_of(error)}",
                remedy="start it, and go on with what is left",
            ) from error
        finally:
            future.release()
        return answer

    async def _fetched(self, task: Task, sent: Sent, parcel: Parcel) -> Path:
        """Its directory, here. Raises HarnessError where it is not what was sent or too large,
        OSError where the worker is lost."""
        from dstest.fan.desk import forget, part

        if parcel.bytes > self._limits.parcel_bytes:
            raise HarnessError(
                f"{task.id}: its directory takes {parcel.bytes} bytes on the way, more than "
                f"{self._limits.parcel_bytes}"
            )
        arriving = self._into / WORK / f"{task.id}.{self._given}.arriving"
        try:
            with arriving.open("wb") as file:
                while file.tell() < parcel.bytes:
                    some = await self._at(sent.worker, part, parcel.path, file.tell())
                    if not some:
                        raise HarnessError(f"{task.id}: its directory came in part")
                    file.write(some)
            target = self._into / task.id
            await asyncio.to_thread(unpack, arriving, parcel, target, self._limits)
        finally:
            arriving.unlink(missing_ok=True)
        await self._at(sent.worker, forget, sent.home)
        return target

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
