"""`VirtualLoop`: an event loop on a clock that jumps from one event to the next.

A callback belongs to the process (`Process`) in whose context it was scheduled. Of one that is dead
nothing runs any more; of one that is paused what was due waits, and runs in its order afterwards.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import contextvars
import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from dstest.core.errors import HarnessError
from dstest.sim.files import Stalled
from dstest.sim.process import PROCESS, Process

DISK_S = (0.0002, 0.004)
"""A blocking call on a thread takes so long: mostly a write that is synced."""

_MANY = 100
_MOST = 0.5
_WAIT_S_MAX = 24 * 3600
"""As asyncio has them: when cancelled timers are forgotten, and how long it waits at once."""

STILL = 1_000_000
"""Rounds in which something ran and no time passed."""


class Over(HarnessError):
    """Nothing is left to happen, or the clock stands still."""


def _task_of(loop: Any, coro: Any, context: Any = None) -> asyncio.Task[Any]:
    """A task, which its process knows."""
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
    process = (contextvars.copy_context() if context is None else context).get(PROCESS)
    if process is not None:
        process.tasks.add(task)
        task.add_done_callback(process.forget, context=context)
    return task


class _When(float):
    """A timer's time: floats are compared in C, where its handle would be asked in Python. Equal
    times compare as those of handles do, so that timers keep the order that asyncio gives them."""

    __slots__ = ("handle",)
    handle: Any


class _Handle(asyncio.Handle):
    """A callback, and the process that it belongs to. What asyncio sets of it, without asking about
    debugging: there are thousands in each simulated second."""

    __slots__ = ("process",)
    _cancelled: bool

    def __init__(self, callback: Any, args: Any, loop: Any, context: Any) -> None:
        self._callback, self._args, self._loop, self._context = callback, args, loop, context
        self._cancelled = False
        self._repr = self._source_traceback = None
        self.process: Process | None = context.get(PROCESS)


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("process",)
    _cancelled: bool

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: Any) -> None:
        self._when = when
        self._callback, self._args, self._loop, self._context = callback, args, loop, context
        self._cancelled = False
        self._scheduled = True
        self._repr = self._source_traceback = None
        self.process: Process | None = context.get(PROCESS)


class VirtualLoop(asyncio.base_events.BaseEventLoop):
    """`net` is the network that connections are made in, set by whoever makes the loop. `exits` is
    told which process called sys.exit, and whether that was its business alone. `blocking`: what
    runs now is a blocking call on a thread. Once `interrupted` it raises KeyboardInterrupt between
    two turns, where no callback is lost by it. `moved` is called when the clock has gone on, for
    those who look and change nothing: a timer of theirs would round the times of all others."""

    _ready: deque[Any]
    _scheduled: list[_When]
    _stopping: bool
    _timer_cancelled_count: int

    def __init__(self, latency_s: Callable[[], float]) -> None:
        super().__init__()
        self.time_ns = 0
        self.net: Any = None
        self._latency_s = latency_s
        self._rounds = 0
        self._clock_resolution = 1e-9
        self.set_task_factory(_task_of)
        self.set_exception_handler(self._unhandled)
        self.failures: list[str] = []
        self.blocking = False
        self.interrupted = False
        self.moved: Callable[[], None] = lambda: None
        self.exits: Callable[[Process, SystemExit], bool] = lambda process, error: False

    def fail(self, process: Process | None, what: str) -> None:
        """Something that nobody planned has happened in this process."""
        name = process.name if process is not None else "somebody"
        self.failures.append(f"{name} at {self.time_ns / 1e9:.3f} s: {what}")

    def _unhandled(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self.fail(PROCESS.get(), f"{error!r} is unhandled")

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self.time_ns / 1e9

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """As any loop does, for the process in whose context it is."""
        context = contextvars.copy_context() if context is None else context  # one may be empty
        if self.is_closed():  # what is closed in its middle, at the very end
            return asyncio.Handle(callback, args, self, context)
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """As any loop does, for the process in whose context it is."""
        context = contextvars.copy_context() if context is None else context  # one may be empty
        if self.is_closed():
            return asyncio.TimerHandle(when, callback, args, self, context)
        timer = _When(when)
        handle = timer.handle = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        return handle

    def _run_once(self) -> None:
        """As asyncio's, in the same order; nothing but the clock is waited for."""
        self._forget_cancelled()
        if self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt
        timers, ready = self._scheduled, self._ready
        if ready or self._stopping:
            self._turn_round()
        elif timers:
            self._wait_for(timers[0])
        else:
            raise Over(
                "nothing is left to happen in the simulation: all wait for one another",
                remedy="a wait without a limit is in the server or the client",
            )
        end_s = self.time_ns / 1e9 + self._clock_resolution
        while timers and timers[0] < end_s:
            handle = heapq.heappop(timers).handle
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            process: Process | None = handle.process
            if handle._cancelled or (process is not None and process.dead):
                continue
            if process is not None and process.paused:
                process.held.append((handle._callback, handle._args, handle._context))
                continue
            try:
                handle._run()
            except SystemExit as error:
                if process is None or not handle._context.run(self.exits, process, error):
                    raise

    def _wait_for(self, when_s: float) -> None:
        """The clock goes on to this time, or by `_WAIT_S_MAX`."""
        wait_s = min(when_s - self.time_ns / 1e9, _WAIT_S_MAX)
        if wait_s <= 0:
            self._turn_round()
            return
        self._rounds = 0
        self.time_ns += math.ceil(wait_s * 1e9)
        self.moved()

    def _turn_round(self) -> None:
        """No time passes."""
        self._rounds += 1
        if self._rounds > STILL:
            raise Over(
                f"the simulated clock stands still at {self.time_ns / 1e9:.3f} s",
                remedy="something in the server asks again and again without a sleep",
            )

    def _forget_cancelled(self) -> None:
        """Those at the head; all of them, where they are most of many."""
        timers = self._scheduled
        if len(timers) > _MANY and self._timer_cancelled_count / len(timers) > _MOST:
            for timer in timers:
                timer.handle._scheduled = not timer.handle._cancelled
            self._scheduled = [timer for timer in timers if not timer.handle._cancelled]
            heapq.heapify(self._scheduled)
            self._timer_cancelled_count = 0
            return
        while timers and timers[0].handle._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers).handle._scheduled = False

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        """There are no threads."""
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, function: Any, *args: Any
    ) -> Any:
        """Runs it at once, some time from now: a blocking call holds up nobody else."""
        done = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            self.blocking = True
            try:
                done.set_result(function(*args))
            except Stalled:
                return
            except Exception as error:
                done.set_exception(error)
            finally:
                self.blocking = False

        self.call_later(self._latency_s(), run)
        return done

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """In the simulated network."""
        return await self.net.connect(protocol_factory, host, port)

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """In the simulated network."""
        return self.net.listen(protocol_factory, host, port)

    async def create_datagram_endpoint(  # type: ignore[override]
        self, protocol_factory: Any, local_addr: Any = None, **_: Any
    ) -> Any:
        """In the simulated network."""
        return self.net.datagrams(protocol_factory, local_addr)

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Any, *args: Any
    ) -> None:
        """No signal comes: a process ends by a fault, or by itself."""

    def resume(self, process: Process) -> None:
        """What was due meanwhile runs now."""
        process.paused = False
        held, process.held = process.held, []
        for callback, args, context in held:
            self.call_soon(callback, *args, context=context)
