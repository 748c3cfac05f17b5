"""What time is it where a server runs? Read from what the server itself tells.

A clock that is told in coarse steps is asked for until it moves on: in that moment it stood at a
full step.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Final, NamedTuple

from dstest.core import clock
from dstest.core.protocols import Clocked, ServerTime

ASK_TIMEOUT_S: Final = 1.0
POLL_S: Final = 0.04
WATCH_S: Final = 1.6
DOUBT_MAX_S: Final = 0.15
TRIES: Final = 3
FINE_NS: Final = 100_000_000
"""A clock that counts in steps up to this is taken as it is told."""

STROBE_DOUBT_S: Final = 1.5
"""Of a time in whole seconds from an answer that took its time."""


class Skew(NamedTuple):
    """Seconds that a server's clock is ahead of ours, and how far off that may be."""

    seconds: float
    doubt_s: float


async def _ask(server: Clocked, name: str) -> ServerTime | None:
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            return await server.server_time(name)
    except TimeoutError:
        return None


async def _watch(server: Clocked, name: str) -> Skew | None:
    deadline_ns = clock.monotonic_ns() + int(WATCH_S * 1e9)
    last: ServerTime | None = None
    last_ns = 0
    while clock.monotonic_ns() < deadline_ns:
        asked_ns = clock.wall_ns()
        now = await _ask(server, name)
        answered_ns = clock.wall_ns()
        if now is not None and now.resolution_ns <= FINE_NS:
            middle_ns = (asked_ns + answered_ns) / 2 - now.resolution_ns / 2
            doubt_ns = (answered_ns - asked_ns + now.resolution_ns) / 2
            return Skew((now.wall_ns - middle_ns) / 1e9, doubt_ns / 1e9)
        if now is not None and last is not None and now.wall_ns == last.wall_ns + now.resolution_ns:
            middle_s = (last_ns + answered_ns) / 2e9
            return Skew(now.wall_ns / 1e9 - middle_s, (answered_ns - last_ns) / 2e9)
        last, last_ns = now, asked_ns
        await asyncio.sleep(POLL_S)
    return None


class Strobe(NamedTuple):
    """How often a clock was right, off as asked for and off otherwise; and how often it jumped."""

    right: int
    off: int
    other: int
    jumps: int


async def strobe_of(server: Clocked, name: str, offset_s: float) -> Strobe:
    """Ask for the time again and again: which of its two times does a strobing clock tell?"""
    deadline_ns = clock.monotonic_ns() + int(WATCH_S * 1e9)
    problems: list[str] = []
    while clock.monotonic_ns() < deadline_ns:
        now = await _ask(server, name)
        if now is not None:
            ahead_s = (now.wall_ns + now.resolution_ns / 2 - clock.wall_ns()) / 1e9
            right, off = abs(ahead_s) < STROBE_DOUBT_S, abs(ahead_s - offset_s) < STROBE_DOUBT_S
            problems.append("right" if right else "off" if off else "other")
        await asyncio.sleep(POLL_S)
    jumps = sum(a != b for a, b in itertools.pairwise(problems))
    return Strobe(problems.count("right"), problems.count("off"), problems.count("other"), jumps)


async def skew_of(server: Clocked, name: str) -> Skew | None:
    """The best of up to three measurements; None where the server tells no time."""
    best: Skew | None = None
    for _ in range(TRIES):
        found = await _watch(server, name)
        if found is not None and (best is None or found.doubt_s < best.doubt_s):
            best = found
        if best is not None and best.doubt_s <= DOUBT_MAX_S:
            break
    return best
