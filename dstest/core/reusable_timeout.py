"""A timeout for one wait after the other, at the price of one timer for many of them.

`asyncio.timeout` sets a timer for each wait and takes it back, which for a fast database takes
longer than recording an operation does. Here the timer stays when a wait ends in time, and is set
for the wait that goes on when it expires.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class ReusableTimeout:
    """For one wait at a time; another one beside it, or inside it, has a timer of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._expired = False

    async def wait_for(self, wanted: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """What a coroutine returns. Raises TimeoutError where that takes longer."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if self._loop is not loop:
            # Of another loop that has ended, perhaps in the middle of a wait.
            self._loop, self._task, self._timer, self._expired = loop, None, None, False
        if self._task is not None or task is None:
            async with asyncio.timeout(timeout_s):
                return await wanted
        cancelling = task.cancelling()
        self._set(loop, timeout_s)
        self._task = task
        try:
            return await wanted
        except asyncio.CancelledError:
            # Somebody else may have cancelled it as well: that goes on.
            if self._expired and task.cancelling() == cancelling + 1:
                raise TimeoutError(f"not done within {timeout_s:g} s") from None
            raise
        finally:
            self._task = None
            if self._expired:
                self._expired = False
                task.uncancel()

    def _set(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._due_s = loop.time() + timeout_s
        if self._timer is not None and self._timer.when() > self._due_s:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._due_s, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._task is None:
            return
        if loop.time() < self._due_s:
            self._timer = loop.call_at(self._due_s, self._expire, loop)
        else:
            self._expired = True
            self._task.cancel()
