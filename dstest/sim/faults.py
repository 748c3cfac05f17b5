"""What goes wrong in a simulation, drawn from its seed, and the proof that it did.

A fault counts as landed where its victims show it, each of them. Of links that are cut: each that
was in use has held up messages, or what would have been answered on it was held up, and on none a
message has arrived. Of a process that is gone: somebody was refused a connection to its host, and
no message has come from there. Of one that stands: callbacks were due. After a power cut: files
lack what was not synced as well.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.sim.world import World

FaultKind = Literal["partition", "kill", "pause", "power"]
KINDS: Final[tuple[FaultKind, ...]] = ("partition", "kill", "pause", "power")
NO_KIND: Final = "none"

IN_USE_NS: Final = 1_000_000_000
"""A link on which a message has arrived so short a time ago is in use."""

Link = tuple[str, str]


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it. Seconds of the simulation, each drawn between the two."""

    kinds: tuple[FaultKind, ...] = ("partition", "kill", "pause")
    first_s: tuple[float, float] = (1.0, 3.0)
    stands_s: tuple[float, float] = (1.0, 6.0)
    quiet_s: tuple[float, float] = (0.5, 4.0)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One, as it is planned: `hosts` are the victims; of a partition, one side of it, which is cut
    off in both directions, `out` or `in`."""

    kind: FaultKind
    at_s: float
    stands_s: float
    hosts: tuple[str, ...]
    direction: str = "both"


class Struck(msgspec.Struct, frozen=True, kw_only=True):
    """`landed` is what the victims showed; nothing where the fault did not land."""

    fault: Fault
    from_ns: int
    until_ns: int
    landed: str | None


def kinds_of(given: str) -> tuple[FaultKind, ...]:
    """`partition,kill`, or `none`. Raises ConfigError for a kind that is none of them."""
    if given == NO_KIND:
        return ()
    wanted = [one.strip() for one in given.split(",")]
    for one in wanted:
        if one not in KINDS:
            raise ConfigError(f"no simulated fault {one!r}", remedy=meant(one, [*KINDS, NO_KIND]))
    return tuple(kind for kind in KINDS if kind in wanted)


def planned(
    profile: Profile, hosts: Sequence[str], time_s: float, numbers: random.Random
) -> list[Fault]:
    """One after the other, until the time is over."""
    found, at = [], numbers.uniform(*profile.first_s)
    while profile.kinds and at < time_s:
        kind = numbers.choice(profile.kinds)
        stands = min(numbers.uniform(*profile.stands_s), max(time_s - at, 0.1))
        count = numbers.choice((1, 1, len(hosts) // 2, len(hosts) // 2 + 1, len(hosts)))
        if kind in ("partition", "pause"):
            count = min(count, len(hosts) - 1)
        victims = tuple(sorted(numbers.sample(list(hosts), max(1, count))))
        direction = numbers.choice(("both", "both", "in", "out")) if kind == "partition" else "both"
        found.append(Fault(kind=kind, at_s=at, stands_s=stands, hosts=victims, direction=direction))
        at += stands + numbers.uniform(*profile.quiet_s)
    return found


async def strike(world: World, fault: Fault) -> Struck:
    """Inject, wait, heal."""
    from_ns = world.loop.time_ns
    world.log.say(f"fault {fault.kind} {fault.hosts} {fault.direction}")
    landed = await _ways(world, fault)
    world.log.say(f"healed {fault.kind} {fault.hosts}: {landed}")
    return Struck(fault=fault, from_ns=from_ns, until_ns=world.loop.time_ns, landed=landed)


async def _ways(world: World, fault: Fault) -> str | None:
    match fault.kind:
        case "partition":
            return await _partition(world, fault)
        case "pause":
            return await _pause(world, fault)
        case "power":
            return await _power(world, fault)
        case "kill":
            return await _kill(world, fault)


async def _partition(world: World, fault: Fault) -> str | None:
    others = [name for name in world.hosts if name not in fault.hosts]
    links = [(a, b) for a in fault.hosts for b in others if fault.direction in ("both", "out")]
    links += [(b, a) for a in fault.hosts for b in others if fault.direction in ("both", "in")]
    from_ns, before = world.loop.time_ns, dict(world.net.dropped)
    used = [link for link in links if _arrived_ns(world, link) > from_ns - IN_USE_NS]
    world.cut(links)
    await asyncio.sleep(fault.stands_s)
    held = {link: world.net.dropped.get(link, 0) - before.get(link, 0) for link in links}
    passed = [link for link in links if _arrived_ns(world, link) > from_ns]
    world.mend(links)
    if passed or not used or not all(_silenced(link, held) for link in used):
        return None
    return f"{sum(held.values())} messages held up on {len(links)} links"


def _arrived_ns(world: World, link: Link) -> float:
    return world.net.arrived_ns.get(link, -math.inf)


def _silenced(link: Link, held: Mapping[Link, int]) -> bool:
    """Was something held up on it, or on the way back, what it would have been answered with?"""
    return bool(held[link] or held.get((link[1], link[0])))


async def _pause(world: World, fault: Fault) -> str | None:
    struck = [world.hosts[name].process for name in fault.hosts]
    for name in fault.hosts:
        world.pause(name)
    await asyncio.sleep(fault.stands_s)
    held = [len(one.held) if one is not None and one.paused else 0 for one in struck]
    for name in fault.hosts:
        world.resume(name)
    return f"{sum(held)} callbacks were due" if all(held) else None


async def _kill(world: World, fault: Fault) -> str | None:
    alive = _Alive(world, fault)
    for name in fault.hosts:
        world.kill(name)
    await asyncio.sleep(fault.stands_s)
    return _restarted(world, fault, alive)


async def _power(world: World, fault: Fault) -> str | None:
    """As a run does it: where syncs return, a server that syncs has nothing to lose most times."""
    await world.until_dirty(fault.hosts)
    alive = _Alive(world, fault)
    before = {name: world.written(name) for name in fault.hosts}
    for name in fault.hosts:
        world.lose_power(name, least=1)
    await asyncio.sleep(fault.stands_s)
    lost = {name: world.lost_bytes(name, before[name]) for name in fault.hosts}
    gone = _restarted(world, fault, alive)
    if gone is None or not all(lost.values()):
        return None
    told = ", ".join(f"{name} lost {count}" for name, count in lost.items())
    return f"{told} bytes not synced, {gone}"


class _Alive:
    """Those that run when a fault strikes, and what others show of them afterwards."""

    def __init__(self, world: World, fault: Fault) -> None:
        self._net = world.net
        self.names = [name for name in fault.hosts if world.hosts[name].up]
        self._refused = {name: world.net.refused[name] for name in self.names}
        self._from_ns = world.loop.time_ns

    def shown_gone(self, name: str) -> bool:
        """Has somebody been refused there, and heard nothing that was sent since?"""
        last_ns = self._from_ns + self._net.under_way_s * 1e9
        sent = [at for (source, _), at in self._net.arrived_ns.items() if source == name]
        silent = max(sent, default=-math.inf) <= last_ns
        return silent and self._net.refused[name] > self._refused[name]


def _restarted(world: World, fault: Fault, alive: _Alive) -> str | None:
    """They run again. Has each shown to be gone that had been alive?"""
    gone = bool(alive.names) and all(alive.shown_gone(name) for name in alive.names)
    for name in fault.hosts:
        world.start(name)
    return f"{len(alive.names)} processes are gone" if gone else None
