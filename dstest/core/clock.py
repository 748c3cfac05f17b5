"""The only reader of clocks.

All times inside a run are integer nanoseconds of CLOCK_MONOTONIC of the control host, counted
from the start of the run. One host's processes share that clock, so segments merge without
correction. Wall time appears in names and reports, never in an ordering.
"""

from __future__ import annotations

import datetime
import time

import msgspec

__all__ = ["RunClock", "monotonic_ns", "sleep_s", "utc_stamp", "wall_ns"]


def monotonic_ns() -> int:
    """CLOCK_MONOTONIC in nanoseconds."""
    return time.monotonic_ns()


def wall_ns() -> int:
    """CLOCK_REALTIME in nanoseconds; for people and for clock-offset facts only."""
    return time.time_ns()


def sleep_s(seconds: float) -> None:
    """Block this thread."""
    time.sleep(seconds)


def utc_stamp() -> str:
    """`20261121T215100Z`, for directory names."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")


class RunClock(msgspec.Struct, frozen=True):
    """Run time: `now_ns()` counts from `origin_ns`. Picklable, so that load workers share it."""

    origin_ns: int

    def now_ns(self) -> int:
        """Nanoseconds since the run started."""
        return time.monotonic_ns() - self.origin_ns

    async def until(self, time_ns: int) -> None:
        """Sleep until run time `time_ns`; at once where it has passed."""
        import asyncio  # dear, and not for those who only look at the clock

        left_ns = time_ns - self.now_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / 1e9)
