"""What time is it where a server runs? Read from the `Date` header of its answers.

The header counts whole seconds, so it is asked for until it moves on: in that moment the server's
clock stood at a full second.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

from dstest.core import clock

__all__ = ["Skew", "Strobe", "skew_of", "strobe_of"]

ASK_TIMEOUT_S: Final = 1.0
POLL_S: Final = 0.04
WATCH_S: Final = 1.6
DOUBT_MAX_S: Final = 0.15
TRIES: Final = 3
STROBE_DOUBT_S: Final = 1.5
"""Of a time in whole seconds from an answer that took its time."""


class Skew(NamedTuple):
    """Seconds that a server's clock is ahead of ours, and how far off that may be."""

    seconds: float
    doubt_s: float


async def _date(address: str, port: int, request: str) -> int | None:
    """The server's time in whole seconds, None where it gives none."""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(request.encode())
                while line := await reader.readline():
                    key, _, value = line.decode("latin-1").partition(":")
                    if key.lower() == "date":
                        return int(parsedate_to_datetime(value.strip()).timestamp())
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, ValueError):
        return None
    return None


async def _watch(address: str, port: int, request: str) -> Skew | None:
    deadline_ns = clock.monotonic_ns() + int(WATCH_S * 1e9)
    last: int | None = None
    last_ns = 0
    while clock.monotonic_ns() < deadline_ns:
        asked_ns = clock.wall_ns()
        now = await _date(address, port, request)
        answered_ns = clock.wall_ns()
        if now is not None and last is not None and now == last + 1:
            middle_s = (last_ns + answered_ns) / 2e9
            return Skew(now - middle_s, (answered_ns - last_ns) / 2e9)
        last, last_ns = now, asked_ns
        await asyncio.sleep(POLL_S)
    return None


class Strobe(NamedTuple):
    """How often a clock was right, off as asked for and off otherwise; and how often it jumped."""

    right: int
    off: int
    other: int
    jumps: int


async def strobe_of(address: str, port: int, request: str, offset_s: float) -> Strobe:
    """Ask for the time again and again: which of its two times does a strobing clock tell?"""
    deadline_ns = clock.monotonic_ns() + int(WATCH_S * 1e9)
    told: list[str] = []
    while clock.monotonic_ns() < deadline_ns:
        now = await _date(address, port, request)
        ahead_s = None if now is None else now + 0.5 - clock.wall_ns() / 1e9
        if ahead_s is not None:
            right, off = abs(ahead_s) < STROBE_DOUBT_S, abs(ahead_s - offset_s) < STROBE_DOUBT_S
            told.append("right" if right else "off" if off else "other")
        await asyncio.sleep(POLL_S)
    jumps = sum(a != b for a, b in itertools.pairwise(told))
    return Strobe(told.count("right"), told.count("off"), told.count("other"), jumps)


async def skew_of(address: str, port: int, request: str) -> Skew | None:
    """The best of up to three measurements; None where the server tells no time."""
    best: Skew | None = None
    for _ in range(TRIES):
        found = await _watch(address, port, request)
        if found is not None and (best is None or found.doubt_s < best.doubt_s):
            best = found
        if best is not None and best.doubt_s <= DOUBT_MAX_S:
            break
    return best
