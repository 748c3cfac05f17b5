"""A chaos run: proxies and load start together, the share of faults changes by a timetable, and
whatever was recorded until the end, planned or not, is left in the directory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

import dstest
from dstest.chaos.child import Command, Start
from dstest.chaos.children import Child, ServiceProcess
from dstest.chaos.exchange import Upstream, upstream_of
from dstest.chaos.host import Waited, waited_ns
from dstest.chaos.lines import Written
from dstest.chaos.load import ask_once
from dstest.chaos.places import CONFIG, ENTRIES, HOST, PHASES, SERVICE, SERVICE_END
from dstest.chaos.records import Began, Entry, ServiceEnd, read_lines
from dstest.chaos.sealed import seal
from dstest.chaos.settings import Settings, listening
from dstest.core.clock import monotonic_ns, sleep_s, utc_stamp
from dstest.core.errors import ConfigError, HarnessError

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
    phases = Written(directory / PHASES)
    watch = _Watch((load, proxies), service, directory)
    try:
        load.answer()
        end_ns = monotonic_ns()
        for stretch in timetable(settings):
            told = proxies.ask(Command(phase=stretch.name, share=stretch.share))
            phases.add(Began(name=stretch.name, share=stretch.share, at_ns=told["at_ns"]))
            phases.flush()
            tell(f"{stretch.name}: {stretch.length_s:g} s")
            end_ns += int(stretch.length_s * 1e9)
            watch.stay(end_ns)
            if stretch.share != 0 and not settings.ramp.steps:
                _enough(settings, directory, end_ns, watch)
                end_ns = max(end_ns, monotonic_ns())
    finally:
        whole = load.finish(settings.load.timeout_s + 10.0)
        phases.add(Began(name="end", share=0.0, at_ns=monotonic_ns()))
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
        self._samples = Written(directory / HOST)
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
                self._samples.add(Waited(at_ns=monotonic_ns(), waited_ns=waited))
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
