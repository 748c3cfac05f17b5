"""One simulation from a seed: a system's servers and clients, faults, a history, what checkers say
of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError, DstestError
from dstest.core.history import Header, History, Window
from dstest.core.near import meant
from dstest.core.node import CLIENTS_HOST
from dstest.core.op import Outcome
from dstest.core.protocols import Checker, Endpoint, Finishing, Reactive, Simulable, SystemTraits
from dstest.core.rng import stream_seed
from dstest.sim.faults import Fault, Profile, Struck, planned, strike
from dstest.sim.forbidden import forbidden_in
from dstest.sim.load import Load, client_of
from dstest.sim.network import Weather
from dstest.sim.process import PROCESS
from dstest.sim.world import World

SETTLE_S: Final = 30.0
FINAL_S: Final = 120.0

TIME_MOST_S: Final = 86_400.0
"""Of load in one simulation."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is simulated. `options` are of system and workload, typed, with their defaults."""

    system: str
    workload: str
    hosts: int = 3
    clients: int = 5
    time_s: float = 15.0
    pause_s: float = 0.05
    op_timeout_s: float = 2.0
    profile: Profile = Profile()
    weather: Weather = Weather()
    options: Mapping[str, Any] = {}
    plan: tuple[Fault, ...] | None = None


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is over all that happened: equal for equal seeds. `failures` are ends of servers and
    errors of servers and clients that no fault had asked for; `unserved` is when the cluster did
    not come to serve. `asked`: were there to be faults? `notes` are what servers have written for
    people, by host and file."""

    seed: int
    digest: str
    events: int
    time_s: float
    history: History
    faults: list[Struck]
    results: list[CheckResult]
    failures: list[str]
    unserved: list[str]
    asked: bool
    log: list[str]
    notes: dict[str, dict[str, str]] = {}

    @property
    def violated(self) -> bool:
        """Did a checker find something?"""
        return any(one.valid is False for one in self.results)

    @property
    def landed(self) -> int:
        """Faults whose victims showed them."""
        return sum(one.landed is not None for one in self.faults)


def simulable_names() -> list[str]:
    """The systems that can be simulated."""
    return [
        name
        for name in registry.names("systems")
        if SystemTraits.of(registry.load("systems", name)).simulable is not None
    ]


def simulable_of(system: str) -> Simulable:
    """How it is simulated. Raises ConfigError for one that cannot be, or calls what cannot be."""
    simulable = SystemTraits.of(registry.load("systems", system)).simulable
    if simulable is None:
        raise ConfigError(f"{system} cannot be simulated", remedy=meant(system, simulable_names()))
    if not simulable.modules:
        raise ConfigError(
            f"{system} does not name the modules of its servers",
            remedy="simulable.modules: those that run in the simulation, docs/new-simulation.md",
        )
    for name in simulable.modules:
        for call in forbidden_in(_file_of(name, system)):
            raise ConfigError(str(call), remedy="what a host is given: docs/new-simulation.md")
    return simulable


def _file_of(module: str, system: str) -> Path:
    """Raises ConfigError where nothing of this name can be imported, or it is no file."""
    try:
        return Path(str(import_module(module).__file__))
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{module}, which simulable.modules of {system} names, cannot be imported: "
            f"{type(error).__name__}: {error}",
            remedy="modules are names as `import` takes them; one in a file beside that of the"
            " system is imported there",
        ) from None


def wanted_of(system: str, workload: str, given: list[str], **more: Any) -> Wanted:
    """With the options `key=value` of system and workload.

    Raises ConfigError for names that are none, a system that cannot be simulated or calls what
    cannot be, and a workload that asks for what its clients cannot do.
    """
    simulable_of(system)
    of, work = registry.load("systems", system), registry.load("workloads", workload)
    if work.capability not in of.capabilities:
        raise ConfigError(
            f"{system} has no clients for {workload}, which needs {work.capability}",
            remedy=f"`dstest list --system {system}` has what fits",
        )
    declared = {**of.options, **work.options}
    options = registry.parse_options(given, declared, f"{system} and {workload}")
    wanted = Wanted(system=system, workload=workload, options=options, **more)
    if not (math.isfinite(wanted.time_s) and 0 < wanted.time_s <= TIME_MOST_S):
        raise ConfigError(
            f"{wanted.time_s} seconds of load", remedy=f"more than 0, at most {TIME_MOST_S:.0f}"
        )
    return wanted


def simulate(wanted: Wanted, seed: int) -> Simulated:
    """The same for the same `wanted` and seed, wherever it runs."""
    workload = registry.load("workloads", wanted.workload)
    system = registry.load("systems", wanted.system)
    simulable = SystemTraits.of(system).simulable
    assert simulable is not None, "wanted_of has looked"
    options = {**wanted.options, "op_timeout_s": wanted.op_timeout_s}
    names = [f"n{number + 1}" for number in range(wanted.hosts)]
    world = World(
        seed, names, lambda world, host: simulable.main(world, host, options), wanted.weather
    )
    generator = workload.generator(
        stream_seed(seed, "sim", "load") % (1 << 32), 0, wanted.clients, options
    )
    endpoints = [Endpoint(node=name, address=name, port=simulable.port) for name in names]
    numbered = iter(range(1 << 30))
    load = Load(
        now_ns=lambda: world.loop.time_ns,
        client=lambda at: client_of(
            system, workload.capability, at, endpoints, options, f"c{next(numbered)}"
        ),
        endpoints=endpoints,
        definite=frozenset(system.definite_errors),
        timeout_s=wanted.op_timeout_s,
    )
    faults = wanted.plan
    if faults is None:
        faults = tuple(planned(wanted.profile, names, wanted.time_s, world.stream("faults")))
    course = _Course(world, wanted, simulable, load, generator)
    try:
        world.run(course.run(faults), CLIENTS_HOST)
    except (Exception, SystemExit) as error:
        world.loop.failures.append(f"the simulation ended early: {_told(error)}")
    finally:
        world.close()
    sent, answered = world.net.sent[CLIENTS_HOST], sum(op.outcome is Outcome.OK for op in load.ops)
    if sent < answered:  # one operation waits for another, and each has a message at least
        world.loop.failures.append(
            f"clients sent {sent:,} messages for {answered:,} operations that were answered"
        )
    struck = course.struck
    history = _history(wanted, workload, load, struck, names, seed)
    return Simulated(
        seed=seed,
        digest=world.log.digest,
        events=world.log.count,
        time_s=world.loop.time_ns / 1e9,
        history=history,
        faults=struck,
        results=[_judged(name, history, workload.model) for name in workload.checkers],
        failures=world.loop.failures,
        unserved=course.unserved,
        asked=bool(wanted.profile.kinds if wanted.plan is None else wanted.plan),
        log=world.log.lines,
        notes=_notes(world),
    )


def _judged(name: str, history: History, model: str) -> CheckResult:
    """By the workload's model where the checker knows it, by its own otherwise."""
    checker: Checker = registry.load("checkers", name)
    return checker.check(history, model if model in checker.models else checker.models[0], Budget())


