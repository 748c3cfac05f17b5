"""The load of a simulation: one worker, which is the one of any run, in the loop that simulates.

Its clients are those of the system on simulated connections, its clock is that of the simulation,
and its taps listen within the simulated network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

import msgspec

from dstest.core.clock import RunClock
from dstest.core.errors import HarnessError
from dstest.core.protocols import Client, Endpoint, System
from dstest.runner.board import FINISHING, LOADING, STOPPING
from dstest.runner.load import Load
from dstest.runner.plugins import Plugins
from dstest.runner.tap import Tap
from dstest.runner.worker import Worker
from dstest.runner.worker_config import WorkerConfig
from dstest.sim.load import client_of
from dstest.store.layout import RunDir, disk_full

_SLACK_S: Final = 4.0


class SimulatedClock(RunClock, frozen=True):
    """Run time in a simulation; `loop` is its `VirtualLoop`."""

    loop: Any = None

    def now_ns(self) -> int:
        now: int = self.loop.time_ns
        return now - self.origin_ns


class _Tap(Tap):
    def address_of(self, number: int) -> str:
        return f"tap{number}"


class _Worker(Worker):
    """In the process of the run."""

    def __init__(self, config: WorkerConfig) -> None:
        numbers = count()

        def make(
            system: System,
            capability: str,
            at: Endpoint,
            every: Sequence[Endpoint],
            options: Mapping[str, Any],
        ) -> Client:
            return client_of(system, capability, at, every, options, f"c{next(numbers)}")

        super().__init__(config, make, _Tap)

    def begin(self, clock: RunClock) -> None:
        """Times count from here."""
        self._clock = clock

    def end(self) -> None:
        super().end()
        self._board.close()


class SimulatedLoad(Load):
    """As `Load`, for who watches it."""

    def __init__(
        self,
        plugins: Plugins,
        endpoints: Sequence[Endpoint],
        run: RunDir,
        loop: Any,
    ) -> None:
        super().__init__(plugins, endpoints, run)
        self._loop = loop
        config = msgspec.structs.replace(self._config(0), parent_pid=0)
        self._worker = _Worker(config)
        self._clients: list[Client] = []
        self._task: asyncio.Task[None] | None = None

    def _fitting(self, wanted: int, concurrency: int, endpoints: int) -> int:
        return 1

    async def start(self) -> None:
        self._clients = await self._worker.open_clients()

    def begin(self) -> RunClock:
        clock = SimulatedClock(self._loop.time_ns, self._loop)
        self._worker.begin(clock)
        self.board.origin_ns = clock.origin_ns
        self.board.state = LOADING
        self._task = asyncio.ensure_future(self._worker.load(self._clients))
        return clock

    def check(self, now_ns: int | None = None) -> None:
        """Raise where the worker could not record, or has ended: nobody has told it to."""
        self._check_disk()
        if self._task is None or not self._task.done():
            return
        error = None if self._task.cancelled() else self._task.exception()
        if isinstance(error, OSError):
            raise disk_full(self._run.path, error)
        why = "nobody had told it to" if error is None else f"{type(error).__name__}: {error}"
        raise HarnessError(f"the load ended early: {why}")

    async def finish(self, run_clock: RunClock, say: Callable[[str], None]) -> None:
        self.board.state = FINISHING
        await self._over(self._final_s)

    async def stop(self) -> None:
        if self.board.state != FINISHING:
            self.board.state = STOPPING
        await self._over(0.0)
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._worker.end()

    async def _over(self, more_s: float) -> None:
        timeout_s = 2 * float(self._plugins.spec.options["op_timeout_s"]) + more_s + _SLACK_S
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=timeout_s)

    def exits(self) -> list[int | None]:
        task = self._task
        if task is None or not task.done():
            return [None]
        return [1 if task.cancelled() or task.exception() is not None else 0]
