"""One simulation from a seed: a system's servers, a workload's operations by the system's own
clients, faults, a history as any other, and what checkers say of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core import registry
from dstest.core.check import Budget, CheckResult
from dstest.core.errors import ConfigError, DstestError
from dstest.core.history import FaultWindow, Header, History
from dstest.core.near import meant
from dstest.core.node import CLIENTS_HOST
from dstest.core.op import Op, Outcome
from dstest.core.protocols import (
    Answer,
    Checker,
    Client,
    Definite,
    Endpoint,
    Finishing,
    Indefinite,
    MakesClients,
    Named,
    OpDraft,
    Reactive,
    Simulable,
    System,
)
from dstest.core.rng import stream_seed
from dstest.sim.forbidden import forbidden_in
from dstest.sim.network import Weather
from dstest.sim.process import PROCESS
from dstest.sim.world import Fault, FaultResult, Profile, World, plan_faults, strike

_PAUSE_S: Final = 0.05
"""After a failure, before the next operation."""

_FINAL: Final = 1_000_000
"""Process ids of the final phase begin there."""

_STEP: Final = 1000
"""Process ids of one logical client are so far apart."""

SETTLE_S: Final = 30.0
FINAL_S: Final = 120.0

TIME_MOST_S: Final = 86_400.0
"""Of load in one simulation."""


def client_of(
    system: System,
    capability: str,
    at: Endpoint,
    every: Sequence[Endpoint],
    options: Mapping[str, Any],
    name: str,
) -> Client:
    """The client that a run on nodes would have, on simulated connections."""
    simulable = system.simulable
    if isinstance(simulable, MakesClients):
        return simulable.client(capability, at, every, options, name)
    made = system.client(capability, at, every, options)
    if isinstance(made, Named):
        made.named = name
    return made


class Load:
    """`client` makes one at an endpoint; `definite` are the codes after which nothing was done."""

    def __init__(
        self,
        *,
        now_ns: Callable[[], int],
        client: Callable[[Endpoint], Client],
        endpoints: Sequence[Endpoint],
        definite: frozenset[str],
        timeout_s: float,
    ) -> None:
        self._now_ns, self._client, self._endpoints = now_ns, client, list(endpoints)
        self._definite, self._timeout_s = definite, timeout_s
        self._count = 0
        self.ops: list[Op] = []

    async def process(
        self,
        slot: int,
        draw: Callable[[int, Answer | None], OpDraft],
        until_ns: int,
        pause_s: float,
    ) -> None:
        """One logical client, until the time is over; `pause_s` between two operations."""
        client = await self._opened(slot, self._endpoints[slot % len(self._endpoints)])
        last: Answer | None = None
        while self._now_ns() < until_ns:
            last = await client.does(draw(slot, last))
            await asyncio.sleep(pause_s if last.kind == "ok" else max(pause_s, _PAUSE_S))
        await client.close()

    async def _opened(self, process_id: int, end: Endpoint) -> _Process:
        made = _Process(self, process_id, end, self._client)
        await made.open()
        return made

    async def final(
        self, ask: Callable[[int, Answer | None], OpDraft | None], until_ns: int
    ) -> None:
        """The final state, node after node."""
        for node, end in enumerate(self._endpoints):
            client = await self._opened(_FINAL + node, end)
            last: Answer | None = None
            while self._now_ns() < until_ns:
                draft = ask(node, last)
                if draft is None:
                    break
                last = await client.does(draft)
                if last.kind != "ok":
                    await asyncio.sleep(_PAUSE_S)
            await client.close()

    async def operation(self, draft: OpDraft, process_id: int, node: str, client: Client) -> Answer:
        """One, recorded."""
        op_id, self._count = self._count, self._count + 1
        invoke_ns = self._now_ns()
        kind, output, error = "ok", None, None
        try:
            reply = await client.invoke(draft, self._timeout_s)
            output = reply.output
        except Definite as refused:
            kind = "fail" if refused.code in self._definite else "unknown"
            error = str(refused)
        except Indefinite as unknown:
            kind, error = "unknown", str(unknown)
        self.ops.append(
            Op(
                op_id=op_id,
                process_id=process_id,
                invoke_ts=invoke_ns,
                complete_ts=self._now_ns() if kind != "unknown" else None,
                op_type=draft.op_type,
                key=draft.key,
                input=draft.input,
                output=output,
                error=error,
                timeout_marker=kind == "unknown",
                node_seen=node,
            )
        )
        return Answer(draft, kind, output)

    def history(self) -> list[Op]:
        """In order of invocation."""
        return sorted(self.ops, key=lambda op: (op.invoke_ts, int(op.op_id)))


class _Process:
    """A logical process: after an unknown outcome another one, with a client of its own."""

    def __init__(
        self, load: Load, process_id: int, end: Endpoint, make: Callable[[Endpoint], Client]
    ) -> None:
        self._load, self._id, self._end, self._make = load, process_id, end, make
        self._client = make(end)

    async def open(self) -> None:
        """Before the first operation."""
        await self._client.open()

    async def close(self) -> None:
        """After the last one."""
        await self._client.close()

    async def does(self, draft: OpDraft) -> Answer:
        """One operation, when what it waits for is over."""
        if draft.after_ns:
            await asyncio.sleep(draft.after_ns / 1e9)
        answer = await self._load.operation(draft, self._id, self._end.node, self._client)
        if answer.kind == "unknown":
            self._id += _STEP
            await self._client.close()
            self._client = self._make(self._end)
            await self._client.open()
        return answer


class SimSpec(msgspec.Struct, frozen=True, kw_only=True):
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


class SimResult(msgspec.Struct, frozen=True, kw_only=True):
    """`digest` is over all that happened: equal for equal seeds. `failures` are ends of servers and
    errors of servers and clients that no fault had asked for; `unserved` is when the cluster did
    not come to serve. `asked`: were there to be faults? `notes` are what servers have written for
    people, by host and file."""

    seed: int
    digest: str
    events: int
    time_s: float
    history: History
    faults: list[FaultResult]
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
        if registry.load("systems", name).simulable is not None
    ]


def simulable_of(system: str) -> Simulable:
    """How it is simulated. Raises ConfigError for one that cannot be, or calls what cannot be."""
    simulable: Simulable | None = registry.load("systems", system).simulable
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


def sim_spec_of(system: str, workload: str, given: list[str], **more: Any) -> SimSpec:
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
    wanted = SimSpec(system=system, workload=workload, options=options, **more)
    if not (math.isfinite(wanted.time_s) and 0 < wanted.time_s <= TIME_MOST_S):
        raise ConfigError(
            f"{wanted.time_s} seconds of load", remedy=f"more than 0, at most {TIME_MOST_S:.0f}"
        )
    return wanted


def simulate(wanted: SimSpec, seed: int) -> SimResult:
    """The same for the same `wanted` and seed, wherever it runs."""
    workload = registry.load("workloads", wanted.workload)
    system = registry.load("systems", wanted.system)
    simulable = system.simulable
    assert simulable is not None, "sim_spec_of has looked"
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
        faults = tuple(plan_faults(wanted.profile, names, wanted.time_s, world.stream("faults")))
    course = _Course(world, wanted, simulable, load, generator)
    try:
        world.run(course.run(faults), CLIENTS_HOST)
    except (Exception, SystemExit) as error:
        world.loop.failures.append(f"the simulation ended early: {_error_text(error)}")
    finally:
        world.close()
    sent, answered = world.net.sent[CLIENTS_HOST], sum(op.outcome is Outcome.OK for op in load.ops)
    if sent < answered:  # one operation waits for another, and each has a message at least
        world.loop.failures.append(
            f"clients sent {sent:,} messages for {answered:,} operations that were answered"
        )
    struck = course.struck
    history = _history(wanted, workload, load, struck, names, seed)
    return SimResult(
        seed=seed,
        digest=world.log.digest,
        events=world.log.count,
        time_s=world.loop.time_ns / 1e9,
        history=history,
        faults=struck,
        results=[_judge(name, history, workload.model) for name in workload.checkers],
        failures=world.loop.failures,
        unserved=course.unserved,
        asked=bool(wanted.profile.kinds if wanted.plan is None else wanted.plan),
        log=world.log.lines,
        notes=_notes(world),
    )


def _judge(name: str, history: History, model: str) -> CheckResult:
    """By the workload's model where the checker knows it, by its own otherwise."""
    checker: Checker = registry.load("checkers", name)
    return checker.check(history, model if model in checker.models else checker.models[0], Budget())


def _error_text(error: BaseException) -> str:
    return str(error) if isinstance(error, DstestError) else repr(error)


class _Course:
    """Start, load and faults, final state. `struck` and `unserved` are what came of it."""

    def __init__(
        self, world: World, wanted: SimSpec, simulable: Simulable, load: Load, generator: Any
    ) -> None:
        self._world, self._wanted, self._simulable = world, wanted, simulable
        self._load, self._generator = load, generator
        self.struck: list[FaultResult] = []
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
            self._world.loop.fail(PROCESS.get(), f"client {slot} ended with {_error_text(error)}")

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
    wanted: SimSpec,
    workload: Any,
    load: Load,
    struck: list[FaultResult],
    names: list[str],
    seed: int,
) -> History:
    windows = [
        FaultWindow(
            id=f"f{number}",
            epoch=f"f{number}",
            nemesis=one.fault.kind,
            start_ns=one.from_ns,
            landed_ns=one.from_ns if one.landed else None,
            heal_ns=one.until_ns,
            healed_ns=one.until_ns,
            landed="yes" if one.landed else "no",
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
