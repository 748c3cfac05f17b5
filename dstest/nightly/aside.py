"""Judging in a process of its own, whose main thread it has for itself, while the night goes on."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from dstest.core.parent import end_with_parent

T = TypeVar("T")


def _ends_with_us() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Aside:
    """One process that works through calls."""

    def __init__(self) -> None:
        self._pool = self._new()

    @staticmethod
    def _new() -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(1, mp_context=context, initializer=_ends_with_us)

    async def call(self, function: Callable[..., T], *args: object) -> T | None:
        """What a function answers there; None where the process died of it."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        except BrokenProcessPool:
            self._pool.shutdown(wait=False)
            self._pool = self._new()
            return None

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def aside() -> Iterator[Aside]:
    """A process until the end of the block."""
    made = Aside()
    try:
        yield made
    finally:
        made.close()
