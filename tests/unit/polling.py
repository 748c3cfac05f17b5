"""Bounded waits for what another process or task does."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

__all__ = ["until", "wait_for"]

STEP_S = 0.01


def wait_for(predicate: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"still not so after {timeout_s} s"
        time.sleep(STEP_S)


async def until(
    predicate: Callable[[], object | Awaitable[object]], timeout_s: float = 60.0
) -> None:
    """The same in a task; what `predicate` returns may be awaited."""
    deadline = time.monotonic() + timeout_s
    while True:
        seen = predicate()
        if await seen if inspect.isawaitable(seen) else seen:
            return
        assert time.monotonic() < deadline, f"still not so after {timeout_s} s"
        await asyncio.sleep(STEP_S)
