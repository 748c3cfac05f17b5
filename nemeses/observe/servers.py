"""What servers show and tell of themselves: whether they answer their probes, who serves, leads and
talks to whom, how far members have come in the logs that they share, what time it is for them.

A probe is asked from the control host and from another node. A request goes over a connection of
its own, and the answer has to begin as the probe says. A process that was killed refuses, one that
was stopped accepts (its kernel does) and stays silent.

A clock that is told in coarse steps is asked for until it moves on: in that moment it stood at a
full step.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from dstest.core import clock
from dstest.core.answers import check_health, check_leaders, check_links
from dstest.core.errors import LabError
from dstest.core.node import Node
from dstest.core.protocols import (
    Clocked,
    Leadership,
    LeaderView,
    Linked,
    NemesisContext,
    Probe,
    ServerTime,
    Service,
)

CONTROL: Final = "control"
ASK_TIMEOUT_S: Final = 1.0
ASK_TRIES: Final = 3
"""A busy machine may be late once; a server that must be alive is asked this often."""

ProbePair = tuple[str, str]
"""(who asks, the target)."""


def services_of(ctx: NemesisContext, name: str, service: str = "") -> list[Service]:
    """The services of a member; the one of that name, where one is given."""
    found = list(ctx.deployment.members[name].services)
    return [s for s in found if s.name == service] if service else found


async def ask_from_control(address: str, probe: Probe) -> bool:
    """Did it answer within a second?"""
    try:
        async with asyncio.timeout(ASK_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, probe.port)
            try:
                writer.write(probe.send)
                answer = await reader.readexactly(max(1, len(probe.expect)))
                return answer.startswith(probe.expect)
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, EOFError):
        return False


async def ask_from_node(node: Node, address: str, probe: Probe) -> bool:
    """Did it answer `node` within a second?"""
    try:
        return bool(
            await node.call(
                "probe_ask",
                address=address,
                port=probe.port,
                send=base64.b64encode(probe.send).decode(),
                expect=base64.b64encode(probe.expect).decode(),
            )
        )
    except LabError:
        return False


def probe_pairs(names: Sequence[str], targets: Sequence[str]) -> list[ProbePair]:
    """Who asks whom: the control host everybody, and one other node each target.

    A node that is no target asks where there is one; a target's own shell works as well.
    """
    found = [(CONTROL, name) for name in names]
    for target in targets:
        others = [n for n in names if n != target]
        free = [n for n in others if n not in targets]
        found += [(asker, target) for asker in (free or others)[:1]]
    return found


async def ask_all(
    ctx: NemesisContext,
    pairs: Sequence[ProbePair],
    *,
    service: str = "",
    retry_for: Sequence[str] = (),
) -> dict[str, int]:
    """`asker->target` -> how many of the target's services answered.

    Names in `retry_for` are asked up to three times, until all of their services have answered.
    """

    async def one(asker: str, target: str, probe: Probe) -> bool:
        address = ctx.node(target).info.address
        for _ in range(ASK_TRIES if target in retry_for else 1):
            if asker == CONTROL:
                answered = await ask_from_control(address, probe)
            else:
                answered = await ask_from_node(ctx.node(asker), address, probe)
            if answered:
                return True
        return False

    async def ask(pair: ProbePair) -> int:
        probes = [s.probe for s in services_of(ctx, pair[1], service)]
        return sum(await asyncio.gather(*(one(*pair, probe) for probe in probes)))

    answers = await asyncio.gather(*map(ask, pairs))
    return {f"{a}->{b}": n for (a, b), n in zip(pairs, answers, strict=True)}


async def health_of(ctx: NemesisContext) -> dict[str, bool]:
    """Which members do what their role promises."""
    return check_health(ctx.deployment, await ctx.deployment.healthy())


async def leaders_of(ctx: NemesisContext, led: Leadership) -> list[LeaderView]:
    """The views of all members that answer."""
    return check_leaders(ctx.deployment, await led.leaders())


def links_of(ctx: NemesisContext, linked: Linked) -> list[tuple[str, str]] | None:
    """The paths on which members talk by themselves, None for all."""
    return check_links(ctx.deployment, linked.links())


SILENT: Final = 1 << 60
"""How far behind a member is that does not say where it is."""

Progress = Mapping[str, Mapping[str, int] | None]
"""Of each member its position by group, as `Replication.progress` tells."""


def lags(at: Progress) -> dict[str, int]:
    """How far each member is behind the furthest of its group; of several groups, the most."""
    furthest: dict[str, int] = {}
    for row in at.values():
        for group, position in (row or {}).items():
            furthest[group] = max(furthest.get(group, position), position)
    return {
        name: max(furthest[group] - position for group, position in row.items()) if row else SILENT
        for name, row in at.items()
    }


def only_log(at: Progress) -> dict[str, int | None]:
    """The position of each member that is in one group alone; None where it is in several."""
    return {name: next(iter(row.values())) if row and len(row) == 1 else None
            for name, row in at.items()}  # fmt: skip


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


async def skews_of(ctx: NemesisContext, names: Sequence[str]) -> dict[str, Skew | None]:
    """By node; None where the server tells no time."""
    found = await asyncio.gather(*(skew_of(ctx.need(Clocked), n) for n in names))
    return dict(zip(names, found, strict=True))
