"""A timeout for one wait after the other, at the price of one timer for many of them.

`asyncio.timeout` sets a timer for each wait and takes it back, which for a fast database takes
longer than recording an operation does. Here the timer stays when a wait ends in time, and is set
for the wait that goes on when it rings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

__all__ = ["Deadline"]

T = TypeVar("T")


class Deadline:
    """Of whoever waits for one thing at a time, in one event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Any] | None = None
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._rang = False

    async def bound(self, wanted: Awaitable[T], timeout_s: float) -> T:
        """What is `wanted`. Raises TimeoutError where it is not there in time, RuntimeError where
        another wait is under way."""
        if self._task is not None:
            raise RuntimeError("one deadline is for one wait at a time")
        task = self._task = asyncio.current_task()
        assert task is not None
        self._set(timeout_s)
        try:
            return await wanted
        except asyncio.CancelledError:
            # Somebody else may have cancelled it as well: that goes on.
            if self._rang and task.cancelling() == 1:
                raise TimeoutError(f"no answer within {timeout_s:g} s") from None
            raise
        finally:
            self._task = None
            if self._rang:
                self._rang = False
                task.uncancel()

    def _set(self, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + timeout_s
        if self._timer is not None and self._timer.when() > self._due_s:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = loop.call_at(self._due_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._due_s:
            self._timer = loop.call_at(self._due_s, self._ring)
        else:
            self._rang = True
            self._task.cancel()
