"""The two processes of a chaos run: `python -m dstest.chaos.child proxies|load`.

The first line of standard input is the `Start`; each line after it is a command, answered by a line
on standard output. The end of the input ends the process.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from dstest.chaos.http1 import Upstream, upstream_of
from dstest.chaos.load import OpenLoop
from dstest.chaos.proxy import Proxy
from dstest.chaos.records import ENTRIES, PASSED, Faults, LineWriter, stdin_lines
from dstest.chaos.settings import ProxyAt, Settings, listening
from dstest.core.clock import monotonic_ns
from dstest.core.errors import Exit
from dstest.core.processes import end_with_parent


class Start(msgspec.Struct, frozen=True, kw_only=True):
    settings: Settings
    directory: str
    front: Upstream | None = None
    """Where the load goes, where a proxy is in front of the target."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Of the proxies: from now on faults of this phase, so often. `share` None takes each proxy's
    own profile, 0 lets all through."""

    phase: str
    share: float | None


def _say(told: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
    sys.stdout.buffer.flush()


async def _proxies(start: Start, reader: asyncio.StreamReader) -> None:
    log = LineWriter(Path(start.directory) / PASSED)
    flushing = asyncio.ensure_future(log.keep_flushing())
    running: list[tuple[ProxyAt, Proxy]] = []
    ports = {}
    for one in start.settings.proxy:
        proxy = Proxy(one.name, upstream_of(one.upstream), one.routes, log.add)
        host, port, _ = listening(one)
        try:
            ports[one.name] = await proxy.start(host, port)
        except OSError as error:
            _say({"refused": f"{one.name}: cannot listen at {one.listen}: {error.strerror}"})
            return
        running.append((one, proxy))
    _say({"ports": ports})
    while line := await reader.readline():
        command = msgspec.json.decode(line, type=Command)
        for one, proxy in running:
            proxy.faults = _faults(one, command, start.settings.seed)
        _say({"at_ns": monotonic_ns()})
        if flushing.done():
            flushing.result()
    for _, proxy in running:
        await proxy.stop()
    flushing.cancel()
    log.close()
    _say({"ended": True})


def _faults(one: ProxyAt, command: Command, seed: int) -> Faults | None:
    profile = one.faults
    if command.share == 0 or not profile.share:
        return None
    if command.share is not None:
        profile = profile.scaled(command.share)
    return Faults(profile, seed, f"{one.name}/{command.phase}")


async def _load(start: Start, reader: asyncio.StreamReader) -> None:
    log = LineWriter(Path(start.directory) / ENTRIES)
    flushing = asyncio.ensure_future(log.keep_flushing())
    settings = start.settings
    upstream = start.front or upstream_of(settings.target)
    loop = OpenLoop(upstream, settings.endpoint, settings.load, log.add)
    stop = asyncio.Event()
    running = asyncio.ensure_future(loop.run(stop))
    _say({"at_ns": monotonic_ns()})
    await reader.readline()
    stop.set()
    await running
    flushing.cancel()
    log.close()
    _say({"ended": True})


_WORK: Final = {"proxies": _proxies, "load": _load}


def _die(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An error of ours must not look like one of the service."""
    loop.default_exception_handler(context)
    sys.stderr.flush()
    os._exit(Exit.HARNESS)


async def _main(work: str) -> None:
    asyncio.get_running_loop().set_exception_handler(_die)
    reader = await stdin_lines()
    start = msgspec.json.decode(await reader.readline(), type=Start)
    await _WORK[work](start, reader)


if __name__ == "__main__":
    end_with_parent()
    uvloop.run(_main(sys.argv[1]))
