"""A chaos run: proxies and load start together, as processes of their own, the share of faults
changes by a timetable, and whatever was recorded until the end, planned or not, is left in the
directory."""

from __future__ import annotations

import asyncio
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

import dstest
from dstest.chaos.child import Command, Start
from dstest.chaos.host import WaitSample, waited_ns
from dstest.chaos.http1 import Upstream, upstream_of
from dstest.chaos.load import ask_once
from dstest.chaos.records import (
    CONFIG,
    ENTRIES,
    HOST,
    PHASES,
    SERVICE,
    SERVICE_END,
    Entry,
    LineWriter,
    PhaseBegin,
    ServiceEnd,
    read_lines,
    seal,
)
from dstest.chaos.settings import Settings, listening
from dstest.core.clock import monotonic_ns, sleep_s, utc_stamp
from dstest.core.errors import ConfigError, HarnessError
from dstest.core.processes import environment

_GRACE_S: Final = 10.0
"""Until a service that was asked to end is killed."""


class Child:
    """`python -m dstest.chaos.child WORK`, spoken to by lines."""

    def __init__(self, work: str, start: Any) -> None:
        self.work = work
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dstest.chaos.child", work],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours to answer
            env=environment(),
        )
        self._send(start)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """The exit code, where it is over."""
        return self._process.poll()

    def ask(self, told: Any, within_s: float = 10.0) -> dict[str, Any]:
        """Send a line and read the answer. Raises HarnessError."""
        self._send(told)
        return self.answer(within_s)

    def answer(self, within_s: float = 30.0) -> dict[str, Any]:
        """The next line that it says. Raises HarnessError where none comes."""
        out = self._process.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], within_s)
        line = out.readline() if ready else b""
        if not line:
            raise HarnessError(
                f"the process of the {self.work} said nothing within {within_s:g} s"
                if not ready
                else f"the process of the {self.work} ended (exit {self._process.wait()})",
                remedy="what was recorded until then stands: dstest chaos report DIR",
            )
        found: dict[str, Any] = msgspec.json.decode(line)
        return found

    def finish(self, within_s: float) -> bool:
        """End its input and wait. True where it ended by itself, having written all."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            return self._process.wait(within_s) == 0
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False

    def _send(self, told: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(told) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise HarnessError(
                f"the process of the {self.work} ended (exit {self._process.wait()})",
                remedy="what was recorded until then stands: dstest chaos report DIR",
            ) from None


class ServiceProcess:
    """The service, where its command was given: it ends with us, and so does what it started."""

    def __init__(self, command: Sequence[str], more: Mapping[str, str], log: Path) -> None:
        if shutil.which(command[0]) is None:
            raise ConfigError(
                f"[service] command {command[0]!r} is no program that is found",
                remedy="a program that is found on PATH, and its words one by one",
            )
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "dstest.chaos.keeper", *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **more},
            )
        self.log = log

    @property
    def ended(self) -> int | None:
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Of the process from which all of it descends."""
        return self._process.pid

    def stop(self) -> None:
        """End all of it, kindly first."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
                return


_TICK_S: Final = 0.2


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """`chaos-config.json`."""

    version: str
    began: str
    settings: Settings
    ports: dict[str, int]


class Stretch(NamedTuple):
    """`share` None: what the profiles say."""

    name: str
    share: float | None
    length_s: float


def timetable(settings: Settings) -> list[Stretch]:
    """Quiet first and last; between them the profile's faults, or the steps of the ramp with a rest
    after each."""
    quiet, load, ramp = settings.load.quiet_s, settings.load, settings.ramp
    if ramp.steps:
        middle = []
        for share in ramp.steps:
            middle.append(Stretch(f"step {share:g}", share, ramp.step_s))
            middle.append(Stretch(f"rest after {share:g}", 0.0, ramp.rest_s))
        return [Stretch("before", 0.0, quiet), *middle]
    length_s = min(load.requests * len(settings.endpoint) / load.rate, load.deadline_s)
    return [
        Stretch("before", 0.0, quiet),
        Stretch("faults", None, length_s),
        Stretch("after", 0.0, quiet),
    ]


def conduct(settings: Settings, directory: Path, tell: Callable[[str], None]) -> None:
    """Run it. What is recorded lies in `directory`, also where this raises: ConfigError before the
    first fault, HarnessError where a process of ours died, KeyboardInterrupt."""
    with _proxies(settings, directory) as (proxies, ports):
        config = Config(
            version=dstest.__version__, began=utc_stamp(), settings=settings, ports=ports
        )
        (directory / CONFIG).write_bytes(msgspec.json.format(msgspec.json.encode(config)))
        with _service(settings, ports, directory) as service:
            _reached(settings, service)
            tell("the service answers; the load begins")
            _loaded(settings, directory, proxies, ports, service, tell)
    seal(directory)


@contextmanager
def _proxies(settings: Settings, directory: Path) -> Iterator[tuple[Child, dict[str, int]]]:
    proxies = Child("proxies", Start(settings=settings, directory=str(directory)))
    try:
        told = proxies.answer()
        if refused := told.get("refused"):
            raise ConfigError(
                f"proxy {refused}", remedy="a port that is free, or 0 for any, as `listen`"
            )
        yield proxies, told["ports"]
    finally:
        proxies.finish(10.0)


@contextmanager
def _service(
    settings: Settings, ports: dict[str, int], directory: Path
) -> Iterator[ServiceProcess | None]:
    told = settings.service
    if told is None:
        yield None
        return
    first = asyncio.run(ask_once(upstream_of(settings.target), settings.endpoint[0], 1.0))
    if first.get("trouble") != "refused":
        raise ConfigError(
            f"something answers at {settings.target} before the service was started",
            remedy="end it, or leave [service] command out to test what runs there",
        )
    more = {name: _filled(value, settings, ports) for name, value in told.environment.items()}
    service = ServiceProcess(told.command, more, directory / SERVICE)
    try:
        yield service
    finally:
        service.stop()


def _filled(value: str, settings: Settings, ports: dict[str, int]) -> str:
    for one in settings.proxy:
        place = listening(one)._replace(port=ports[one.name])
        value = value.replace(f"{{proxy.{one.name}}}", f"http://{place.address}")
    return value


def _reached(settings: Settings, service: ServiceProcess | None) -> None:
    """Wait until the target answers anything. Raises ConfigError."""
    upstream = upstream_of(settings.target)
    within_s = settings.service.ready_s if settings.service is not None else 10.0
    end_ns = monotonic_ns() + int(within_s * 1e9)
    while True:
        told = asyncio.run(ask_once(upstream, settings.endpoint[0], settings.load.timeout_s))
        if service is not None and service.ended is not None:
            raise ConfigError(
                f"the service's command ended (exit {service.ended})", remedy=f"see {service.log}"
            )
        if "status" in told:
            return
        if monotonic_ns() > end_ns:
            raise ConfigError(
                f"{settings.target} does not answer ({told['why']}), {within_s:g} s long",
                remedy="start it before, or name [service] command",
            )
        sleep_s(0.2)


def _loaded(
    settings: Settings,
    directory: Path,
    proxies: Child,
    ports: dict[str, int],
    service: ServiceProcess | None,
    tell: Callable[[str], None],
) -> None:
    front = settings.front
    at: Upstream | None = None
    if front is not None:
        at = listening(front)._replace(port=ports[front.name])
    load = Child("load", Start(settings=settings, directory=str(directory), front=at))
    phases = LineWriter(directory / PHASES)
    watch = _Watch((load, proxies), service, directory)
    try:
        load.answer()
        end_ns = monotonic_ns()
        for stretch in timetable(settings):
            told = proxies.ask(Command(phase=stretch.name, share=stretch.share))
            phases.add(PhaseBegin(name=stretch.name, share=stretch.share, at_ns=told["at_ns"]))
            phases.flush()
            tell(f"{stretch.name}: {stretch.length_s:g} s")
            end_ns += int(stretch.length_s * 1e9)
            watch.stay(end_ns)
            if stretch.share != 0 and not settings.ramp.steps:
                _enough(settings, directory, end_ns, watch)
                end_ns = max(end_ns, monotonic_ns())
    finally:
        whole = load.finish(settings.load.timeout_s + 10.0)
        phases.add(PhaseBegin(name="end", share=0.0, at_ns=monotonic_ns()))
        phases.close()
        watch.close()
        if not whole:
            tell("the load ended before its time: what it recorded is not all")


class _Watch:
    """The processes that a run needs, and how long the service waited for a core."""

    def __init__(
        self, own: Sequence[Child], service: ServiceProcess | None, directory: Path
    ) -> None:
        self._own = own
        self._service = service
        self._samples = LineWriter(directory / HOST)
        self._ended = directory / SERVICE_END

    def stay(self, end_ns: int) -> None:
        """Until a time. Raises HarnessError where a process of ours ends meanwhile."""
        while (left_s := (end_ns - monotonic_ns()) / 1e9) > 0:
            for child in self._own:
                if child.ended is not None:
                    raise HarnessError(
                        f"the process of the {child.work} ended (exit {child.ended})",
                        remedy="what was recorded until then is told all the same",
                    )
            if self._service is not None:
                self._look_at(self._service)
                waited = waited_ns(self._service.pid)
                self._samples.add(WaitSample(at_ns=monotonic_ns(), waited_ns=waited))
                self._samples.flush()
            sleep_s(min(left_s, _TICK_S))

    def _look_at(self, service: ServiceProcess) -> None:
        """A service that ends under load is what a run is for to show: written down once."""
        if service.ended is not None and not self._ended.exists():
            told = ServiceEnd(exit=service.ended, at_ns=monotonic_ns())
            self._ended.write_bytes(msgspec.json.encode(told))

    def close(self) -> None:
        self._samples.close()


def _enough(settings: Settings, directory: Path, begin_ns: int, watch: _Watch) -> None:
    """Stay until so many requests have ended as are asked for at least, or the deadline."""
    length_s = timetable(settings)[1].length_s
    last_ns = begin_ns + int((settings.load.deadline_s - length_s) * 1e9)
    while monotonic_ns() < last_ns:
        count = sum(1 for _ in read_lines(directory / ENTRIES, Entry))
        if count >= settings.load.min_entries:
            return
        watch.stay(monotonic_ns() + 500_000_000)
