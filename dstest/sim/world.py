"""`World`: hosts, their processes and disks, and what goes wrong with them, from one seed."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from dstest.core import rng
from dstest.sim.files import SimFiles
from dstest.sim.log import Log
from dstest.sim.loop import DISK_S, VirtualLoop
from dstest.sim.network import Network, Weather
from dstest.sim.process import PROCESS, Process
from dstest.sim.written import Written, damaged, lost_of

DIRTY_S: Final = 5.0
"""A server has written something by then."""

LOOK_S: Final = 0.001

KEPT_MAX: Final = 300_000
"""Lines of one file of one host."""


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

    def written(self, name: str) -> dict[str, Written]:
        """The files of a host as they are now."""
        return self.hosts[name].files.written()

    def lost_bytes(self, name: str, before: Mapping[str, Written]) -> int:
        """What of its files was not synced then and is gone now, as they show it."""
        return lost_of(before, self.hosts[name].files)

    def damaged(self, name: str, before: Mapping[str, Written]) -> list[str]:
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
