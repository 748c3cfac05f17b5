"""`World`: hosts, their processes and disks, and what goes wrong with them, drawn from one seed.

A fault counts as landed where its victims show it, each of them. Of links that are cut: each that
was in use has held up messages, or what would have been answered on it was held up, and on none a
message has arrived. Of a process that is gone: somebody was refused a connection to its host, and
no message has come from there. Of one that stands: callbacks were due. After a power cut: files
lack what was not synced as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import math
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from dstest.core import rng
from dstest.core.errors import ConfigError
from dstest.core.near import meant
from dstest.sim.files import FileState, SimFiles, damaged, lost_of
from dstest.sim.log import Log
from dstest.sim.loop import DISK_S, VirtualLoop
from dstest.sim.network import Network, Weather
from dstest.sim.process import PROCESS, Process

DIRTY_S: Final = 5.0
"""A server has written something by then."""

LOOK_S: Final = 0.001

KEPT_MAX: Final = 300_000
"""Lines of one file of one host."""

FaultKind = Literal["partition", "kill", "pause", "power"]
KINDS: Final[tuple[FaultKind, ...]] = ("partition", "kill", "pause", "power")
NO_KIND: Final = "none"

IN_USE_NS: Final = 1_000_000_000
"""A link on which a message has arrived so short a time ago is in use."""

Link = tuple[str, str]


class Host:
    """A machine: a disk that outlives its process, and a generator of random numbers. `told` is
    what its administrator has left there for the next starts, besides the files of the server.
    `status` is how its server, where it set this, tells of itself without being asked over the
    network: looking at it changes nothing."""

    def __init__(self, name: str, files: SimFiles, numbers: random.Random) -> None:
        self.name = name
        self.files = files
        self.numbers = numbers
        self.process: Process | None = None
        self.starts = 0
        self.told: dict[str, str] = {}
        self.status: Callable[[], Mapping[str, Any]] | None = None

    @property
    def up(self) -> bool:
        """Does its process live?"""
        return self.process is not None and not self.process.dead


Main = Callable[["World", Host], Awaitable[None]]


class World:
    """`main` is what the process of a host runs. Times are seconds of the simulation."""

    def __init__(
        self, seed: int, hosts: Iterable[str], main: Main, weather: Weather | None = None
    ) -> None:
        self.seed = seed
        disk = rng.stream(seed, "sim", "disk latency")
        self.loop = VirtualLoop(lambda: disk.uniform(*DISK_S))
        self.log = Log(lambda: self.loop.time_ns)
        self.net = Network(self.loop, rng.stream(seed, "sim", "network"), self.log, weather)
        self.loop.net = self.net
        self.loop.exits = self._exited
        self._processes: list[Process] = []
        self._main = main
        self._kept: dict[tuple[str, str], list[str]] = {}
        self.unkept: Counter[tuple[str, str]] = Counter()
        self.hosts: Mapping[str, Host] = {
            name: Host(
                name,
                SimFiles(rng.stream(seed, "sim", "disk", name)),
                rng.stream(seed, "sim", "host", name),
            )
            for name in hosts
        }

    def keep(self, host: str, name: str, line: str) -> None:
        """A line for whoever reads the run, as a server writes it into a file beside its log: it is
        no part of the simulation. What is more than can be kept is counted in `unkept`."""
        if self.log.over:
            return
        lines = self._kept.setdefault((host, name), [])
        if len(lines) < KEPT_MAX:
            lines.append(line)
        else:
            self.unkept[host, name] += 1

    def kept(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Lines by host and name of the file."""
        return self._kept

    def stream(self, *name: str | int) -> random.Random:
        """A generator of its own."""
        return rng.stream(self.seed, "sim", *name)

    def start(self, name: str) -> None:
        """The process of a host, anew."""
        host = self.hosts[name]
        if host.up:
            return
        host.starts += 1
        host.status = None
        host.process = Process(f"{name}/{host.starts}", name)
        self._processes.append(host.process)
        self.log.say(f"{host.process.name} starts")
        context = contextvars.copy_context()
        context.run(PROCESS.set, host.process)
        self.loop.create_task(self._guarded(host, host.process), context=context)

    async def _guarded(self, host: Host, process: Process) -> None:
        try:
            await self._main(self, host)
        except asyncio.CancelledError:
            self._unplanned(process, "its main was cancelled")
        except Exception as error:
            self._unplanned(process, f"it ended with an error: {error!r}")
        else:
            self._unplanned(process, "its main returned")

    def _exited(self, process: Process, error: SystemExit) -> bool:
        """A process of a host ends itself, whichever task said so; the simulation goes on."""
        if process not in self._processes:
            return False
        self._unplanned(process, f"sys.exit({error.code!r})")
        return True

    def die(self, process: Process, why: str) -> None:
        """A process ends itself, which no fault had asked of it."""
        self._unplanned(process, f"it ended itself: {why}")

    def _unplanned(self, process: Process, how: str) -> None:
        if process.dead:
            return
        errors = [repr(error) for error in process.unseen() if not isinstance(error, SystemExit)]
        self.loop.fail(process, "; ".join([how, *errors]))
        self._end(process, how)

    def _end(self, process: Process, why: str) -> None:
        """Nothing of it runs any more; its connections end as the kernel ends them."""
        process.die()
        self.log.say(f"{process.name} is dead: {why}")
        self.net.died(process)

    def kill(self, name: str) -> None:
        """As by SIGKILL: what it has written stays."""
        process = self.hosts[name].process
        if process is not None and not process.dead:
            self._end(process, "killed")

    def stall(self, name: str) -> None:
        """Blocking calls of its process that sync a file do not return until its power goes."""
        self.log.say(f"{name} syncs nothing")
        self.hosts[name].files.stall(lambda: self.loop.blocking)

    async def until_dirty(self, names: Iterable[str]) -> None:
        """Their syncs wait until each of them has something that a power cut takes; until the time
        is up where one has nothing."""
        disks = [self.hosts[name].files for name in names]
        for name in names:
            self.stall(name)
        until_ns = self.loop.time_ns + int(DIRTY_S * 1e9)
        while self.loop.time_ns < until_ns and not all(one.unsynced_bytes for one in disks):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)

    def lose_power(self, name: str, least: int = 0) -> None:
        """What is not synced is lost, as `SimFiles.lose_power` has it."""
        self.kill(name)
        self.hosts[name].files.lose_power(least)

    def wipe(self, name: str) -> None:
        """A host whose server is gone has no files any more."""
        self.log.say(f"{name} is wiped")
        self.hosts[name].files.wipe()

    def written(self, name: str) -> dict[str, FileState]:
        """The files of a host as they are now."""
        return self.hosts[name].files.written()

    def lost_bytes(self, name: str, before: Mapping[str, FileState]) -> int:
        """What of its files was not synced then and is gone now, as they show it."""
        return lost_of(before, self.hosts[name].files)

    def damaged(self, name: str, before: Mapping[str, FileState]) -> list[str]:
        """Its files of which something is gone that was synced then."""
        return damaged(before, self.hosts[name].files)

    def pause(self, name: str) -> None:
        """As by SIGSTOP."""
        process = self.hosts[name].process
        if process is not None and not process.dead:
            process.paused = True
            self.log.say(f"{process.name} stands")

    def resume(self, name: str) -> None:
        """As by SIGCONT."""
        process = self.hosts[name].process
        if process is not None and process.paused:
            self.log.say(f"{process.name} goes on")
            self.loop.resume(process)

    def cut(self, links: Iterable[tuple[str, str]]) -> None:
        """These links let nothing through, each in its direction."""
        new = sorted(set(links) - self.net.cut)
        self.net.cut |= set(new)
        self.log.say(f"cut {new}")

    def mend(self, links: Iterable[tuple[str, str]]) -> None:
        """They do again."""
        back = sorted(set(links) & self.net.cut)
        self.log.say(f"mended {back}")
        self.net.mend(back)

    def standing(self, name: str) -> list[str]:
        """What of faults is still there at a host, a sentence each."""
        host = self.hosts[name]
        found = [f"link {a}->{b} is cut" for a, b in sorted(self.net.cut) if b == name]
        if not host.up:
            found.append("its server does not run")
        elif host.process is not None and host.process.paused:
            found.append("its server stands still")
        return found

    def beside(self, what: Awaitable[Any], host: str) -> asyncio.Task[Any]:
        """A task of a process that nothing happens to, on a host of its own."""
        process = Process(host, host)
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        return self.loop.create_task(_awaited(what), context=context)

    def run(self, what: Awaitable[Any], host: str = "outside") -> Any:
        """Run this until it is done, as a process that nothing happens to."""
        return self.loop.run_until_complete(self.beside(what, host))

    def close(self) -> None:
        """Nothing goes on. What tasks of servers have raised, and nobody has seen, is a failure."""
        for process in self._processes:
            for error in process.unseen():
                if not isinstance(error, SystemExit):
                    self.loop.fail(process, f"a task of it ended with {error!r}, which nobody saw")
            process.die()
        self.log.over = True
        self.loop.close()
        for process in self._processes:
            for task in process.tasks:
                begun = task.get_coro()
                if inspect.iscoroutine(begun):
                    _ended(begun)


def _ended(begun: Coroutine[Any, Any, Any]) -> None:
    """What stands in its middle at the end runs its `finally` now, where nobody hears of it any
    more: left to the collector of garbage, each would be complained of on the console."""
    # One that awaits again, or asks the loop for what a closed one refuses, ends by that.
    with contextlib.suppress(Exception, GeneratorExit, asyncio.CancelledError, SystemExit):
        begun.close()


async def _awaited(what: Awaitable[Any]) -> Any:
    return await what


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


class FaultResult(msgspec.Struct, frozen=True, kw_only=True):
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


def plan_faults(
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


async def strike(world: World, fault: Fault) -> FaultResult:
    """Inject, wait, heal."""
    from_ns = world.loop.time_ns
    world.log.say(f"fault {fault.kind} {fault.hosts} {fault.direction}")
    landed = await _ways(world, fault)
    world.log.say(f"healed {fault.kind} {fault.hosts}: {landed}")
    return FaultResult(fault=fault, from_ns=from_ns, until_ns=world.loop.time_ns, landed=landed)


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
