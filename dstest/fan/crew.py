"""The workers of a fan: which there are, and which of them has a place for a task."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from dstest.core.errors import HarnessError, reason_of

_LOOK_S: Final = 0.5
_NONE_S: Final = 300.0
"""So long nothing is done where there is no worker: nannies start new ones."""

_END_S: Final = 60.0


class NotBegunError(Exception):
    """The worker was gone before it began with a task, which it did not cost."""


class Crew:
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
                await asyncio.sleep(_LOOK_S)
        self._tasks[worker] += 1
        try:
            yield worker
        finally:
            self._tasks[worker] -= 1

    async def _someone(self) -> None:
        await self.look()
        while not self.count:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    def _free(self, ahead: int) -> str | None:
        able = [one for one in self._there - self._gone if self._tasks[one] <= ahead]
        return min(able, key=lambda one: (self._tasks[one], one), default=None)