def _told(error: BaseException) -> str:
    return str(error) if isinstance(error, DstestError) else repr(error)


class _Course:
    """Start, load and faults, final state. `struck` and `unserved` are what came of it."""

    def __init__(
        self, world: World, wanted: Wanted, simulable: Simulable, load: Load, generator: Any
    ) -> None:
        self._world, self._wanted, self._simulable = world, wanted, simulable
        self._load, self._generator = load, generator
        self.struck: list[Struck] = []
        self.unserved: list[str] = []

    async def run(self, faults: tuple[Fault, ...] | list[Fault]) -> None:
        """All of it."""
        world = self._world
        for name in world.hosts:
            world.start(name)
        await self._settled("before the load")
        begin_s = world.loop.time_ns / 1e9
        until_ns = world.loop.time_ns + int(self._wanted.time_s * 1e9)
        working = [
            asyncio.ensure_future(self._client(slot, until_ns))
            for slot in range(self._wanted.clients)
        ]
        for fault in faults:
            await asyncio.sleep(max(0.0, begin_s + fault.at_s - world.loop.time_ns / 1e9))
            self.struck.append(await strike(world, fault))
        await asyncio.gather(*working)
        await self._settled("after the load")
        if isinstance(self._generator, Finishing):
            final_ns = world.loop.time_ns + int(FINAL_S * 1e9)
            await self._load.final(self._generator.final, final_ns)

    async def _client(self, slot: int, until_ns: int) -> None:
        generator = self._generator
        reactive = isinstance(generator, Reactive)
        draw = generator.next_for if reactive else lambda slot, last: generator.next()
        try:
            await self._load.process(slot, draw, until_ns, self._wanted.pause_s)
        except Exception as error:
            self._world.loop.fail(PROCESS.get(), f"client {slot} ended with {_told(error)}")

    async def _settled(self, when: str) -> None:
        """Until all serve."""
        loop = self._world.loop
        until_ns = loop.time_ns + int(SETTLE_S * 1e9)
        while not await self._simulable.serves(self._world):
            if loop.time_ns >= until_ns:
                self.unserved.append(when)
                return
            await asyncio.sleep(0.1)


def _history(
    wanted: Wanted, workload: Any, load: Load, struck: list[Struck], names: list[str], seed: int
) -> History:
    windows = [
        Window(
            epoch=f"f{number}",
            nemesis=one.fault.kind,
            inject_start=one.from_ns,
            landed_at=one.from_ns if one.landed else None,
            heal_start=one.until_ns,
            healed_at=one.until_ns,
        )
        for number, one in enumerate(struck, 1)
    ]
    header = Header(
        workload=wanted.workload,
        model=workload.model,
        checkers=list(workload.checkers),
        system=wanted.system,
        nodes=names,
        concurrency=wanted.clients,
        seed=seed,
        windows=windows,
        options=dict(wanted.options),
    )
    return History(header=header, ops=load.history())


def _notes(world: World) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for (host, name), lines in world.kept().items():
        found.setdefault(host, {})[name] = "\n".join([*lines, ""])
    return found
